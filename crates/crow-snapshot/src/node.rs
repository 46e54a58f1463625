//! Binary form of folders, lists of paths and lists of roots as objects of the store.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use super::{
    ContentRef, FileStamp, NotCoveredReason, ObjectHash, SnapshotEntry,
    codec::{ByteReader, ByteWriter},
};

/// An entry of a folder's tree object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeEntry {
    /// Any entry except a scanned folder.
    Leaf(SnapshotEntry),
    /// A folder, by its mode and the hash of its tree object.
    Folder { mode: u32, node: ObjectHash },
}

impl TreeEntry {
    /// Returns its entry without the tree object.
    pub(super) fn entry(&self) -> SnapshotEntry {
        match self {
            Self::Leaf(entry) => entry.clone(),
            Self::Folder { mode, .. } => SnapshotEntry::Folder { mode: *mode },
        }
    }
}

const ABSENT: u8 = 0;
const STORED: u8 = 1;
const NOT_STORED: u8 = 2;
const LINK: u8 = 3;
const FOLDER: u8 = 4;
const LEFT_OUT: u8 = 5;
const NODE: u8 = 6;

/// Encodes the entries of a folder; equal folders give equal bytes.
pub(super) fn write_folder<'a>(children: impl Iterator<Item = (&'a OsStr, TreeEntry)>) -> Vec<u8> {
    let mut writer = ByteWriter::default();
    for (name, child) in children {
        writer.bytes(name.as_bytes());
        match child {
            TreeEntry::Leaf(entry) => write_entry(&mut writer, &entry),
            TreeEntry::Folder { mode, node } => {
                writer.byte(NODE);
                writer.number(mode.into());
                writer.hash(&node);
            }
        }
    }
    writer.into_bytes()
}

pub(super) fn read_folder(bytes: &[u8]) -> Option<Vec<(OsString, TreeEntry)>> {
    let mut reader = ByteReader::new(bytes);
    let mut children = Vec::new();
    while !reader.is_empty() {
        let name = OsString::from_vec(reader.bytes()?.to_vec());
        let child = match reader.byte()? {
            NODE => TreeEntry::Folder { mode: reader.small()?, node: reader.hash()? },
            tag => TreeEntry::Leaf(read_entry(&mut reader, tag)?),
        };
        children.push((name, child));
    }
    Some(children)
}

/// Encodes a list of paths.
pub(super) fn write_paths(paths: &[(PathBuf, SnapshotEntry)]) -> Vec<u8> {
    let mut writer = ByteWriter::default();
    for (path, entry) in paths {
        writer.bytes(path.as_os_str().as_bytes());
        write_entry(&mut writer, entry);
    }
    writer.into_bytes()
}

pub(super) fn read_paths(bytes: &[u8]) -> Option<Vec<(PathBuf, SnapshotEntry)>> {
    let mut reader = ByteReader::new(bytes);
    let mut paths = Vec::new();
    while !reader.is_empty() {
        let path = PathBuf::from(OsString::from_vec(reader.bytes()?.to_vec()));
        let tag = reader.byte()?;
        paths.push((path, read_entry(&mut reader, tag)?));
    }
    Some(paths)
}

/// Encodes the roots of a workspace, each with the hash of its tree object.
pub(super) fn write_roots(roots: &[(PathBuf, ObjectHash)]) -> Vec<u8> {
    let mut writer = ByteWriter::default();
    for (root, node) in roots {
        writer.bytes(root.as_os_str().as_bytes());
        writer.hash(node);
    }
    writer.into_bytes()
}

pub(super) fn read_roots(bytes: &[u8]) -> Option<Vec<(PathBuf, ObjectHash)>> {
    let mut reader = ByteReader::new(bytes);
    let mut roots = Vec::new();
    while !reader.is_empty() {
        let root = PathBuf::from(OsString::from_vec(reader.bytes()?.to_vec()));
        roots.push((root, reader.hash()?));
    }
    Some(roots)
}

fn write_entry(writer: &mut ByteWriter, entry: &SnapshotEntry) {
    match entry {
        SnapshotEntry::Absent => writer.byte(ABSENT),
        SnapshotEntry::File { mode, size, content: ContentRef::Stored(hash) } => {
            writer.byte(STORED);
            writer.number((*mode).into());
            writer.number(*size);
            writer.hash(hash);
        }
        SnapshotEntry::File { content: ContentRef::NotStored { why, stamp }, .. } => {
            writer.byte(NOT_STORED);
            writer.byte(why.code());
            write_stamp(writer, stamp);
        }
        SnapshotEntry::Link { target } => {
            writer.byte(LINK);
            writer.bytes(target.as_bytes());
        }
        SnapshotEntry::Folder { mode } => {
            writer.byte(FOLDER);
            writer.number((*mode).into());
        }
        SnapshotEntry::Unscanned { why } => {
            writer.byte(LEFT_OUT);
            writer.byte(why.code());
        }
    }
}

fn read_entry(reader: &mut ByteReader<'_>, tag: u8) -> Option<SnapshotEntry> {
    match tag {
        ABSENT => Some(SnapshotEntry::Absent),
        STORED => Some(SnapshotEntry::File {
            mode: reader.small()?,
            size: reader.number()?,
            content: ContentRef::Stored(reader.hash()?),
        }),
        NOT_STORED => {
            let why = NotCoveredReason::from_code(reader.byte()?)?;
            let stamp = read_stamp(reader)?;
            Some(SnapshotEntry::File {
                mode: stamp.mode,
                size: stamp.size,
                content: ContentRef::NotStored { why, stamp },
            })
        }
        LINK => Some(SnapshotEntry::Link { target: OsString::from_vec(reader.bytes()?.to_vec()) }),
        FOLDER => Some(SnapshotEntry::Folder { mode: reader.small()? }),
        LEFT_OUT => {
            Some(SnapshotEntry::Unscanned { why: NotCoveredReason::from_code(reader.byte()?)? })
        }
        _ => None,
    }
}

pub(super) fn write_stamp(writer: &mut ByteWriter, stamp: &FileStamp) {
    writer.number(stamp.mode.into());
    writer.number(stamp.size);
    writer.time(stamp.modified);
    writer.time(stamp.changed);
    writer.number(stamp.inode);
}

pub(super) fn read_stamp(reader: &mut ByteReader<'_>) -> Option<FileStamp> {
    Some(FileStamp {
        mode: reader.small()?,
        size: reader.number()?,
        modified: reader.time()?,
        changed: reader.time()?,
        inode: reader.number()?,
    })
}
