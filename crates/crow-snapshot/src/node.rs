//! Folders and lists of paths as objects of the store.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use super::{
    Content, ContentHash, Entry, FileStamp, WhyNotCovered,
    codec::{Reader, Writer},
};

/// What a folder holds under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Child {
    /// Anything but a folder that was looked into.
    Leaf(Entry),
    /// A folder and the object that tells what is in it.
    Folder { mode: u32, node: ContentHash },
}

impl Child {
    /// Returns what it is by itself.
    pub(super) fn entry(&self) -> Entry {
        match self {
            Self::Leaf(entry) => entry.clone(),
            Self::Folder { mode, .. } => Entry::Folder { mode: *mode },
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

/// Writes what a folder holds; equal folders give equal bytes.
pub(super) fn write_folder<'a>(children: impl Iterator<Item = (&'a OsStr, Child)>) -> Vec<u8> {
    let mut writer = Writer::default();
    for (name, child) in children {
        writer.bytes(name.as_bytes());
        match child {
            Child::Leaf(entry) => write_entry(&mut writer, &entry),
            Child::Folder { mode, node } => {
                writer.byte(NODE);
                writer.number(mode.into());
                writer.hash(&node);
            }
        }
    }
    writer.into_bytes()
}

pub(super) fn read_folder(bytes: &[u8]) -> Option<Vec<(OsString, Child)>> {
    let mut reader = Reader::new(bytes);
    let mut children = Vec::new();
    while !reader.is_empty() {
        let name = OsString::from_vec(reader.bytes()?.to_vec());
        let child = match reader.byte()? {
            NODE => Child::Folder { mode: reader.small()?, node: reader.hash()? },
            tag => Child::Leaf(read_entry(&mut reader, tag)?),
        };
        children.push((name, child));
    }
    Some(children)
}

/// Writes a list of paths.
pub(super) fn write_paths(paths: &[(PathBuf, Entry)]) -> Vec<u8> {
    let mut writer = Writer::default();
    for (path, entry) in paths {
        writer.bytes(path.as_os_str().as_bytes());
        write_entry(&mut writer, entry);
    }
    writer.into_bytes()
}

pub(super) fn read_paths(bytes: &[u8]) -> Option<Vec<(PathBuf, Entry)>> {
    let mut reader = Reader::new(bytes);
    let mut paths = Vec::new();
    while !reader.is_empty() {
        let path = PathBuf::from(OsString::from_vec(reader.bytes()?.to_vec()));
        let tag = reader.byte()?;
        paths.push((path, read_entry(&mut reader, tag)?));
    }
    Some(paths)
}

/// Writes the roots of a workspace, each with the object that tells what is in it.
pub(super) fn write_roots(roots: &[(PathBuf, ContentHash)]) -> Vec<u8> {
    let mut writer = Writer::default();
    for (root, node) in roots {
        writer.bytes(root.as_os_str().as_bytes());
        writer.hash(node);
    }
    writer.into_bytes()
}

pub(super) fn read_roots(bytes: &[u8]) -> Option<Vec<(PathBuf, ContentHash)>> {
    let mut reader = Reader::new(bytes);
    let mut roots = Vec::new();
    while !reader.is_empty() {
        let root = PathBuf::from(OsString::from_vec(reader.bytes()?.to_vec()));
        roots.push((root, reader.hash()?));
    }
    Some(roots)
}

fn write_entry(writer: &mut Writer, entry: &Entry) {
    match entry {
        Entry::Absent => writer.byte(ABSENT),
        Entry::File { mode, size, content: Content::Stored(hash) } => {
            writer.byte(STORED);
            writer.number((*mode).into());
            writer.number(*size);
            writer.hash(hash);
        }
        Entry::File { content: Content::NotStored { why, stamp }, .. } => {
            writer.byte(NOT_STORED);
            writer.byte(why.code());
            write_stamp(writer, stamp);
        }
        Entry::Link { target } => {
            writer.byte(LINK);
            writer.bytes(target.as_bytes());
        }
        Entry::Folder { mode } => {
            writer.byte(FOLDER);
            writer.number((*mode).into());
        }
        Entry::LeftOut { why } => {
            writer.byte(LEFT_OUT);
            writer.byte(why.code());
        }
    }
}

fn read_entry(reader: &mut Reader<'_>, tag: u8) -> Option<Entry> {
    match tag {
        ABSENT => Some(Entry::Absent),
        STORED => Some(Entry::File {
            mode: reader.small()?,
            size: reader.number()?,
            content: Content::Stored(reader.hash()?),
        }),
        NOT_STORED => {
            let why = WhyNotCovered::from_code(reader.byte()?)?;
            let stamp = read_stamp(reader)?;
            Some(Entry::File {
                mode: stamp.mode,
                size: stamp.size,
                content: Content::NotStored { why, stamp },
            })
        }
        LINK => Some(Entry::Link { target: OsString::from_vec(reader.bytes()?.to_vec()) }),
        FOLDER => Some(Entry::Folder { mode: reader.small()? }),
        LEFT_OUT => Some(Entry::LeftOut { why: WhyNotCovered::from_code(reader.byte()?)? }),
        _ => None,
    }
}

pub(super) fn write_stamp(writer: &mut Writer, stamp: &FileStamp) {
    writer.number(stamp.mode.into());
    writer.number(stamp.size);
    writer.time(stamp.modified);
    writer.time(stamp.changed);
    writer.number(stamp.inode);
}

pub(super) fn read_stamp(reader: &mut Reader<'_>) -> Option<FileStamp> {
    Some(FileStamp {
        mode: reader.small()?,
        size: reader.number()?,
        modified: reader.time()?,
        changed: reader.time()?,
        inode: reader.number()?,
    })
}
