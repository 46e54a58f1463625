//! Records of the folders that a call writes to, written before it runs: if the process is killed, the next one
//! removes the temporary files left there.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::{SnapshotStoreError, error::io_error_at, objects::private_folder};

const WRITING: &str = "writing";

/// The record of one call. It is locked while the call runs, and removed after it.
#[derive(Debug)]
pub struct WriteInProgress {
    record: PathBuf,
    _lock: File,
}

impl WriteInProgress {
    /// Records the folders of paths that are about to be written.
    pub(super) fn begin(store: &Path, paths: &[PathBuf]) -> Result<Self, SnapshotStoreError> {
        let folder = store.join(WRITING);
        private_folder(&folder).map_err(io_error_at(&folder))?;
        let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        let ended = |folder: &&Path| [folder.as_os_str().as_bytes(), b"\0"].concat();
        let text: Vec<u8> = folders.iter().flat_map(ended).collect();
        loop {
            let record = folder.join(Uuid::now_v7().to_string());
            let mut options = OpenOptions::new();
            let file = options.append(true).create_new(true).mode(0o600).open(&record);
            let mut file = file.map_err(io_error_at(&record))?;
            file.lock().map_err(io_error_at(&record))?;
            // Another process may have removed it as a leftover.
            if record.exists() {
                file.write_all(&text).map_err(io_error_at(&record))?;
                return Ok(Self { record, _lock: file });
            }
        }
    }
}

impl Drop for WriteInProgress {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.record) {
            tracing::debug!(%error, "the record of a call stays until the next start");
        }
    }
}

/// Removes the temporary files of calls whose process was killed.
pub(crate) fn remove_leftovers(store: &Path) {
    let Ok(records) = fs::read_dir(store.join(WRITING)) else { return };
    for record in records.flatten() {
        if let Err(error) = remove_left_by(&record.path()) {
            tracing::debug!(%error, "temporary files of a call that was cut off stay");
        }
    }
}

fn remove_left_by(record: &Path) -> io::Result<()> {
    let mut file = File::open(record)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    for folder in bytes.split(|byte| *byte == 0).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(OsString::from_vec(folder.to_vec()));
        match crow_fs::remove_leftover_files(&folder) {
            Ok(removed) => tracing::debug!(folder = %folder.display(), removed, "temporary files"),
            // A folder that is gone, or is a link by now, holds no temporary file of ours.
            Err(error) => tracing::debug!(folder = %folder.display(), %error, "not looked into"),
        }
    }
    fs::remove_file(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: &str = ".crow-0123456789abcdef.tmp";

    #[test]
    fn leftovers_of_a_killed_process_are_removed_and_files_in_progress_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (store, project) = (dir.path().join("store"), dir.path().join("project"));
        fs::create_dir_all(&store).unwrap();
        fs::create_dir_all(project.join("src")).unwrap();
        let (left, other) = (project.join("src").join(LEFT), project.join(LEFT));
        fs::write(&left, "half").unwrap();
        fs::write(&other, "not of this call").unwrap();
        let paths = [project.join("src/a.rs"), project.join("gone/b.rs")];
        let writing = WriteInProgress::begin(&store, &paths).unwrap();
        remove_leftovers(&store);
        assert!(left.exists());
        // A process that is killed leaves the record and holds no lock on it.
        let copy = writing.record.with_file_name("killed");
        fs::copy(&writing.record, &copy).unwrap();
        drop(writing);
        remove_leftovers(&store);
        assert!(!left.exists() && other.exists());
        assert_eq!(fs::read_dir(store.join(WRITING)).unwrap().count(), 0);
    }
}
