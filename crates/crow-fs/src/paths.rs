//! The operations of [`Directory`] by absolute paths. Each function resolves the directory part without following a
//! link, holds it, and acts on the last name in it, which is not followed either.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Mode, lstat};

use crate::{
    directory::{Directory, EntryName, RenameMode},
    metadata::EntryMetadata,
    resolve::{PATH_FLAGS, open_absolute},
};

/// Returns the metadata of the entry at a path.
///
/// # Errors
///
/// The errors of [`Directory::metadata`].
pub fn metadata(path: &Path) -> io::Result<EntryMetadata> {
    if path == Path::new("/") {
        return Directory::open(path)?.own_metadata();
    }
    let (directory, name) = Directory::open_parent(path)?;
    directory.metadata(&name)
}

/// Returns the metadata of the last name of a path, in one system call. Links on the way are followed: this only
/// serves to detect changes of an entry seen before. Use [`metadata`] to act on the entry.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if nothing is there, and those of the file system.
pub fn metadata_through_links(path: &Path) -> io::Result<EntryMetadata> {
    Ok(EntryMetadata::new(&lstat(path)?))
}

/// Follows all links of an absolute path, as [`std::fs::canonicalize`] does; in one system call where there are none.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if nothing is there, and those of the file system.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return path.canonicalize();
    }
    match open_without_reading(path) {
        Ok(_) => Ok(path.components().collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        Err(_) => path.canonicalize(),
    }
}

/// Returns the target of a link as it is written.
///
/// # Errors
///
/// The errors of [`Directory::read_link`].
pub fn read_link(path: &Path) -> io::Result<PathBuf> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.read_link(&name)
}

/// Holds a file or a directory open without reading it, so that its inode number is not reused meanwhile.
///
/// # Errors
///
/// `ELOOP` if any name in the path, the last included, is a link.
pub fn open_without_reading(path: &Path) -> io::Result<File> {
    open_absolute(path, PATH_FLAGS, Mode::empty()).map(File::from)
}

/// Opens a file for reading.
///
/// # Errors
///
/// The errors of [`Directory::open_file`].
pub fn open_file(path: &Path) -> io::Result<File> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.open_file(&name)
}

/// Opens an existing file for writing, without truncating it.
///
/// # Errors
///
/// The errors of [`Directory::open_for_writing`].
pub fn open_for_writing(path: &Path) -> io::Result<File> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.open_for_writing(&name)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// [`io::ErrorKind::FileTooLarge`] beyond the limit, [`io::ErrorKind::InvalidInput`] if it is no regular file, and those
/// of [`Directory::open_file`].
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_file(open_file(path)?, limit)
}

/// Reads an opened regular file of at most `limit` bytes.
///
/// # Errors
///
/// The errors of [`read_bounded`].
pub fn read_file(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    if found.len() > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Creates a file at a free path, and opens it for reading and writing.
///
/// # Errors
///
/// The errors of [`Directory::create_file`].
pub fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.create_file(&name, mode)
}

/// Creates a directory.
///
/// # Errors
///
/// The errors of [`Directory::create_directory`].
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.create_directory(&name, mode)
}

/// Creates a directory and its missing parents, and opens it.
///
/// # Errors
///
/// The errors of [`Directory::create_directory`] and [`Directory::open`].
pub fn create_directories(path: &Path, mode: u32) -> io::Result<Directory> {
    let (nearest, missing) = Directory::open_nearest(path)?;
    nearest.create_directories(&missing, mode)
}

/// Creates a symbolic link at a path.
///
/// # Errors
///
/// The errors of [`Directory::create_symlink`].
pub fn create_symlink(target: &OsStr, path: &Path) -> io::Result<()> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.create_symlink(target, &name)
}

/// Adds another name to a file (a hard link).
///
/// # Errors
///
/// The errors of [`Directory::hard_link`].
pub fn hard_link(path: &Path, new: &Path) -> io::Result<()> {
    let ((from, name), (to, new_name)) =
        (Directory::open_parent(path)?, Directory::open_parent(new)?);
    from.hard_link(&name, &to, &new_name)
}

/// Sets the mode of a file or a directory.
///
/// # Errors
///
/// The errors of [`Directory::set_mode`].
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.set_mode(&name, mode)
}

/// Renames an entry, replacing one at the new path.
///
/// # Errors
///
/// The errors of [`Directory::rename`].
pub fn rename(path: &Path, new: &Path) -> io::Result<()> {
    rename_with(path, new, RenameMode::Replace)
}

/// Renames an entry to a free path.
///
/// # Errors
///
/// The errors of [`RenameMode::Keep`].
pub fn rename_without_replacing(path: &Path, new: &Path) -> io::Result<()> {
    rename_with(path, new, RenameMode::Keep)
}

/// Exchanges two entries.
///
/// # Errors
///
/// The errors of [`RenameMode::Exchange`].
pub fn exchange(path: &Path, other: &Path) -> io::Result<()> {
    rename_with(path, other, RenameMode::Exchange)
}

fn rename_with(path: &Path, new: &Path, mode: RenameMode) -> io::Result<()> {
    let ((from, name), (to, new_name)) =
        (Directory::open_parent(path)?, Directory::open_parent(new)?);
    from.rename(&name, &to, &new_name, mode)
}

/// Removes an entry that is no directory.
///
/// # Errors
///
/// The errors of [`Directory::remove_file`].
pub fn remove_file(path: &Path) -> io::Result<()> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.remove_file(&name)
}

/// Removes an empty directory.
///
/// # Errors
///
/// The errors of [`Directory::remove_directory`].
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let (directory, name) = Directory::open_parent(path)?;
    directory.remove_directory(&name)
}

/// Returns the names of the entries of a directory, in the order of the file system.
///
/// # Errors
///
/// The errors of [`Directory::open`] and [`Directory::names`].
pub fn read_directory(path: &Path) -> io::Result<Vec<EntryName>> {
    Directory::open(path)?.names()
}
