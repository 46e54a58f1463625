//! The folder of a task or of a set of tasks, and the files in it, which are read without leaving it.
//!
//! Tasks often come from elsewhere, and what they contain is sent to a model and copied into working folders. So a link
//! in a task may lead to other files of the task only: one that leads to the user's keys is refused.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use crow_fs::Directory;

use crate::folder_copy::FileSet;

const MIB: u64 = 1024 * 1024;
/// Maximum length of a prompt or a description of a task in bytes.
const LARGEST_TEXT: u64 = MIB;

/// A folder held open. Links in it are followed as long as they lead to something in it.
#[derive(Debug)]
pub(super) struct TaskFolder {
    directory: Directory,
    /// Its path without links.
    path: PathBuf,
}

impl TaskFolder {
    /// Opens a folder. Links on the way to it are followed: they are the user's.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        Ok(Self { directory: Directory::open(&path)?, path })
    }

    /// Returns its path, in which there are no links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if there is something at a path, perhaps a link that leads nowhere.
    pub(super) fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.path.join(path).symlink_metadata().is_ok()
    }

    /// Reads a text of at most a megabyte.
    pub(super) fn read_text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        // The folder itself has no name in itself.
        let below = Path::new(".").join(self.without_links(path.as_ref())?);
        read_text(self.directory.open_file_beneath(&below)?, LARGEST_TEXT)
    }

    /// Lists the files of a folder in it, except those that `is_left_out` names by their path relative to that folder.
    pub(super) fn files(
        &self,
        path: impl AsRef<Path>,
        is_left_out: impl Fn(&Path) -> bool,
    ) -> io::Result<FileSet> {
        FileSet::of_folder(&self.resolve(path)?, is_left_out)
    }

    /// Returns the absolute path without links of something in it.
    ///
    /// # Errors
    /// Fails if nothing is there, or a link leads out of the folder.
    pub(super) fn resolve(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        Ok(self.path.join(self.without_links(path.as_ref())?))
    }

    /// Follows the links in a path, and returns where it leads relative to the folder.
    fn without_links(&self, path: &Path) -> io::Result<PathBuf> {
        let end = self.path.join(path).canonicalize()?;
        match end.strip_prefix(&self.path) {
            Ok(below) => Ok(below.to_owned()),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a link leads out of {}, to {}; copy that into the folder if it belongs there",
                    self.path.display(),
                    end.display()
                ),
            )),
        }
    }
}

/// Reads a regular file of at most `limit` bytes, which is a whole number of megabytes, as text.
pub(super) fn read_text(file: File, limit: u64) -> io::Result<String> {
    let bytes = crow_fs::read_file(file, limit).map_err(|error| match error.kind() {
        kind @ io::ErrorKind::FileTooLarge => {
            io::Error::new(kind, format!("it is larger than {} MiB", limit / MIB))
        }
        _ => error,
    })?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_are_followed_inside_the_folder_only() {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("keys")).unwrap();
        fs::write(outside.path().join("keys/id"), "secret").unwrap();
        let folder = outside.path().join("task");
        fs::create_dir_all(folder.join("texts")).unwrap();
        fs::write(folder.join("texts/prompt"), "go").unwrap();
        for (target, link) in [
            ("texts/prompt", "inner"),
            ("texts", "inner-folder"),
            ("../task/texts", "back"),
            ("inner", "chain"),
            ("../keys/id", "key"),
            ("../keys", "keys"),
            ("keys", "chain-out"),
            ("/", "root"),
            ("nowhere", "dangling"),
        ] {
            symlink(target, folder.join(link)).unwrap();
        }
        let opened = TaskFolder::open(&folder).unwrap();
        for path in ["texts/prompt", "inner", "inner-folder/prompt", "back/prompt", "chain"] {
            assert_eq!(opened.read_text(path).unwrap(), "go", "{path}");
        }
        for path in ["key", "keys/id", "chain-out/id", "root/etc/passwd"] {
            let error = opened.read_text(path).unwrap_err().to_string();
            assert!(error.starts_with("a link leads out of "), "{path}: {error}");
        }
        for path in ["keys", "chain-out", "root"] {
            let error = opened.files(path, |_| false).unwrap_err().to_string();
            assert!(error.starts_with("a link leads out of "), "{path}: {error}");
        }
        assert_eq!(opened.files("inner-folder", |_| false).unwrap().paths().count(), 1);
        assert!(opened.contains("dangling") && !opened.contains("missing"));
        assert_eq!(opened.read_text("dangling").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_regular_files_of_a_bounded_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, mode) = (folder.path().join("pipe"), rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe, mode).unwrap();
        File::create(folder.path().join("sparse")).unwrap().set_len(2 << 30).unwrap();
        fs::write(folder.path().join("bytes"), [0xff]).unwrap();
        let opened = TaskFolder::open(folder.path()).unwrap();
        for (path, expected) in [
            ("pipe", "is not a regular file"),
            (".", "is not a regular file"),
            ("sparse", "it is larger than 1 MiB"),
            ("bytes", "it is not UTF-8"),
        ] {
            assert_eq!(opened.read_text(path).unwrap_err().to_string(), expected, "{path}");
        }
    }
}
