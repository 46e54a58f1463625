//! Sessions that are being made: each under a name of its own, until it is moved into place. What a kill leaves of one is
//! no session, and is removed when the next one is made.

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

/// Where they are, in the folder of the sessions.
const FOLDER: &str = ".new";
/// How often a folder for one is made.
const TRIES: usize = 8;

/// Makes a locked folder for a new session, after removing those whose processes were killed.
pub(super) fn make(sessions: &Path, id: &SessionId) -> Result<(PathBuf, FileLock), SessionError> {
    let folder = sessions.join(FOLDER);
    remove_left(&folder);
    let write_error = |source| SessionError::Write { path: folder.clone(), source };
    let mut failed = SessionError::Locked { id: id.clone(), pid: None };
    for _ in 0..TRIES {
        let new = folder.join(Uuid::now_v7().to_string());
        let made = private_dir().recursive(true).create(&new).map_err(write_error);
        match made.and_then(|()| lock(&new, id)) {
            // Before it was locked another process may have taken it, or the folder around it, for one that was left.
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

/// Removes the folder that they are in, unless somebody else makes one.
pub(super) fn end(sessions: &Path) {
    drop(fs::remove_dir(sessions.join(FOLDER)));
}

/// Removes a session that could not be made.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(path = %folder.display(), %error, "half a session stays behind");
    }
}

fn remove_left(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match File::open(path.join(LOCK)).and_then(FileLock::try_exclusive) {
            Ok(Ok(_lock)) => remove(&path),
            Ok(Err(_)) => {}
            // It is empty. Whose process is alive makes another one.
            Err(_) => drop(fs::remove_dir(&path)),
        }
    }
}
