//! Copies of what is about to be overwritten, beside it.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{entry::permission_bits, now::is_absence};

/// Copies a file or a link beside itself, under a name that was free. Nothing comes back if there is neither.
pub(super) fn keep_copy(path: &Path) -> io::Result<Option<PathBuf>> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if metadata.is_symlink() {
        let target = fs::read_link(path)?;
        return under_free_name(path, |copy| symlink(&target, copy)).map(|((), copy)| Some(copy));
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut from = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = from.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let make = |copy: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy);
    let (mut to, copy) = under_free_name(path, make)?;
    let copied = io::copy(&mut from, &mut to)
        .and_then(|_| to.set_permissions(Permissions::from_mode(permission_bits(&metadata))));
    if let Err(error) = copied {
        fs::remove_file(&copy)?;
        return Err(error);
    }
    Ok(Some(copy))
}

/// Gives a file or a link that has no place any more a free name beside the place that it had.
pub(super) fn put_aside(own: &Path, path: &Path) -> io::Result<()> {
    under_free_name(path, |copy| fs::hard_link(own, copy))?;
    fs::remove_file(own)
}

fn under_free_name<T>(
    path: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    let mut number = 1_u32;
    loop {
        let mut name = path.file_name().map(OsString::from).unwrap_or_default();
        name.push(".crow-kept");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let copy = path.with_file_name(name);
        match make(&copy) {
            Ok(new) => return Ok((new, copy)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
