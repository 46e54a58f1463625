//! Copies of entries that are about to be overwritten, beside them.

use std::{
    ffi::OsString,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName, RenameMode};

use super::{atomic_replace::RestoreTarget, path_stat::is_absence};

/// Copies a file or link beside itself under a free name, and returns the path of the copy; `None` if it is neither.
pub(super) fn keep_copy(path: &Path) -> io::Result<Option<PathBuf>> {
    let found = Directory::open_parent(path)
        .and_then(|(directory, name)| Ok((directory.metadata(&name)?, directory, name)));
    let (metadata, directory, name) = match found {
        Ok(found) => found,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    match metadata.kind {
        EntryKind::Symlink => {
            let target = directory.read_link(&name)?;
            let make = |copy: &EntryName| directory.create_symlink(target.as_os_str(), copy);
            let ((), copy) = under_free_name(&name, make)?;
            return Ok(Some(path.with_file_name(copy.as_os_str())));
        }
        EntryKind::File => {}
        EntryKind::Directory | EntryKind::Special => return Ok(None),
    }
    let mut from = directory.open_file(&name)?;
    let metadata = EntryMetadata::of_file(&from)?;
    if metadata.kind != EntryKind::File {
        return Ok(None);
    }
    let (mut to, copy) = under_free_name(&name, |copy| directory.create_file(copy, 0o600))?;
    let copied = io::copy(&mut from, &mut to)
        .and_then(|_| to.set_permissions(Permissions::from_mode(metadata.mode)));
    if let Err(error) = copied {
        directory.remove_file(&copy)?;
        return Err(error);
    }
    Ok(Some(path.with_file_name(copy.as_os_str())))
}

/// Renames a folder to a free name beside it, and returns the new path; `None` if it is no folder.
pub(super) fn move_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    let (directory, name) = Directory::open_parent(path)?;
    match directory.metadata(&name) {
        Ok(metadata) if metadata.is_directory() => {}
        Ok(_) => return Ok(None),
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let rename = |copy: &EntryName| directory.rename(&name, &directory, copy, RenameMode::Keep);
    let ((), copy) = under_free_name(&name, rename)?;
    Ok(Some(path.with_file_name(copy.as_os_str())))
}

/// Moves a temporary file or link, whose path was taken meanwhile, to a free name beside that path.
pub(super) fn put_aside(target: &RestoreTarget<'_>, own: &EntryName) -> io::Result<()> {
    let directory = &target.directory;
    under_free_name(&target.name, |copy| directory.hard_link(own, directory, copy))?;
    directory.remove_file(own)
}

fn under_free_name<T>(
    name: &EntryName,
    make: impl Fn(&EntryName) -> io::Result<T>,
) -> io::Result<(T, EntryName)> {
    let mut number = 1_u32;
    loop {
        let mut copy = OsString::from(name.as_os_str());
        copy.push(".crow-kept");
        if number > 1 {
            copy.push(format!("-{number}"));
        }
        let copy = EntryName::new(copy)?;
        match make(&copy) {
            Ok(new) => return Ok((new, copy)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
