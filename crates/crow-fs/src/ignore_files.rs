//! Ignore files that can be read without waiting.

use std::{fs, path::Path};

/// Names of the files with ignore rules that walks read, from a directory.
const IGNORE_FILES: [&str; 4] = [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"];

/// Returns true if no ignore file of a directory is, or leads to, a named pipe or a device. A walk that reads rules opens them by
/// name, and would wait until somebody writes there.
pub fn has_only_regular_ignore_files(directory: &Path) -> bool {
    let may_wait = |name: &&str| {
        fs::metadata(directory.join(name)).is_ok_and(|found| !found.is_file() && !found.is_dir())
    };
    !IGNORE_FILES.iter().any(may_wait)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_named_pipe_in_place_of_an_ignore_file_is_found_also_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        assert!(has_only_regular_ignore_files(folder.path()));
        fs::write(folder.path().join(".gitignore"), "*.log").unwrap();
        symlink("nowhere", folder.path().join(".rgignore")).unwrap();
        assert!(has_only_regular_ignore_files(folder.path()));
        mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("pipe", folder.path().join(".ignore")).unwrap();
        assert!(!has_only_regular_ignore_files(folder.path()));
    }
}
