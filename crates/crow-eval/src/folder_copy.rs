//! Listing files of a folder, writing them elsewhere, and copying whole trees.
//!
//! Trees are written through crow-fs, by descriptor: a program under test may have put links into its working folder,
//! and the files of a check are written there afterwards.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use crow_fs::{Directory, EntryKind, EntryName, NewFile, RenameMode, remove_tree};

/// Maximum number of entries of a tree.
const MOST_ENTRIES: usize = 200_000;
/// Maximum depth of a tree.
const DEEPEST: usize = 100;

/// Permission bits of text files.
const TEXT_MODE: u32 = 0o644;

/// A set of files to write, by their paths relative to the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSet(BTreeMap<PathBuf, TaskFileContent>);

/// Content of a file of a [`FileSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskFileContent {
    /// A copy of another file with its mode.
    CopyOf(PathBuf),
    /// Bytes.
    Bytes {
        /// The content.
        bytes: Vec<u8>,
        /// The permission bits.
        mode: u32,
    },
    /// A symbolic link with this target.
    LinkTo(OsString),
}

impl FileSet {
    /// Lists the files of a folder, except those that `is_left_out` names by their relative path. Blocks.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, is too large, or contains something other than files, folders and links.
    pub(crate) fn of_folder(
        folder: &Path,
        is_left_out: impl Fn(&Path) -> bool,
    ) -> io::Result<Self> {
        let mut set = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            for entry in fs::read_dir(folder.join(&below))? {
                let entry = entry?;
                let path = below.join(entry.file_name());
                if is_left_out(&path) {
                    continue;
                }
                let kind = entry.file_type()?;
                let content = if kind.is_dir() {
                    pending.push(path);
                    continue;
                } else if kind.is_symlink() {
                    TaskFileContent::LinkTo(fs::read_link(entry.path())?.into_os_string())
                } else if kind.is_file() {
                    TaskFileContent::CopyOf(entry.path())
                } else {
                    return Err(special_file(&entry.path()));
                };
                set.0.insert(path, content);
                if set.0.len() > MOST_ENTRIES {
                    return Err(too_large(folder));
                }
            }
        }
        Ok(set)
    }

    /// Puts a content in place of what is at the path and below it, or without one removes what is at the path and below it.
    pub(crate) fn set(&mut self, path: PathBuf, content: Option<TaskFileContent>) {
        self.0.retain(|other, _| !other.starts_with(&path));
        if let Some(content) = content {
            self.0.insert(path, content);
        }
    }

    /// Removes a file that is where a folder should be.
    pub(crate) fn make_folder(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Returns the paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Adds a text file.
    pub(crate) fn add_text(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.0.insert(
            path.into(),
            TaskFileContent::Bytes { bytes: text.into().into_bytes(), mode: TEXT_MODE },
        );
    }

    /// Returns the files of this set that are at the paths or below them.
    pub(crate) fn below(&self, paths: &[PathBuf]) -> Self {
        let is_chosen = |path: &PathBuf| paths.iter().any(|chosen| path.starts_with(chosen));
        let chosen = self.0.iter().filter(|(path, _)| is_chosen(path));
        Self(chosen.map(|(path, content)| (path.clone(), content.clone())).collect())
    }

    /// Returns true if there are no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the paths and contents to a hash. Blocks.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub(crate) fn hash(&self, hasher: &mut blake3::Hasher) -> io::Result<()> {
        for (path, content) in &self.0 {
            let (kind, bytes) = match content {
                TaskFileContent::CopyOf(file) => {
                    let is_program = fs::metadata(file)?.permissions().mode() & 0o100 != 0;
                    (if is_program { "program" } else { "file" }, fs::read(file)?)
                }
                TaskFileContent::Bytes { bytes, mode } => {
                    (if mode & 0o100 == 0 { "file" } else { "program" }, bytes.clone())
                }
                TaskFileContent::LinkTo(target) => ("link", target.as_bytes().to_vec()),
            };
            for part in [kind.as_bytes(), path.as_os_str().as_bytes(), &bytes] {
                add_part(hasher, part);
            }
        }
        Ok(())
    }

    /// Writes the files into a folder, in place of what is there. Links in the folder are replaced, not followed. Blocks.
    ///
    /// # Errors
    /// Any error of the file system.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let root = Directory::open(folder)?;
        for (path, content) in &self.0 {
            let (parent, name) = real_parent(&root, path)?;
            match content {
                TaskFileContent::CopyOf(file) => {
                    let mode = fs::metadata(file)?.permissions().mode() & 0o777;
                    write_file(&parent, &name, &fs::read(file)?, mode | 0o200)?;
                }
                TaskFileContent::Bytes { bytes, mode } => {
                    write_file(&parent, &name, bytes, mode & 0o777 | 0o200)?;
                }
                TaskFileContent::LinkTo(target) => {
                    remove_tree(&parent, &name)?;
                    parent.create_symlink(target, &name)?;
                }
            }
        }
        Ok(())
    }
}

/// Adds a part of a structure to a hash, with its length, so that no two structures have the same bytes.
pub(crate) fn add_part(hasher: &mut blake3::Hasher, part: &[u8]) {
    hasher.update(&(part.len() as u64).to_le_bytes());
    hasher.update(part);
}

/// Opens the parent folder of a relative path, creating missing folders; links and files in the way are replaced.
fn real_parent(root: &Directory, path: &Path) -> io::Result<(Directory, EntryName)> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(EntryName::new(name)?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{} leads out of the folder", path.display()),
                ));
            }
        }
    }
    let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
    let mut directory = root.open_beneath(Path::new("."))?;
    for folder in names {
        match directory.metadata(&folder) {
            Ok(found) if found.kind == EntryKind::Directory => {}
            Ok(_) => {
                directory.remove_file(&folder)?;
                directory.create_directory(&folder, 0o755)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                directory.create_directory(&folder, 0o755)?;
            }
            Err(error) => return Err(error),
        }
        directory = directory.open_beneath(Path::new(folder.as_os_str()))?;
    }
    Ok((directory, name))
}

fn write_file(parent: &Directory, name: &EntryName, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = NewFile::create(parent, 0o600)?;
    file.write(bytes)?;
    file.set_mode(mode)?;
    match parent.metadata(name) {
        Ok(found) if found.kind == EntryKind::Directory => remove_tree(parent, name)?,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.persist(name, RenameMode::Replace)
}

/// Copies a tree into a folder that does not exist. Links are copied as links, times are not kept. Blocks.
///
/// # Errors
/// Fails if the tree is too large, or contains something other than files, folders and links.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = MOST_ENTRIES;
    copy_folder(from, to, DEEPEST, &mut left)
}

fn copy_folder(from: &Path, to: &Path, depth: usize, left: &mut usize) -> io::Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| too_large(from))?;
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        *left = left.checked_sub(1).ok_or_else(|| too_large(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&source, &target, depth, left)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        } else {
            return Err(special_file(&source));
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

fn special_file(path: &Path) -> io::Error {
    let text = format!("{} is neither a file, a folder nor a link", path.display());
    io::Error::new(io::ErrorKind::Unsupported, text)
}

fn too_large(folder: &Path) -> io::Error {
    let text = format!("{} has more than {MOST_ENTRIES} entries or is too deep", folder.display());
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.path().join("a/b/run.sh"), fs::Permissions::from_mode(0o755))
            .unwrap();
        fs::write(folder.path().join("top"), "1").unwrap();
        symlink("top", folder.path().join("link")).unwrap();
        folder
    }

    #[test]
    fn a_written_set_equals_the_listed_folder() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        let set = FileSet::of_folder(from.path(), |path| path == Path::new("top")).unwrap();
        set.write(&to.path().canonicalize().unwrap()).unwrap();
        let found = FileSet::of_folder(to.path(), |_| false).unwrap();
        assert_eq!(found.0.keys().collect::<Vec<_>>(), set.0.keys().collect::<Vec<_>>());
        let mode = fs::metadata(to.path().join("a/b/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let hash = |set: &FileSet| {
            let mut hasher = blake3::Hasher::new();
            set.hash(&mut hasher).unwrap();
            hasher.finalize()
        };
        assert_eq!(hash(&set), hash(&found));
        let mut other = found.clone();
        other.add_text("new", "");
        assert_ne!(hash(&found), hash(&other));
    }

    #[test]
    fn links_in_the_way_of_a_written_file_are_replaced() {
        let (outside, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("mine"), "mine").unwrap();
        symlink(outside.path(), folder.path().join("tests")).unwrap();
        symlink(outside.path().join("mine"), folder.path().join("file")).unwrap();
        fs::create_dir_all(folder.path().join("was-a-folder/x")).unwrap();
        let mut set = FileSet::default();
        for path in ["tests/mine", "file", "was-a-folder"] {
            set.add_text(path, "check");
        }
        set.write(&folder.path().canonicalize().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("mine")).unwrap(), "mine");
        for path in ["tests/mine", "file", "was-a-folder"] {
            assert_eq!(fs::read_to_string(folder.path().join(path)).unwrap(), "check", "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x"] {
            let mut set = FileSet::default();
            set.add_text(path, "x");
            assert!(set.write(&folder.path().canonicalize().unwrap()).is_err(), "{path}");
        }
    }

    #[test]
    fn a_copied_tree_has_links_and_modes() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        let to = to.path().join("copy");
        copy_tree(from.path(), &to).unwrap();
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("top"));
        let mode = fs::metadata(to.join("a/b/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(copy_tree(from.path(), &to).is_err(), "an existing folder is not written to");
    }
}
