//! Records of the temporary files of an undo, written before the files are made: if the process is killed, the next
//! undo removes them.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crow_fs::EntryName;
use uuid::Uuid;

use crow_fs::FileLock;

use super::{
    SnapshotLimits, SnapshotStoreError,
    error::io_error_at,
    file_overlay::{FileOverlay, PathReachability},
};

const UNDOING: &str = "undoing";
const BEGINNING: &str = ".crow-undo-";

/// Returns whether a name is that of an undo's temporary file.
pub(super) fn is_own(name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(BEGINNING.as_bytes());
    rest.is_some_and(|rest| Uuid::try_parse_ascii(rest).is_ok())
}

/// The record of one undo. It is locked while the undo runs, and removed after it.
#[derive(Debug)]
pub(super) struct UndoInProgress {
    folder: PathBuf,
    /// Created with the first name.
    record: Mutex<Option<(PathBuf, FileLock)>>,
}

impl UndoInProgress {
    pub(crate) fn new(store: &Path) -> Self {
        Self { folder: store.join(UNDOING), record: Mutex::default() }
    }

    /// Returns an unused name in a folder, once it is recorded.
    pub(super) fn temporary_name(&self, folder: &Path) -> Result<EntryName, SnapshotStoreError> {
        let name = EntryName::new(format!("{BEGINNING}{}", Uuid::now_v7()))
            .map_err(io_error_at(folder))?;
        let own = folder.join(name.as_os_str());
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, lock) = match &mut *record {
            Some(record) => record,
            none => none.insert(self.start()?),
        };
        // The terminator is written with the name: a name that was cut by a crash was never used.
        lock.file()
            .write_all(&[own.as_os_str().as_bytes(), b"\0"].concat())
            .map_err(io_error_at(&*path))?;
        Ok(name)
    }

    fn start(&self) -> Result<(PathBuf, FileLock), SnapshotStoreError> {
        super::objects::private_folder(&self.folder).map_err(io_error_at(&self.folder))?;
        loop {
            let path = self.folder.join(Uuid::now_v7().to_string());
            let mut options = OpenOptions::new();
            let file = options.append(true).create_new(true).mode(0o600).open(&path);
            let file = file.map_err(io_error_at(&path))?;
            let lock = FileLock::exclusive(file).map_err(io_error_at(&path))?;
            // Another undo may have removed it as a leftover.
            if path.exists() {
                return Ok((path, lock));
            }
        }
    }

    /// Returns the leftovers of undos whose process was killed.
    pub(super) fn leftovers(&self) -> Result<Vec<InterruptedUndo>, SnapshotStoreError> {
        let records = match fs::read_dir(&self.folder) {
            Ok(records) => records,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error_at(&self.folder)(error)),
        };
        let mut interrupted = Vec::new();
        for record in records.flatten() {
            let path = record.path();
            let lock = File::open(&path).and_then(FileLock::try_exclusive);
            let Ok(Ok(lock)) = lock else { continue };
            // The undo may have ended meanwhile; the files that its record names are then gone, too.
            let mut bytes = Vec::new();
            lock.file().read_to_end(&mut bytes).map_err(io_error_at(&path))?;
            let names = bytes.split_inclusive(|byte| *byte == 0).filter_map(|name| {
                let name = OsString::from_vec(name.strip_suffix(b"\0")?.to_vec());
                Some(PathBuf::from(name)).filter(|path| path.file_name().is_some_and(is_own))
            });
            interrupted.push(InterruptedUndo { names: names.collect(), record: path, _lock: lock });
        }
        Ok(interrupted)
    }
}

impl Drop for UndoInProgress {
    fn drop(&mut self) {
        let record = self.record.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, _)) = record
            && let Err(error) = fs::remove_file(path)
        {
            tracing::debug!(%error, "the record of an undo stays until the next");
        }
    }
}

/// The temporary files of an undo whose process was killed.
#[derive(Debug)]
pub(super) struct InterruptedUndo {
    pub(super) names: Vec<PathBuf>,
    record: PathBuf,
    _lock: FileLock,
}

impl InterruptedUndo {
    /// Removes the temporary files and the record. A file whose folder is no longer reached directly stays.
    pub(super) fn remove(self, limits: &SnapshotLimits) {
        let view = FileOverlay::new(limits);
        let mut all = true;
        for name in &self.names {
            let is_there =
                |folder| matches!(view.reachability(folder), Ok(PathReachability::Clear));
            if name.parent().is_some_and(is_there)
                && let Err(error) = crow_fs::remove_file(name)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(path = %name.display(), %error, "a file of an undo stays");
                all = false;
            }
        }
        if all && let Err(error) = fs::remove_file(&self.record) {
            tracing::debug!(%error, "the record of an undo stays until the next");
        }
    }
}
