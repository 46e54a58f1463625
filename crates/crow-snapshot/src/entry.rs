//! The state of a path in a snapshot.

use std::{ffi::OsString, fmt, fs::Metadata, os::unix::fs::MetadataExt as _, path::PathBuf};

use crow_fs::EntryMetadata;

const NANOS: i64 = 1_000_000_000;

/// The hash of a content, which is its name in the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectHash(pub(super) [u8; 32]);

impl ObjectHash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    pub(super) fn parse(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// A root that could not be captured while others were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotScanned {
    /// The folder.
    pub root: PathBuf,
    /// The reason, in a few words.
    pub reason: String,
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotEntry {
    /// Nothing exists at the path.
    Absent,
    /// A file.
    File {
        /// The permission bits.
        mode: u32,
        /// Its length in bytes.
        size: u64,
        /// Its content.
        content: ContentRef,
    },
    /// A symbolic link, never followed.
    Link {
        /// Its target, as written.
        target: OsString,
    },
    /// A folder itself; its children are entries of their own.
    Folder {
        /// The permission bits.
        mode: u32,
    },
    /// A folder whose contents were not scanned.
    Unscanned {
        /// The reason.
        why: NotCoveredReason,
    },
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRef {
    /// In the store.
    Stored(ObjectHash),
    /// Not in the store: a change is detected, but cannot be put back.
    NotStored {
        /// The reason.
        why: NotCoveredReason,
        /// The stamp by which a change is detected.
        stamp: FileStamp,
    },
}

/// Metadata of a file by which a change is detected without reading it. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) inode: u64,
}

impl FileStamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            mode: permission_bits(metadata),
            size: metadata.size(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    pub(super) fn of_entry(metadata: &EntryMetadata) -> Self {
        Self {
            mode: metadata.mode,
            size: metadata.size,
            modified: nanos(metadata.modified.0, metadata.modified.1),
            changed: nanos(metadata.changed.0, metadata.changed.1),
            inode: metadata.identity.inode,
        }
    }
}

fn nanos(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(NANOS).saturating_add(rest)
}

/// Mask of the bits that `chmod` sets.
const PERMISSION_BITS: u32 = 0o7777;

/// Returns the bits that `chmod` sets.
pub(super) fn permission_bits(metadata: &Metadata) -> u32 {
    metadata.mode() & PERMISSION_BITS
}

/// An entry that a snapshot does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCovered {
    /// The file or folder.
    pub path: PathBuf,
    /// The reason.
    pub why: NotCoveredReason,
}

/// The reason why a snapshot does not hold an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotCoveredReason {
    /// The file is larger than the limit.
    #[error("the file is too large")]
    TooLarge,
    /// One scan reached its limit of newly stored bytes.
    #[error("too much new data at once")]
    TooMuchNew,
    /// The store has reached its size limit.
    #[error("the snapshot store is full")]
    StoreFull,
    /// The disk is nearly full.
    #[error("the disk is nearly full")]
    DiskFull,
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable,
    /// The folder is ignored and holds many files.
    #[error("the folder is ignored and holds many files")]
    IgnoredFolder,
    /// The project holds more than a scan covers.
    #[error("the project holds too many files")]
    TooManyFiles,
    /// The folder lies too deep.
    #[error("the folder lies too deep")]
    TooDeep,
    /// Another file system is mounted there.
    #[error("another file system is mounted there")]
    OtherFileSystem,
    /// It is a pipe, a socket or a device.
    #[error("it is neither a file, a folder nor a link")]
    Special,
    /// It is the folder in which a repository keeps its own data.
    #[error("a repository's own data is never captured")]
    Repository,
    /// The standard output or error of this process goes to it: its content was not written by a call.
    #[error("this program writes its own output to it")]
    OwnOutput,
}

impl NotCoveredReason {
    const ALL: [Self; 12] = [
        Self::TooLarge,
        Self::TooMuchNew,
        Self::StoreFull,
        Self::DiskFull,
        Self::Unreadable,
        Self::IgnoredFolder,
        Self::TooManyFiles,
        Self::TooDeep,
        Self::OtherFileSystem,
        Self::Special,
        Self::Repository,
        Self::OwnOutput,
    ];

    /// Returns its number in the store's files.
    pub(super) fn code(self) -> u8 {
        let at = Self::ALL.iter().position(|why| *why == self);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns whether a later process may find enough space to store it.
    pub(super) fn is_for_lack_of_space(self) -> bool {
        match self {
            Self::TooMuchNew | Self::StoreFull | Self::DiskFull => true,
            Self::TooLarge
            | Self::Unreadable
            | Self::IgnoredFolder
            | Self::TooManyFiles
            | Self::TooDeep
            | Self::OtherFileSystem
            | Self::Special
            | Self::Repository
            | Self::OwnOutput => false,
        }
    }
}
