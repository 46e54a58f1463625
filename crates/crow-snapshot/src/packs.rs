//! Packs: many small contents in one file. A separate file takes at least one block of the disk, and most files of a
//! large project are small.
//!
//! Layout: the contents one after the other, then one line per content (hash, offset, length), then the number of
//! lines. A pack is written once, completely; only a garbage collection replaces it.

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
    error::io_error_at,
    objects::{entries, private_folder, replace},
};

const PACKS: &str = "packs";
/// Largest length in bytes of a content in a pack; longer ones have files of their own.
pub(super) const SMALL: usize = 2048;
/// Fewest contents that make a pack.
const LEAST: usize = 64;
/// Size in bytes at which a pack is written.
const MOST: usize = 8 * 1024 * 1024;
const HASH: usize = 32;
/// Length in bytes of one line of the list: hash, offset and length.
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
    /// Modification time of the folder when it was last read.
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
    /// Returns whether it is large enough to be written.
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

    /// Returns the contents if there are too few for a pack.
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

    /// Reads a content in its packed form; `None` if no pack holds it.
    pub(super) fn read(&self, hash: &ObjectHash) -> Option<io::Result<Vec<u8>>> {
        let location = self.known().places.get(hash).cloned();
        // Another process may have written a pack within the same tick of the folder's modification time.
        let location = location.or_else(|| {
            let mut known = self.lock();
            known.learn(&self.folder);
            known.places.get(hash).cloned()
        });
        let PackLocation { pack, offset, length } = location?;
        let mut bytes = vec![0; length as usize];
        let read = File::open(pack).and_then(|file| file.read_exact_at(&mut bytes, offset));
        Some(read.map(|()| bytes))
    }

    /// Writes a pack. Its contents can be read once this returns.
    pub(super) fn write(&self, unfinished: &Path, new: NewPack) -> Result<(), SnapshotStoreError> {
        if new.is_empty() {
            return Ok(());
        }
        private_folder(&self.folder).map_err(io_error_at(&self.folder))?;
        let path = self.folder.join(Uuid::now_v7().to_string());
        replace(unfinished, &path, &new.file()).map_err(io_error_at(path))?;
        self.lock().changed = None;
        Ok(())
    }

    /// Removes the contents for which `is_wanted` returns false. Needs exclusive access to the store.
    pub(super) fn retain(
        &self,
        unfinished: &Path,
        mut is_wanted: impl FnMut(&ObjectHash, u64) -> Result<bool, SnapshotStoreError>,
    ) -> Result<(), SnapshotStoreError> {
        let known = self.known().packs.clone();
        for file in entries(&self.folder).unwrap_or_default() {
            let path = file.path();
            if !known.contains_key(&file.file_name()) {
                // An unreadable pack: its contents are lost.
                fs::remove_file(&path).map_err(io_error_at(path))?;
            }
        }
        for pack in known.into_values() {
            let file = fs::read(&pack).map_err(io_error_at(&*pack))?;
            // A pack is rewritten only if it loses a content.
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
                fs::remove_file(&pack).map_err(io_error_at(&*pack))?;
            }
        }
        self.lock().changed = None;
        Ok(())
    }

    /// Returns the index of the packs, reread if the folder changed.
    fn known(&self) -> MutexGuard<'_, PackIndex> {
        let mut known = self.lock();
        let changed = fs::symlink_metadata(&self.folder).and_then(|folder| folder.modified()).ok();
        // Without the folder there are no packs.
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
        // 1) Forget packs that were removed, with their contents.
        let count_before = self.packs.len();
        self.packs.retain(|name, _| found.contains_key(name));
        if self.packs.len() < count_before {
            let left: Vec<Arc<Path>> = self.packs.values().cloned().collect();
            self.places.retain(|_, place| left.iter().any(|pack| Arc::ptr_eq(pack, &place.pack)));
        }
        // 2) Read the lists of new packs.
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

/// Reads the list of a pack, without the contents.
fn list(path: &Path) -> io::Result<Vec<(ObjectHash, u64, u32)>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    // Read from the end: the number of lines, then the lines.
    let end = size.checked_sub(COUNT as u64).ok_or_else(damaged)?;
    let mut count = [0; COUNT];
    file.read_exact_at(&mut count, end)?;
    let bytes = u64::from_le_bytes(count).checked_mul(LINE as u64).ok_or_else(damaged)?;
    let begin = end.checked_sub(bytes).ok_or_else(damaged)?;
    let mut lines = vec![0; usize::try_from(bytes).map_err(|_| damaged())?];
    file.read_exact_at(&mut lines, begin)?;
    lines.chunks_exact(LINE).map(|line| parse(line).ok_or_else(damaged)).collect()
}

/// Parses the list of a pack that is in memory.
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
