//! Sessions under construction: each is built in a temporary folder and then renamed into place. Folders left by killed
//! processes do not count as sessions, and are removed when the next session is created.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;
use uuid::Uuid;

use crow_fs::FileLock;

use super::{
    SessionError,
    file::{LOCK, lock, private_dir},
};

/// Name of their parent folder, inside the folder of the sessions.
const FOLDER: &str = ".new";
/// Maximum number of attempts to create a folder.
const TRIES: usize = 8;

/// Creates a locked folder for a new session, after removing folders whose processes were killed.
pub(super) fn make(sessions: &Path, id: &SessionId) -> Result<(PathBuf, FileLock), SessionError> {
    let folder = sessions.join(FOLDER);
    remove_leftovers(&folder);
    let write_error = |source| SessionError::Write { path: folder.clone(), source };
    let mut failed = SessionError::Locked { id: id.clone(), pid: None };
    for _ in 0..TRIES {
        let new = folder.join(Uuid::now_v7().to_string());
        let made = private_dir().recursive(true).create(&new).map_err(write_error);
        match made.and_then(|()| lock(&new, id)) {
            // Before the lock was taken, another process may have removed the folder, or its parent, as a leftover.
            Ok(lock) if new.exists() => return Ok((new, lock)),
            Ok(_) => {}
            Err(error) => {
                // On a full disk the folder may be there without its lock.
                drop(fs::remove_dir_all(&new));
                failed = error;
            }
        }
    }
    end(sessions);
    Err(failed)
}

/// Removes the parent folder, unless another session is under construction in it.
pub(super) fn end(sessions: &Path) {
    drop(fs::remove_dir(sessions.join(FOLDER)));
}

/// Removes a session that could not be completed.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(path = %folder.display(), %error, "half a session stays behind");
    }
}

fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match File::open(path.join(LOCK)).and_then(FileLock::try_exclusive) {
            Ok(Ok(_lock)) => remove(&path),
            Ok(Err(_)) => {}
            // No lock file: the folder is empty. If its process is alive, it creates another one.
            Err(_) => drop(fs::remove_dir(&path)),
        }
    }
}
