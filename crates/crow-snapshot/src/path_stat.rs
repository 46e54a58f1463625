//! The current metadata of an entry.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use super::{
    FileStamp,
    index::{IndexItem, IndexItemKind},
};

/// The current metadata of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathStat {
    pub(super) kind: PathKind,
    pub(super) stamp: FileStamp,
    pub(super) device: u64,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    File,
    Folder,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl PathStat {
    /// Stats a path, without following a link.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Returns the recorded metadata of an unchanged item; `None` for kinds that have none.
    pub(super) fn as_before(item: &IndexItem, device: u64) -> Option<Self> {
        let (is, seen) = match &item.kind {
            IndexItemKind::File { stamp: seen, .. } => (PathKind::File, *seen),
            IndexItemKind::Folder { folder, .. } => (PathKind::Folder, folder.stamp?),
            IndexItemKind::New | IndexItemKind::Link { .. } | IndexItemKind::Unscanned { .. } => {
                return None;
            }
        };
        Some(Self { kind: is, stamp: seen.stamp, device })
    }

    fn of(metadata: &Metadata) -> Self {
        let is = if metadata.is_dir() {
            PathKind::Folder
        } else if metadata.is_file() {
            PathKind::File
        } else if metadata.is_symlink() {
            PathKind::Link
        } else {
            PathKind::Special
        };
        Self { kind: is, stamp: FileStamp::of(metadata), device: metadata.dev() }
    }
}

/// Returns whether an error means that nothing exists at the path, for example because a parent is a file.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
