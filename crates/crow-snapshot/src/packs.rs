//! Packs: many small contents in one file. A file of its own takes a block of the disk for each, and most files of a large
//! project are small.
//!
//! A pack is written once, whole: the contents one after the other, then for each its hash, offset and length, then how
//! many there are. Only a collection replaces it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use uuid::Uuid;

use super::{
    ObjectHash, SnapshotStoreError,
    error::at,
    objects::{entries, private_folder, replace},
};

const PACKS: &str = "packs";
/// Longer contents have files of their own.
pub(super) const SMALL: usize = 2048;
/// Fewer are not worth a pack.
const LEAST: usize = 64;
/// A pack that has so many bytes is written.
const MOST: usize = 8 * 1024 * 1024;
const HASH: usize = 32;
/// Of one line of the list: hash, offset and length.
const LINE: usize = HASH + 8 + 4;
const COUNT: usize = 8;

/// The packs of a store.
#[derive(Debug)]
pub(super) struct Packs {
    folder: PathBuf,
    known: Mutex<PackIndex>,
}

/// The index of the packs on disk.
#[derive(Debug, Default)]
struct PackIndex {
    /// When the folder changed last, as far as it was read.
    changed: Option<SystemTime>,
    packs: BTreeMap<OsString, Arc<Path>>,
    places: HashMap<ObjectHash, PackLocation>,
}

/// The location of a content in a pack.
#[derive(Debug, Clone)]
struct PackLocation {
    pack: Arc<Path>,
    offset: u64,
    length: u32,
}

/// Contents that are gathered for a pack.
#[derive(Debug, Default)]
pub(super) struct NewPack {
    bytes: Vec<u8>,
    hashes: HashSet<ObjectHash>,
    lines: Vec<(ObjectHash, u64, u32)>,
}

impl NewPack {
    /// Returns whether it is time to write it.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MOST
    }

    pub(super) fn has(&self, hash: &ObjectHash) -> bool {
        self.hashes.contains(hash)
    }

    pub(super) fn add(&mut self, hash: ObjectHash, packed: &[u8]) {
        self.hashes.insert(hash);
        let length = u32::try_from(packed.len()).unwrap_or(u32::MAX);
        self.lines.push((hash, self.bytes.len() as u64, length));
        self.bytes.extend_from_slice(packed);
    }

    /// Returns the contents, where there are too few for a pack.
    pub(super) fn too_few(&self) -> Option<impl Iterator<Item = (&ObjectHash, &[u8])>> {
        let all = self.lines.iter().filter_map(|(hash, offset, length)| {
            let begin = usize::try_from(*offset).ok()?;
            Some((hash, self.bytes.get(begin..begin + *length as usize)?))
        });
        (self.lines.len() < LEAST).then_some(all)
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn file(mut self) -> Vec<u8> {
        for (hash, offset, length) in &self.lines {
            self.bytes.extend_from_slice(&hash.0);
            self.bytes.extend_from_slice(&offset.to_le_bytes());
            self.bytes.extend_from_slice(&length.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.lines.len() as u64).to_le_bytes());
        self.bytes
    }
}

impl Packs {
    pub(crate) fn new(store: &Path) -> Self {
        Self { folder: store.join(PACKS), known: Mutex::default() }
    }

    /// Returns whether a content is in a pack, without reading it.
    pub(super) fn has(&self, hash: &ObjectHash) -> bool {
        self.known().places.contains_key(hash)
    }

    /// Reads a content as it was packed.
    pub(super) fn read(&self, hash: &ObjectHash) -> Option<io::Result<Vec<u8>>> {
        let place = self.known().places.get(hash).cloned();
        // Another process may have written a pack in the moment in which the folder was looked at.
        let place = place.or_else(|| {
            let mut known = self.lock();
            known.learn(&self.folder);
            known.places.get(hash).cloned()
        });
        let PackLocation { pack, offset, length } = place?;
        let mut bytes = vec![0; length as usize];
        let read = File::open(pack).and_then(|file| file.read_exact_at(&mut bytes, offset));
        Some(read.map(|()| bytes))
    }

    /// Writes a pack. Its contents are there when this returns.
    pub(super) fn write(&self, unfinished: &Path, new: NewPack) -> Result<(), SnapshotStoreError> {
        if new.is_empty() {
            return Ok(());
        }
        private_folder(&self.folder).map_err(at(&self.folder))?;
        let path = self.folder.join(Uuid::now_v7().to_string());
        replace(unfinished, &path, &new.file()).map_err(at(path))?;
        self.lock().changed = None;
        Ok(())
    }

    /// Keeps of all contents those that are wanted. Only for who has the store alone.
    pub(super) fn retain(
        &self,
        unfinished: &Path,
        mut is_wanted: impl FnMut(&ObjectHash, u64) -> Result<bool, SnapshotStoreError>,
    ) -> Result<(), SnapshotStoreError> {
        let known = self.known().packs.clone();
        for file in entries(&self.folder).unwrap_or_default() {
            let path = file.path();
            if !known.contains_key(&file.file_name()) {
                // Its contents cannot be read.
                fs::remove_file(&path).map_err(at(path))?;
            }
        }
        for pack in known.into_values() {
            let file = fs::read(&pack).map_err(at(&*pack))?;
            let (mut kept, mut all) = (NewPack::default(), true);
            for (hash, offset, length) in lines_of(&file) {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX);
                let content = file.get(begin..begin.saturating_add(length as usize));
                match content {
                    Some(content) if is_wanted(&hash, u64::from(length))? => {
                        kept.add(hash, content);
                    }
                    Some(_) | None => all = false,
                }
            }
            if !all {
                self.write(unfinished, kept)?;
                fs::remove_file(&pack).map_err(at(&*pack))?;
            }
        }
        self.lock().changed = None;
        Ok(())
    }

    /// Looks whether the packs are still those that are known.
    fn known(&self) -> MutexGuard<'_, PackIndex> {
        let mut known = self.lock();
        let changed = fs::symlink_metadata(&self.folder).and_then(|folder| folder.modified()).ok();
        if changed.is_none() {
            *known = PackIndex::default();
        } else if changed != known.changed {
            known.learn(&self.folder);
            known.changed = changed;
        }
        known
    }

    fn lock(&self) -> MutexGuard<'_, PackIndex> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackIndex {
    fn learn(&mut self, folder: &Path) {
        let found: BTreeMap<OsString, PathBuf> = entries(folder)
            .unwrap_or_default()
            .into_iter()
            .map(|entry| (entry.file_name(), entry.path()))
            .collect();
        let gone = self.packs.len();
        self.packs.retain(|name, _| found.contains_key(name));
        if self.packs.len() < gone {
            let left: Vec<Arc<Path>> = self.packs.values().cloned().collect();
            self.places.retain(|_, place| left.iter().any(|pack| Arc::ptr_eq(pack, &place.pack)));
        }
        for (name, path) in found {
            if self.packs.contains_key(&name) {
                continue;
            }
            match list(&path) {
                Ok(lines) => {
                    let pack: Arc<Path> = path.into();
                    self.places.extend(lines.into_iter().map(|(hash, offset, length)| {
                        (hash, PackLocation { pack: Arc::clone(&pack), offset, length })
                    }));
                    self.packs.insert(name, pack);
                }
                // Its contents count as missing; the next scan stores them again.
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a pack of contents cannot be read");
                }
            }
        }
    }
}

/// Reads what a pack holds, without the contents.
fn list(path: &Path) -> io::Result<Vec<(ObjectHash, u64, u32)>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let end = size.checked_sub(COUNT as u64).ok_or_else(damaged)?;
    let mut count = [0; COUNT];
    file.read_exact_at(&mut count, end)?;
    let bytes = u64::from_le_bytes(count).checked_mul(LINE as u64).ok_or_else(damaged)?;
    let begin = end.checked_sub(bytes).ok_or_else(damaged)?;
    let mut lines = vec![0; usize::try_from(bytes).map_err(|_| damaged())?];
    file.read_exact_at(&mut lines, begin)?;
    lines.chunks_exact(LINE).map(|line| parse(line).ok_or_else(damaged)).collect()
}

/// The same of a pack that was read whole.
fn lines_of(file: &[u8]) -> Vec<(ObjectHash, u64, u32)> {
    let lines = || {
        let (rest, count) = file.split_last_chunk::<COUNT>()?;
        let bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(LINE)?;
        let lines = rest.get(rest.len().checked_sub(bytes)?..)?;
        Some(lines.chunks_exact(LINE).filter_map(parse).collect())
    };
    lines().unwrap_or_default()
}

fn parse(line: &[u8]) -> Option<(ObjectHash, u64, u32)> {
    let (hash, rest) = line.split_first_chunk::<HASH>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let length = rest.first_chunk::<4>()?;
    let hash = ObjectHash(*hash);
    Some((hash, u64::from_le_bytes(*offset), u32::from_le_bytes(*length)))
}
