//! A directory held open by a descriptor, and the operations on its entries.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, mkdirat, openat,
        readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
    },
    io::Errno,
};

use crate::{
    metadata::{EntryKind, EntryMetadata, FileIdentity, number},
    resolve::{DIRECTORY_FLAGS, invalid, open_absolute, open_beneath},
};

/// Flags of every opened file: it neither follows a link nor waits for the other end of a pipe.
const OPENED_FILE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// A directory held open by a descriptor: it stays the same one, whatever is put at its path meanwhile. Names are
/// those of its entries; a name that is a link is never followed.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// The name of an entry in a directory: neither empty, `.` nor `..`, without a slash or a NUL byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName(OsString);

/// The behaviour of a rename if the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced, as by `rename(2)`.
    Replace,
    /// Fails with [`io::ErrorKind::AlreadyExists`] if the new name exists. Where the file system cannot do that in
    /// one step, it fails with [`io::ErrorKind::Unsupported`].
    Keep,
    /// The two entries are exchanged. Fails with [`io::ErrorKind::Unsupported`] where the file system cannot do that.
    Exchange,
}

impl EntryName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if it could name anything but an entry of the directory.
    pub fn new(name: impl Into<OsString>) -> io::Result<Self> {
        let name = name.into();
        check_name(&name)?;
        Ok(Self(name))
    }

    /// Returns the name.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

fn check_name(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(invalid(Path::new(name), "is not the name of an entry"));
    }
    Ok(())
}

impl Directory {
    /// Opens an absolute path.
    ///
    /// # Errors
    ///
    /// `ELOOP` if any name in it, the last included, is a link ([`is_link_error`](crate::is_link_error)).
    pub fn open(path: &Path) -> io::Result<Self> {
        open_absolute(path, DIRECTORY_FLAGS, Mode::empty()).map(Self)
    }

    /// Opens the directory of an absolute path, and returns the last name in it.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and [`io::ErrorKind::InvalidInput`] if the path has no last name.
    pub fn open_parent(path: &Path) -> io::Result<(Self, EntryName)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid(path, "names no entry of a directory"));
        };
        Ok((Self::open(parent)?, EntryName::new(name)?))
    }

    /// Opens the nearest directory of an absolute path that exists, and returns the names below it that are missing,
    /// outermost first.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_nearest(path: &Path) -> io::Result<(Self, Vec<EntryName>)> {
        let mut missing = Vec::new();
        for above in path.ancestors() {
            match Self::open(above) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let name = above.file_name().ok_or(error)?;
                    missing.push(EntryName::new(name)?);
                }
                opened => {
                    missing.reverse();
                    return Ok((opened?, missing));
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Creates nested directories where they are missing, and opens the innermost.
    ///
    /// # Errors
    ///
    /// The errors of [`create_directory`](Self::create_directory) and [`open_beneath`](Self::open_beneath).
    pub fn create_directories(&self, names: &[EntryName], mode: u32) -> io::Result<Self> {
        let mut directory = self.open_beneath(Path::new("."))?;
        for name in names {
            match directory.create_directory(name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => created?,
            }
            directory = directory.open_beneath(Path::new(name.as_os_str()))?;
        }
        Ok(directory)
    }

    /// Opens a directory beneath this one by a relative path.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and [`io::ErrorKind::InvalidInput`] if the path is absolute or goes up.
    pub fn open_beneath(&self, path: &Path) -> io::Result<Self> {
        open_beneath(self.0.as_fd(), path, DIRECTORY_FLAGS, Mode::empty()).map(Self)
    }

    /// Opens the directory of a path beneath this one, and returns the last name in it.
    ///
    /// # Errors
    ///
    /// The errors of [`open_beneath`](Self::open_beneath).
    pub fn open_parent_beneath(&self, path: &Path) -> io::Result<(Self, EntryName)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid(path, "names no entry of a directory"));
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        Ok((self.open_beneath(parent)?, EntryName::new(name)?))
    }

    /// Returns the identity of the directory.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        Ok(self.own_metadata()?.identity)
    }

    /// Returns the metadata of the directory itself.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn own_metadata(&self) -> io::Result<EntryMetadata> {
        Ok(EntryMetadata::new(&fstat(&self.0)?))
    }

    /// Returns the metadata of an entry.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none, and those of the file system.
    pub fn metadata(&self, name: &EntryName) -> io::Result<EntryMetadata> {
        Ok(EntryMetadata::new(&statat(&self.0, &name.0, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the same as [`metadata`](Self::metadata), without copying the name, for callers with very many entries.
    ///
    /// # Errors
    ///
    /// The errors of [`EntryName::new`] and [`metadata`](Self::metadata).
    pub fn metadata_of(&self, name: &OsStr) -> io::Result<EntryMetadata> {
        check_name(name)?;
        Ok(EntryMetadata::new(&statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the metadata of the last name of a path that begins in this directory, in one system call, as
    /// [`metadata_through_links`](crate::metadata_through_links) does.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if nothing is there, [`io::ErrorKind::InvalidInput`] if the path is absolute or goes
    /// up, and those of the file system.
    pub fn metadata_through_links(&self, path: &Path) -> io::Result<EntryMetadata> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(invalid(path, "does not lead below the directory"));
        }
        Ok(EntryMetadata::new(&statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the target of a link as it is written.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if it is no link, and those of the file system.
    pub fn read_link(&self, name: &EntryName) -> io::Result<PathBuf> {
        let target = readlinkat(&self.0, &name.0, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Opens a file for reading. Other kinds of entries are opened as well, without waiting.
    ///
    /// # Errors
    ///
    /// `ELOOP` if it is a link, and those of the file system.
    pub fn open_file(&self, name: &EntryName) -> io::Result<File> {
        self.open_entry(name, OFlags::RDONLY, 0)
    }

    /// Opens a file beneath this directory for reading, by a relative path. Other kinds of entries are opened as well,
    /// without waiting.
    ///
    /// # Errors
    ///
    /// The errors of [`open_beneath`](Self::open_beneath).
    pub fn open_file_beneath(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OPENED_FILE;
        open_beneath(self.0.as_fd(), path, flags, Mode::empty()).map(File::from)
    }

    /// Opens an existing file for writing, without truncating it.
    ///
    /// # Errors
    ///
    /// The errors of [`open_file`](Self::open_file).
    pub fn open_for_writing(&self, name: &EntryName) -> io::Result<File> {
        self.open_entry(name, OFlags::WRONLY, 0)
    }

    /// Creates a file at a free name, and opens it for reading and writing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if something is there, and those of the file system.
    pub fn create_file(&self, name: &EntryName, mode: u32) -> io::Result<File> {
        self.open_entry(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
    }

    fn open_entry(&self, name: &EntryName, flags: OFlags, mode: u32) -> io::Result<File> {
        let opened =
            openat(&self.0, &name.0, flags | OPENED_FILE, Mode::from_raw_mode(number(mode)));
        Ok(File::from(opened?))
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if something is there, and those of the file system.
    pub fn create_directory(&self, name: &EntryName, mode: u32) -> io::Result<()> {
        Ok(mkdirat(&self.0, &name.0, Mode::from_raw_mode(number(mode)))?)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if something is there, and those of the file system.
    pub fn create_symlink(&self, target: &OsStr, name: &EntryName) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, &name.0)?)
    }

    /// Adds another name to a file (a hard link).
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if something is at the new name, and those of the file system.
    pub fn hard_link(&self, name: &EntryName, to: &Self, new_name: &EntryName) -> io::Result<()> {
        Ok(linkat(&self.0, &name.0, &to.0, &new_name.0, AtFlags::empty())?)
    }

    /// Sets the mode of a file or a directory.
    ///
    /// # Errors
    ///
    /// `ELOOP` if it is a link, [`io::ErrorKind::InvalidInput`] if it is neither a file nor a directory.
    pub fn set_mode(&self, name: &EntryName, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(number(mode));
        match openat(&self.0, &name.0, OFlags::RDONLY | OPENED_FILE, Mode::empty()) {
            Ok(opened) => {
                let found = EntryMetadata::new(&fstat(&opened)?);
                if !found.is_file() && !found.is_directory() {
                    return Err(invalid(Path::new(&name.0), "is neither a file nor a directory"));
                }
                Ok(fchmod(&opened, mode)?)
            }
            // A file without read permission is opened as a path only.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Err(Errno::ACCESS) => self.set_mode_of_unreadable(name, mode),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the mode through `/proc`: `fchmod` rejects a descriptor opened with `O_PATH`, but its link in `/proc`
    /// leads to exactly that file.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn set_mode_of_unreadable(&self, name: &EntryName, mode: Mode) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(&self.0, &name.0, flags, Mode::empty())?;
        let found = EntryMetadata::new(&fstat(&descriptor)?);
        if found.is_symlink() {
            return Err(Errno::LOOP.into());
        }
        if !found.is_file() && !found.is_directory() {
            return Err(invalid(Path::new(&name.0), "is neither a file nor a directory"));
        }
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        Ok(rustix::fs::chmod(link, mode)?)
    }

    /// Renames an entry, also into another directory of the same file system.
    ///
    /// # Errors
    ///
    /// The errors documented at [`RenameMode`], and those of the file system.
    pub fn rename(
        &self,
        name: &EntryName,
        to: &Self,
        new_name: &EntryName,
        mode: RenameMode,
    ) -> io::Result<()> {
        let flags = match mode {
            RenameMode::Replace => return Ok(renameat(&self.0, &name.0, &to.0, &new_name.0)?),
            RenameMode::Keep => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        match renameat_with(&self.0, &name.0, &to.0, &new_name.0, flags) {
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            renamed => Ok(renamed?),
        }
    }

    /// Removes an entry that is no directory.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn remove_file(&self, name: &EntryName) -> io::Result<()> {
        Ok(unlinkat(&self.0, &name.0, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::DirectoryNotEmpty`], and those of the file system.
    pub fn remove_directory(&self, name: &EntryName) -> io::Result<()> {
        Ok(unlinkat(&self.0, &name.0, AtFlags::REMOVEDIR)?)
    }

    /// Returns the names of its entries, in the order of the file system.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn names(&self) -> io::Result<Vec<EntryName>> {
        let entries = self.entries(usize::MAX)?;
        Ok(entries.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the first `limit` names with their kinds, in the order of the file system. Entries removed meanwhile
    /// are left out.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn entries(&self, limit: usize) -> io::Result<Vec<(EntryName, EntryKind)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(&self.0, c".", flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == limit {
                break;
            }
            let name = EntryName(name);
            // Not every file system returns the kind with the name.
            let kind = if entry.file_type() == FileType::Unknown {
                match self.metadata(&name) {
                    Ok(metadata) => metadata.kind,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            } else {
                EntryKind::new(entry.file_type())
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
