//! Removing a directory with everything in it.

use std::{io, path::Path};

use rustix::io::Errno;

use crate::directory::{Directory, EntryName};

/// The greatest depth of a removed tree; each level holds a descriptor open.
const DEEPEST: usize = 512;

/// Removes an entry with everything in it, whatever is put in its place meanwhile. Links are removed, not followed. A
/// missing entry is no error.
///
/// # Errors
///
/// Those of the file system; [`io::ErrorKind::DirectoryNotEmpty`] if another process keeps filling it.
pub fn remove_tree(directory: &Directory, name: &EntryName) -> io::Result<()> {
    remove(directory, name, DEEPEST)
}

fn remove(directory: &Directory, name: &EntryName, depth: usize) -> io::Result<()> {
    match directory.remove_file(name) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if is_directory(&error) => {}
        Err(error) => return Err(error),
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the tree is too deep to be removed",
        ));
    };
    let inner = directory.open_beneath(Path::new(name.as_os_str()))?;
    for entry in inner.names()? {
        remove(&inner, &entry, depth)?;
    }
    match directory.remove_directory(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns whether removal as a file failed because it is a directory: Linux returns `EISDIR`, others `EPERM`.
fn is_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ISDIR | Errno::PERM))
}
