//! Ignore files that can be read at once.

use std::{fs, path::Path};

/// Names of the files with ignore rules that walks read, from a directory.
const IGNORE_FILES: [&str; 4] = [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"];

/// Maximum size of an ignore file, in bytes. A walk reads it whole, and compiles each line.
const LARGEST: u64 = 1024 * 1024;

/// Returns true if no ignore file of a directory is, or leads to, a named pipe, a device, or a file of more than a mebibyte. A walk
/// that reads rules opens them by name, and would wait until somebody writes there, or run out of memory.
pub fn has_readable_ignore_files(directory: &Path) -> bool {
    let is_odd = |name: &&str| {
        fs::metadata(directory.join(name)).is_ok_and(|found| {
            !found.is_file() && !found.is_dir() || found.is_file() && found.len() > LARGEST
        })
    };
    !IGNORE_FILES.iter().any(is_odd)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn an_ignore_file_of_more_than_a_mebibyte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join(".gitignore")).unwrap();
        file.set_len(LARGEST).unwrap();
        assert!(has_readable_ignore_files(folder.path()));
        file.set_len(12 << 30).unwrap();
        assert!(!has_readable_ignore_files(folder.path()));
    }

    #[test]
    fn a_named_pipe_in_place_of_an_ignore_file_is_found_also_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        assert!(has_readable_ignore_files(folder.path()));
        fs::write(folder.path().join(".gitignore"), "*.log").unwrap();
        symlink("nowhere", folder.path().join(".rgignore")).unwrap();
        assert!(has_readable_ignore_files(folder.path()));
        mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("pipe", folder.path().join(".ignore")).unwrap();
        assert!(!has_readable_ignore_files(folder.path()));
    }
}
