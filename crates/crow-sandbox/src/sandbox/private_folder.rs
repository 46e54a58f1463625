//! Private folder of a session's commands, and clean-up of folders of killed sessions.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use crow_fs::FileLock;

use super::autorun::{LOCK, RecoveryReport, is_recoverable, recover};

const QUARANTINE_FOLDER: &str = "held";
/// Maximum number of leftover folders that are removed at once.
const LEFTOVERS: usize = 8;

/// Folder that is removed on drop.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
    /// Lock that shows other processes that the folder is in use.
    _lock: FileLock,
}

impl PrivateFolder {
    /// Creates a folder below `base`, and removes folders of ended sessions there.
    pub(super) fn make(base: &Path, name: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        let base = base.canonicalize()?;
        // Held until the folder's own lock is: a lock file that nobody holds is the mark of a leftover.
        let _creation = FileLock::exclusive(File::create(base.join(LOCK))?)?;
        remove_leftovers(&base);
        let path = base.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            // It still contains files that were moved aside.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let lock = FileLock::try_exclusive(File::create(path.join(LOCK))?)?
            .map_err(|_| io::Error::from(io::ErrorKind::AddrInUse))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder for files that the autorun guard moved aside.
    pub(super) fn quarantine_folder(&self) -> PathBuf {
        self.path.join(QUARANTINE_FOLDER)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Repairs what sessions that were killed during a command left in their projects. Projects that were moved are looked
/// for around `near`.
pub(super) fn recover_leftovers(base: &Path, near: &[PathBuf]) -> RecoveryReport {
    let mut report = RecoveryReport::default();
    let Ok(entries) = fs::read_dir(base) else { return report };
    for entry in entries.flatten() {
        let folder = entry.path();
        if is_recoverable(&folder)
            && let Ok(Ok(_lock)) = File::open(folder.join(LOCK)).and_then(FileLock::try_exclusive)
        {
            let found = recover(&folder, near);
            report.repaired.extend(found.repaired);
            report.changed_later.extend(found.changed_later);
            report.not_found.extend(found.not_found);
        }
    }
    report
}

fn remove_leftovers(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let mut removed = 0;
    for entry in entries.flatten() {
        if is_recoverable(&entry.path()) {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK)).and_then(FileLock::try_exclusive);
        if let Ok(Ok(_lock)) = lock {
            remove(&entry.path());
            removed += 1;
        }
        if removed == LEFTOVERS {
            return;
        }
    }
}

/// Removes a private folder, but leaves files that were moved aside for the user.
fn remove(path: &Path) {
    let quarantine = path.join(QUARANTINE_FOLDER);
    let has_held = fs::read_dir(&quarantine).is_ok_and(|mut entries| entries.next().is_some());
    let removed = if has_held {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut others = entries.map(|entry| entry.path()).filter(|entry| *entry != quarantine);
        others.try_for_each(|entry| {
            if entry.is_dir() { fs::remove_dir_all(entry) } else { fs::remove_file(entry) }
        })
    } else {
        fs::remove_dir_all(path)
    };
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a private folder cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_on_drop_and_one_in_use_stays() {
        let base = tempfile::tempdir().unwrap();
        let first = PrivateFolder::make(base.path(), "a").unwrap();
        let second = PrivateFolder::make(base.path(), "b").unwrap();
        assert!(PrivateFolder::make(base.path(), "b").is_err());
        assert!(first.path().is_dir() && first.path() != second.path());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }

    #[test]
    fn sessions_that_start_at_the_same_time_do_not_remove_each_others_folders() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for session in 0..8 {
                let base = base.path();
                threads.spawn(move || {
                    for number in 0..40 {
                        let name = format!("{session}-{number}");
                        let folder = PrivateFolder::make(base, &name).unwrap();
                        assert!(folder.path().join(LOCK).exists(), "{name} was removed");
                    }
                });
            }
        });
    }

    #[test]
    fn leftover_folders_are_removed_except_for_files_moved_aside() {
        let base = tempfile::tempdir().unwrap();
        for name in ["old", "kept"] {
            fs::create_dir_all(base.path().join(name).join("held")).unwrap();
            fs::write(base.path().join(name).join(LOCK), "").unwrap();
        }
        fs::write(base.path().join("kept/held/hooks"), "").unwrap();
        let _new = PrivateFolder::make(base.path(), "new").unwrap();
        assert!(!base.path().join("old").exists() && base.path().join("kept/held/hooks").exists());
    }
}
