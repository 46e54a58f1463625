//! Opens a path as a descriptor, without following a link.

use std::{
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

/// The flags of a descriptor that is not read from.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// The flags of a descriptor that is not read from.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const PATH_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// The flags of a descriptor for resolving names: needs no read permission for the directory where the system
/// supports that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const DIRECTORY_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The flags of a descriptor for resolving names: needs no read permission for the directory where the system
/// supports that.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Returns whether an error means that a symbolic link is where none was expected.
pub fn is_link_error(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Opens an absolute path. Fails with `ELOOP` if any name in it, the last included, is a link.
pub(crate) fn open_absolute(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(invalid(path, "is not absolute"));
    }
    check_components(path)?;
    open_without_links(CWD, path, flags, mode)
}

/// Opens a relative path in a directory. Fails with `ELOOP` if any name in it, the last included, is a link.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    if path.is_absolute() {
        return Err(invalid(path, "is not relative"));
    }
    check_components(path)?;
    open_without_links(directory, path, flags, mode)
}

/// Refuses paths that would leave the directory, or that the system would read differently.
fn check_components(path: &Path) -> io::Result<()> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(invalid(path, "goes up with `..`"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(invalid(path, "contains a NUL byte"));
    }
    Ok(())
}

pub(crate) fn invalid(path: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the path {} {reason}", path.display()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_without_links(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    match in_one_step(directory, path, flags, mode) {
        Some(opened) => opened,
        None => by_walking(directory, path, flags, mode),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_without_links(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    by_walking(directory, path, flags, mode)
}

/// Lets the kernel resolve the whole path. Returns `None` if the kernel, or a filter of system calls, does not
/// support that.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn in_one_step(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Option<io::Result<OwnedFd>> {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{ResolveFlags, openat2};

    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    /// The number of further attempts when a change of the tree interrupts a resolution.
    const TRIES: usize = 64;

    if IS_MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    // The kernel takes a mode only with a flag that creates something.
    let mode =
        if flags.intersects(OFlags::CREATE | OFlags::TMPFILE) { mode } else { Mode::empty() };
    for _ in 0..TRIES {
        match openat2(directory, path, flags, mode, resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::NOSYS) => {
                IS_MISSING.store(true, Ordering::Relaxed);
                return None;
            }
            // Container filters answer so for calls that they do not know, but so do files.
            Err(Errno::PERM) => return None,
            opened => return Some(opened.map_err(io::Error::from)),
        }
    }
    Some(Err(io::ErrorKind::Interrupted.into()))
}

/// Opens name by name, each in the descriptor of the one before.
fn by_walking(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::CurDir | Component::RootDir | Component::ParentDir | Component::Prefix(_) => {
            None
        }
    });
    // The directory reached so far; `None` at the start of a relative path.
    let mut parent: Option<OwnedFd> = if path.is_absolute() {
        Some(openat(CWD, c"/", DIRECTORY_FLAGS, Mode::empty())?)
    } else {
        None
    };
    let Some(mut name) = names.next() else {
        let start = parent.as_ref().map_or(directory, |parent| parent.as_fd());
        return Ok(openat(start, c".", flags | OFlags::CLOEXEC, mode)?);
    };
    for next in names {
        let start = parent.as_ref().map_or(directory, |parent| parent.as_fd());
        let opened = openat(start, name, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty());
        parent = Some(opened.map_err(|error| link_or(error, start, name))?);
        name = next;
    }
    let start = parent.as_ref().map_or(directory, |parent| parent.as_fd());
    let opened = openat(start, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
        .map_err(|error| link_or(error, start, name))?;
    // With `O_PATH` alone, a link itself is opened.
    if FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP.into());
    }
    Ok(opened)
}

/// Converts `ENOTDIR` for a link in place of a directory into `ELOOP`.
fn link_or(error: Errno, directory: BorrowedFd<'_>, name: &std::ffi::OsStr) -> io::Error {
    let is_link = || {
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
    };
    match error {
        Errno::NOTDIR | Errno::MLINK if is_link() => Errno::LOOP.into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use proptest::prelude::*;

    use super::*;

    fn kind(result: io::Result<OwnedFd>) -> Result<(), Option<Errno>> {
        result.map(drop).map_err(|error| Errno::from_io_error(&error))
    }

    #[test]
    fn kernel_and_walk_resolve_a_path_alike() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::write(base.join("a/b/file"), "x").unwrap();
        symlink("a", base.join("link")).unwrap();
        symlink("file", base.join("a/b/other")).unwrap();
        symlink("nowhere", base.join("dangling")).unwrap();
        let directory = openat(CWD, &base, DIRECTORY_FLAGS, Mode::empty()).unwrap();
        let cases = [
            ("a/b/file", OFlags::RDONLY, Ok(())),
            ("a/b", OFlags::RDONLY, Ok(())),
            ("a/b", DIRECTORY_FLAGS, Ok(())),
            (".", DIRECTORY_FLAGS, Ok(())),
            ("a//b/./file", OFlags::RDONLY, Ok(())),
            ("link/b/file", OFlags::RDONLY, Err(Some(Errno::LOOP))),
            ("link", DIRECTORY_FLAGS, Err(Some(Errno::LOOP))),
            ("link", OFlags::PATH, Err(Some(Errno::LOOP))),
            ("a/b/other", OFlags::RDONLY, Err(Some(Errno::LOOP))),
            ("a/b/other", OFlags::PATH, Err(Some(Errno::LOOP))),
            ("dangling", OFlags::RDONLY, Err(Some(Errno::LOOP))),
            ("dangling", OFlags::WRONLY.union(OFlags::CREATE), Err(Some(Errno::LOOP))),
            ("a/b/file/x", OFlags::RDONLY, Err(Some(Errno::NOTDIR))),
            ("none/x", OFlags::RDONLY, Err(Some(Errno::NOENT))),
        ];
        for (path, flags, expected) in cases {
            let (path, mode) = (Path::new(path), Mode::empty());
            let walked = kind(by_walking(directory.as_fd(), path, flags, mode));
            assert_eq!(walked, expected, "walking {path:?}");
            assert_eq!(
                kind(open_beneath(directory.as_fd(), path, flags, mode)),
                expected,
                "{path:?}"
            );
            let whole = base.join(path);
            assert_eq!(kind(by_walking(CWD, &whole, flags, mode)), expected, "walking {whole:?}");
            assert_eq!(kind(open_absolute(&whole, flags, mode)), expected, "{whole:?}");
        }
    }

    #[test]
    fn links_of_proc_are_not_followed() {
        let path = Path::new("/proc/self/root/etc/passwd");
        let opened = open_absolute(path, OFlags::RDONLY, Mode::empty());
        assert!(is_link_error(&opened.unwrap_err()));
        let walked = by_walking(CWD, path, OFlags::RDONLY, Mode::empty());
        assert!(is_link_error(&walked.unwrap_err()));
    }

    proptest! {
        #[test]
        fn a_path_that_goes_up_is_refused(before in "([a-z]{1,3}/){0,3}", after in "(/[a-z]{1,3}){0,3}") {
            let path = format!("{before}..{after}");
            let opened = open_beneath(CWD, Path::new(&path), OFlags::PATH, Mode::empty());
            prop_assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
