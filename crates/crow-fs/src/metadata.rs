//! Metadata of an entry; for a symbolic link that of the link itself.

use std::{fs::File, io};

use rustix::fs::{FileType, Stat, fstat};

const PERMISSION_BITS: u32 = 0o7777;

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Special,
}

/// The identity of a file: two names with the same identity are the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The device that the file is on.
    pub device: u64,
    /// The number of the file on its device.
    pub inode: u64,
}

/// Metadata of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryMetadata {
    /// Its kind.
    pub kind: EntryKind,
    /// Its identity.
    pub identity: FileIdentity,
    /// The bits that `chmod` sets.
    pub mode: u32,
    /// The length in bytes.
    pub size: u64,
    /// The number of hard links.
    pub links: u64,
    /// The user that owns it.
    pub user: u32,
    /// The group that owns it.
    pub group: u32,
    /// The time of the last content change: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// The time of the last change of content, mode, owner or names: seconds since 1970, and nanoseconds. Programs
    /// cannot set it.
    pub changed: (i64, i64),
    file_type: FileType,
}

impl EntryKind {
    pub(crate) fn new(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

impl EntryMetadata {
    /// Returns the metadata of an open file.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::new(&fstat(file)?))
    }

    pub(crate) fn new(stat: &Stat) -> Self {
        let file_type = FileType::from_raw_mode(stat.st_mode);
        Self {
            kind: EntryKind::new(file_type),
            identity: FileIdentity { device: number(stat.st_dev), inode: number(stat.st_ino) },
            mode: number::<_, u32>(stat.st_mode) & PERMISSION_BITS,
            size: number(stat.st_size),
            links: number(stat.st_nlink),
            user: stat.st_uid,
            group: stat.st_gid,
            modified: (number(stat.st_mtime), number(stat.st_mtime_nsec)),
            changed: (number(stat.st_ctime), number(stat.st_ctime_nsec)),
            file_type,
        }
    }

    /// Returns the kind as a noun phrase, as in "it is a socket".
    pub fn describe_kind(&self) -> &'static str {
        match self.file_type {
            FileType::RegularFile => "a regular file",
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a named pipe",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => "a device",
        }
    }

    /// Returns whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    /// Returns whether it is a directory (not a link to one).
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// Returns whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == EntryKind::Symlink
    }
}

/// Converts between integer types that differ between systems. Values of the system fit; what does not fit, such as a
/// negative size of a strange file system, counts as 0.
pub(crate) fn number<From, To: TryFrom<From> + Default>(value: From) -> To {
    value.try_into().unwrap_or_default()
}
