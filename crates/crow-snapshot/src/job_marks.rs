//! Marks of background jobs, to find those that ended because their process was killed. Each job that may change
//! files has a locked file as long as its changes are watched; the kernel unlocks it when the process is killed, and
//! the file stays.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crow_core::ids::{CallId, SessionId};

use super::{
    SnapshotStoreError,
    error::io_error_at,
    objects::{entries, private_folder},
};
use crow_fs::FileLock;

const OPEN_JOBS: &str = "open-jobs";

/// The mark of a job whose changes are watched. Dropping it removes the file.
#[derive(Debug)]
pub struct JobMark {
    path: PathBuf,
    _lock: FileLock,
}

/// A job that was running when its process was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KilledJob {
    /// The call that started it.
    pub call_id: CallId,
    mark: PathBuf,
}

/// Creates the mark of a job that may change files, for a root session and the call that started it.
pub(super) fn mark(
    store: &Path,
    session: &SessionId,
    call_id: &CallId,
) -> Result<JobMark, SnapshotStoreError> {
    let folder = store.join(OPEN_JOBS);
    private_folder(&folder).map_err(io_error_at(&folder))?;
    for number in 0_u64.. {
        let path = folder.join(format!("{session}.{number}"));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let lock = FileLock::exclusive(file).map_err(io_error_at(&path))?;
                let written = lock.file().write_all_at(call_id.as_str().as_bytes(), 0);
                written.map_err(io_error_at(&path))?;
                return Ok(JobMark { path, _lock: lock });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error_at(path)(error)),
        }
    }
    Err(io_error_at(folder)(io::ErrorKind::StorageFull.into()))
}

/// Returns the jobs of a root session that were killed with their process and not forgotten yet.
pub(crate) fn killed_jobs(
    store: &Path,
    session: &SessionId,
) -> Result<Vec<KilledJob>, SnapshotStoreError> {
    let folder = store.join(OPEN_JOBS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut killed = Vec::new();
    for entry in entries(&folder)? {
        let mark = entry.path();
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.rsplit_once('.')).map(|(owner, _)| owner);
        if owner != Some(session.as_str()) {
            continue;
        }
        let file = match File::open(&mark) {
            Ok(file) => file,
            // The job has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error_at(mark)(error)),
        };
        if FileLock::is_held_by_other(file).map_err(io_error_at(&mark))? {
            continue;
        }
        match fs::read_to_string(&mark) {
            Ok(call_id) => killed.push(KilledJob { call_id: CallId::new(call_id), mark }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error_at(mark)(error)),
        }
    }
    killed.sort_by(|a, b| a.mark.cmp(&b.mark));
    Ok(killed)
}

impl KilledJob {
    /// Removes the mark, once the job's changes are in the log.
    pub fn forget(&self) -> Result<(), SnapshotStoreError> {
        match fs::remove_file(&self.mark) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error_at(&self.mark)(error)),
        }
    }
}

impl Drop for JobMark {
    fn drop(&mut self) {
        // Removed while it is locked, so that no process takes the job for a killed one.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the mark of a job stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_mark_is_not_held_was_killed() {
        let store = tempfile::tempdir().unwrap();
        let (a, b) = (SessionId::new("a"), SessionId::new("a.b"));
        let ids = |session: &SessionId| -> Vec<String> {
            let killed = killed_jobs(store.path(), session).unwrap();
            killed.iter().map(|job| job.call_id.to_string()).collect()
        };
        let held = mark(store.path(), &a, &CallId::new("c1")).unwrap();
        let other = mark(store.path(), &b, &CallId::new("c2")).unwrap();
        assert_eq!(ids(&a), [""; 0]);
        // The state that a killed process leaves.
        fs::write(store.path().join(OPEN_JOBS).join("a.1"), "c3").unwrap();
        assert_eq!(ids(&a), ["c3"]);
        drop((held, other));
        assert_eq!((ids(&a), ids(&b)), (vec!["c3".to_owned()], Vec::new()));
        killed_jobs(store.path(), &a).unwrap()[0].forget().unwrap();
        assert_eq!(ids(&a), [""; 0]);
    }
}
