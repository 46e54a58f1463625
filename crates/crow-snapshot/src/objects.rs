//! Objects: contents and folders, each in a file named by its hash and never changed after it was written.

use std::{
    fmt,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;
use zstd::bulk::Compressor;

use super::{
    NotCoveredReason, ObjectHash, SnapshotStoreError,
    error::io_error_at,
    packs::{NewPack, Packs, SMALL},
    storage_budget::StorageBudget,
    version,
};

const OBJECTS: &str = "objects";
const UNFINISHED: &str = "unfinished";
/// The encoding of an object: the first byte of its file.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
const LEVEL: i32 = 1;
/// Length in bytes from which compression is tried; shorter contents hardly shrink.
const WORTH_COMPRESSING: usize = 128;

/// Part of the names of this process's temporary files. Made once: each id costs random bytes of the system.
static PROCESS: LazyLock<Uuid> = LazyLock::new(Uuid::now_v7);
/// The number of files that this process began to write; also part of the names of temporary files.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The objects of a store.
pub(super) struct Objects {
    store: PathBuf,
    folder: PathBuf,
    packs: Packs,
    unfinished: PathBuf,
    /// Made once: its tables take longer to set up than a small file takes to compress.
    compressor: Mutex<Compressor<'static>>,
}

/// A file that holds one object.
#[derive(Debug)]
struct StoredObject {
    hash: ObjectHash,
    path: PathBuf,
    bytes: u64,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        let (folder, unfinished) = (store.join(OBJECTS), store.join(UNFINISHED));
        for needed in [&folder, &unfinished] {
            private_folder(needed).map_err(io_error_at(needed))?;
        }
        let compressor = Mutex::new(Compressor::new(LEVEL).map_err(io_error_at(&folder))?);
        let (store, packs) = (store.to_path_buf(), Packs::new(store));
        Ok(Self { store, folder, packs, unfinished, compressor })
    }

    /// Stores a content if the budget allows.
    pub(super) fn put_content(
        &self,
        bytes: &[u8],
        budget: &mut StorageBudget,
    ) -> Result<Result<ObjectHash, NotCoveredReason>, SnapshotStoreError> {
        let hash = ObjectHash::of(bytes);
        if self.holds(&hash, bytes) {
            return Ok(Ok(hash));
        }
        let packed = self.pack(bytes);
        if let Err(why) = budget.take_content(packed.len() as u64) {
            return Ok(Err(why));
        }
        // A full disk ends the storing of contents, not the scan.
        match self.write(&hash, &packed) {
            Ok(()) => Ok(Ok(hash)),
            Err(error) => match budget.disk_is_full(&error) {
                Some(why) => Ok(Err(why)),
                None => Err(io_error_at(self.path(&hash))(error)),
            },
        }
    }

    /// Stores a content if the budget allows. A small one goes into the pack, and is readable only after
    /// [`end_pack`](Self::end_pack).
    pub(super) fn put_into(
        &self,
        pack: &mut NewPack,
        bytes: &[u8],
        budget: &mut StorageBudget,
    ) -> Result<Result<ObjectHash, NotCoveredReason>, SnapshotStoreError> {
        if bytes.len() > SMALL {
            return self.put_content(bytes, budget);
        }
        let hash = ObjectHash::of(bytes);
        if pack.has(&hash) || self.holds(&hash, bytes) {
            return Ok(Ok(hash));
        }
        let packed = self.pack(bytes);
        if let Err(why) = budget.take_content(packed.len() as u64) {
            return Ok(Err(why));
        }
        pack.add(hash, &packed);
        if pack.is_full() {
            self.end_pack(std::mem::take(pack))?;
        }
        Ok(Ok(hash))
    }

    /// Writes the gathered contents: as a pack, or as single files if there are few.
    pub(super) fn end_pack(&self, pack: NewPack) -> Result<(), SnapshotStoreError> {
        if let Some(few) = pack.too_few() {
            for (hash, packed) in few {
                self.write(hash, packed).map_err(io_error_at(self.path(hash)))?;
            }
            return Ok(());
        }
        version::raise(&self.store, version::PACKS)?;
        self.packs.write(&self.unfinished, pack)
    }

    /// Stores a folder or a list of paths.
    pub(super) fn put_folder(
        &self,
        bytes: &[u8],
        budget: &mut StorageBudget,
    ) -> Result<ObjectHash, SnapshotStoreError> {
        let hash = ObjectHash::of(bytes);
        if !self.holds(&hash, bytes) {
            let packed = self.pack(bytes);
            budget.take_folder(packed.len() as u64)?;
            self.write(&hash, &packed).map_err(io_error_at(self.path(&hash)))?;
        }
        Ok(hash)
    }

    /// Reads an object and checks its hash.
    pub(super) fn read(&self, hash: &ObjectHash) -> Result<Vec<u8>, SnapshotStoreError> {
        let path = self.path(hash);
        let packed = match fs::read(&path) {
            Ok(packed) => packed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.packs.read(hash) {
                Some(packed) => packed.map_err(io_error_at(path))?,
                None => return Err(SnapshotStoreError::Missing { hash: *hash }),
            },
            Err(error) => return Err(io_error_at(path)(error)),
        };
        let bytes = unpack(packed).filter(|bytes| ObjectHash::of(bytes) == *hash);
        bytes.ok_or(SnapshotStoreError::Damaged { hash: *hash })
    }

    /// Returns whether an object exists, without reading it.
    pub(super) fn has(&self, hash: &ObjectHash) -> bool {
        fs::symlink_metadata(self.path(hash)).is_ok() || self.packs.has(hash)
    }

    /// Removes the objects for which `is_wanted` returns false; its second argument is the size in bytes. Needs
    /// exclusive access to the store.
    pub(super) fn retain(
        &self,
        mut is_wanted: impl FnMut(&ObjectHash, u64) -> Result<bool, SnapshotStoreError>,
    ) -> Result<(), SnapshotStoreError> {
        for StoredObject { hash, path, bytes } in self.all()? {
            if !is_wanted(&hash, bytes)? {
                fs::remove_file(&path).map_err(io_error_at(&path))?;
            }
        }
        self.packs.retain(&self.unfinished, is_wanted)
    }

    /// Returns the objects that have files of their own.
    fn all(&self) -> Result<Vec<StoredObject>, SnapshotStoreError> {
        let mut all = Vec::new();
        for folder in entries(&self.folder)? {
            let prefix = folder.file_name();
            for file in entries(&folder.path())? {
                let (Some(prefix), name) = (prefix.to_str(), file.file_name()) else {
                    continue;
                };
                // The folder's name is the first two digits of the hash, the file's name the rest.
                let hash = name.to_str().map(|rest| format!("{prefix}{rest}"));
                let Some(hash) = hash.and_then(|hex| ObjectHash::parse(&hex)) else { continue };
                let path = file.path();
                let bytes = file.metadata().map_err(io_error_at(&path))?.len();
                all.push(StoredObject { hash, path, bytes });
            }
        }
        Ok(all)
    }

    /// Removes unfinished files of killed processes. Needs exclusive access to the store.
    pub(super) fn remove_unfinished(&self) -> Result<usize, SnapshotStoreError> {
        let files = entries(&self.unfinished)?;
        for file in &files {
            let path = file.path();
            fs::remove_file(&path).map_err(io_error_at(&path))?;
        }
        Ok(files.len())
    }

    /// Returns whether an object is stored intact. It is read and compared: a lost disk write may have left the file
    /// cut.
    fn holds(&self, hash: &ObjectHash, bytes: &[u8]) -> bool {
        self.has(hash) && self.read(hash).is_ok_and(|stored| stored == bytes)
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        if bytes.len() >= WORTH_COMPRESSING {
            let mut compressor = self.compressor.lock().unwrap_or_else(PoisonError::into_inner);
            // Content that compression does not shorten is stored uncompressed.
            if let Some(compressed) =
                compressor.compress(bytes).ok().filter(|compressed| compressed.len() < bytes.len())
            {
                return [&[COMPRESSED], compressed.as_slice()].concat();
            }
        }
        [&[PLAIN], bytes].concat()
    }

    fn write(&self, hash: &ObjectHash, packed: &[u8]) -> io::Result<()> {
        replace(&self.unfinished, &self.path(hash), packed)
    }

    fn path(&self, hash: &ObjectHash) -> PathBuf {
        let hex = hash.to_string();
        let (prefix, rest) = hex.split_at_checked(2).unwrap_or((&hex, ""));
        self.folder.join(prefix).join(rest)
    }
}

/// Writes a file completely or not at all: under a temporary name, then renamed.
pub(super) fn replace(unfinished: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let number = BEGUN.fetch_add(1, Ordering::Relaxed);
    // Unique per process and file, so that writers never share a temporary file.
    let own = unfinished.join(format!("{}-{number}", *PROCESS));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&own)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| move_to(&own, path));
    if written.is_err() && fs::remove_file(&own).is_err() {
        tracing::debug!(path = %own.display(), "an unfinished file stays until the next collection");
    }
    written
}

fn move_to(own: &Path, path: &Path) -> io::Result<()> {
    match (fs::rename(own, path), path.parent()) {
        // The target folder is created only if it turns out to be missing.
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            private_folder(folder)?;
            fs::rename(own, path)
        }
        (moved, _) => moved,
    }
}

pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the entries of a folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, SnapshotStoreError> {
    fs::read_dir(folder).and_then(Iterator::collect).map_err(io_error_at(folder))
}

fn unpack(mut packed: Vec<u8>) -> Option<Vec<u8>> {
    match *packed.first()? {
        PLAIN => {
            packed.remove(0);
            Some(packed)
        }
        COMPRESSED => {
            let mut bytes = Vec::new();
            let mut decoder = zstd::Decoder::with_buffer(packed.get(1..)?).ok()?;
            decoder.read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}
