//! Listing files of a folder, writing them elsewhere, and copying whole trees.
//!
//! Files are listed, read and written through crow-fs, by descriptor: a program under test may have put links into its
//! working folder, and the files of a check are written there afterwards.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName, NewFile, RenameMode, remove_tree};

/// Maximum number of entries of a tree.
const MOST_ENTRIES: usize = 200_000;
/// Maximum depth of a tree.
const DEEPEST: usize = 100;
/// Maximum length of all files of a set together, in bytes.
const LARGEST_SET: u64 = 1024 * 1024 * 1024;

/// Permission bits of text files.
const TEXT_MODE: u32 = 0o644;

/// A set of files to write, by their paths relative to the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSet(BTreeMap<PathBuf, TaskFileContent>);

/// Content of a file of a [`FileSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskFileContent {
    /// A copy of the regular file at this path, in which there are no links, with its mode.
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
    /// Lists the files of a folder, except those that `is_left_out` names by their relative path. Links in it become
    /// links of the set. Blocks.
    ///
    /// # Errors
    /// Fails if the path is not absolute or has a link, or if the folder cannot be read, is too large, or contains
    /// something other than files, folders and links.
    pub(crate) fn of_folder(
        folder: &Path,
        is_left_out: impl Fn(&Path) -> bool,
    ) -> io::Result<Self> {
        let mut set = Self::default();
        let root = Directory::open(folder)?;
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let directory = root.open_beneath(&Path::new(".").join(&below))?;
            for (name, kind) in directory.entries(usize::MAX)? {
                let path = below.join(name.as_os_str());
                if is_left_out(&path) {
                    continue;
                }
                let content = match kind {
                    EntryKind::Directory => {
                        pending.push(path);
                        continue;
                    }
                    EntryKind::Symlink => {
                        TaskFileContent::LinkTo(directory.read_link(&name)?.into_os_string())
                    }
                    EntryKind::File => TaskFileContent::CopyOf(folder.join(&path)),
                    EntryKind::Special => return Err(special_file(&folder.join(&path))),
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
    /// Fails if a file cannot be read, or the files are too large.
    pub(crate) fn hash(&self, hasher: &mut blake3::Hasher) -> io::Result<()> {
        let kind_of = |mode: u32| if mode & 0o100 == 0 { "file" } else { "program" };
        let mut left = LARGEST_SET;
        for (path, content) in &self.0 {
            let mut add_head = |kind: &str| {
                add_part(hasher, kind.as_bytes());
                add_part(hasher, path.as_os_str().as_bytes());
            };
            match content {
                TaskFileContent::CopyOf(file) => {
                    let source = CopySource::open(file, &mut left)?;
                    add_head(kind_of(source.mode));
                    hasher.update(&source.length.to_le_bytes());
                    source.copy_to(hasher)?;
                }
                TaskFileContent::Bytes { bytes, mode } => {
                    add_head(kind_of(*mode));
                    add_part(hasher, bytes);
                }
                TaskFileContent::LinkTo(target) => {
                    add_head("link");
                    add_part(hasher, target.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Writes the files into a folder, in place of what is there. Links in the folder are replaced, not followed. Blocks.
    ///
    /// # Errors
    /// Fails if the files are too large, and with any error of the file system.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let root = Directory::open(folder)?;
        let mut left = LARGEST_SET;
        for (path, content) in &self.0 {
            let (parent, name) = real_parent(&root, path)?;
            match content {
                TaskFileContent::CopyOf(file) => {
                    let source = CopySource::open(file, &mut left)?;
                    let mode = source.mode;
                    write_file(&parent, &name, mode, |new| source.copy_to(&mut new.file()))?;
                }
                TaskFileContent::Bytes { bytes, mode } => {
                    write_file(&parent, &name, *mode, |new| new.write(bytes))?;
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

/// A regular file that is copied piece by piece, since it may be large.
struct CopySource<'a> {
    path: &'a Path,
    file: File,
    mode: u32,
    length: u64,
}

impl<'a> CopySource<'a> {
    /// Opens a file of at most `left` bytes, from which its length is taken.
    fn open(path: &'a Path, left: &mut u64) -> io::Result<Self> {
        let file = crow_fs::open_file(path)?;
        let found = EntryMetadata::of_file(&file)?;
        if !found.is_file() {
            return Err(special_file(path));
        }
        *left = left.checked_sub(found.size).ok_or_else(|| {
            let text = format!(
                "with {} the files take more than 1 GiB: make or fetch large files in `setup`",
                path.display()
            );
            io::Error::new(io::ErrorKind::FileTooLarge, text)
        })?;
        Ok(Self { path, file, mode: found.mode, length: found.size })
    }

    /// Copies the content. Fails if the file is shorter than when it was opened.
    fn copy_to(self, target: &mut impl io::Write) -> io::Result<()> {
        if io::copy(&mut self.file.take(self.length), target)? == self.length {
            return Ok(());
        }
        let text = format!("{} changed while it was read", self.path.display());
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
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

/// Writes a file that its owner can change, whatever the mode says.
fn write_file(
    parent: &Directory,
    name: &EntryName,
    mode: u32,
    write: impl FnOnce(&mut NewFile<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = NewFile::create(parent, 0o600)?;
    write(&mut file)?;
    file.set_mode(mode & 0o777 | 0o200)?;
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Lists a temporary folder, whose path may have a link on some systems.
    fn listed(folder: &Path, is_left_out: impl Fn(&Path) -> bool) -> FileSet {
        FileSet::of_folder(&folder.canonicalize().unwrap(), is_left_out).unwrap()
    }

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
        let set = listed(from.path(), |path| path == Path::new("top"));
        set.write(&to.path().canonicalize().unwrap()).unwrap();
        let found = listed(to.path(), |_| false);
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
    fn a_file_that_became_a_link_after_it_was_listed_is_refused() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        let set = listed(from.path(), |_| false);
        fs::remove_file(from.path().join("top")).unwrap();
        symlink("a/b/run.sh", from.path().join("top")).unwrap();
        assert!(set.hash(&mut blake3::Hasher::new()).is_err());
        assert!(set.write(&to.path().canonicalize().unwrap()).is_err());
    }

    #[test]
    fn files_that_take_too_much_together_are_refused_before_they_are_read() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        // The script that comes before it leaves too little room.
        File::create(from.path().join("one")).unwrap().set_len(LARGEST_SET).unwrap();
        let set = listed(from.path(), |_| false);
        let hashed = set.hash(&mut blake3::Hasher::new()).unwrap_err().to_string();
        let written = set.write(&to.path().canonicalize().unwrap()).unwrap_err().to_string();
        assert!(hashed.contains("one the files take more than 1 GiB"), "{hashed}");
        assert_eq!(hashed, written);
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
