//! The index of the last scan: stamps and hashes, so that the next scan reads only changed files. It is a cache:
//! losing it costs only time.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use super::{
    ContentRef, FileStamp, NotCoveredReason, ObjectHash, SnapshotEntry,
    codec::{ByteReader, ByteWriter},
    node::{TreeEntry, read_stamp, write_stamp},
    objects::{Objects, private_folder, replace},
    parallel_stat::UnchangedMark,
};

const FILE: &str = "index";
/// Folder of the indexes of further roots.
const FURTHER: &str = "indexes";
const MAGIC: &[u8] = b"crow snapshot index 1\n";
/// Length in bytes of the hash at the end of the file.
const HASH: usize = 32;

/// The state of a root at its last scan.
#[derive(Debug, Default)]
pub(super) struct ScanIndex {
    /// The number of garbage collections of the store before the scan.
    pub(super) generation: u64,
    /// Hash of the ignore rules from above the root.
    pub(super) outer_rules: Option<ObjectHash>,
    pub(super) root: IndexFolder,
}

/// A folder that was scanned.
#[derive(Debug, Default)]
pub(super) struct IndexFolder {
    /// The stamp of the folder; `None` if its list of names must be read again.
    pub(super) stamp: Option<IndexStamp>,
    /// Sorted by name.
    pub(super) items: Vec<IndexItem>,
    /// The hash of its tree object, if that is in the store.
    pub(super) node: Option<ObjectHash>,
    /// The hash of its entries that are not ignored.
    pub(super) unignored: Option<ObjectHash>,
    /// The ignore rules by which its items were judged.
    pub(super) rules: Option<ContentRef>,
}

/// An entry of a folder.
#[derive(Debug)]
pub(super) struct IndexItem {
    pub(super) name: OsString,
    pub(super) ignored: bool,
    pub(super) kind: IndexItemKind,
    pub(super) unchanged: UnchangedMark,
}

/// The kind of an entry, with the result of its last scan.
#[derive(Debug)]
pub(super) enum IndexItemKind {
    /// Not scanned yet.
    New,
    /// A file and its content.
    File { stamp: IndexStamp, content: ContentRef },
    /// A symbolic link and its target.
    Link { target: OsString },
    /// A folder.
    Folder { mode: u32, folder: Box<IndexFolder> },
    /// A folder that is not scanned.
    Unscanned { stamp: IndexStamp, why: NotCoveredReason },
}

/// A stamp, and whether it is old enough to prove anything: a file may change twice within one tick of the file
/// system's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexStamp {
    pub(super) stamp: FileStamp,
    pub(super) settled: bool,
}

impl IndexStamp {
    /// Returns whether the file is provably unchanged.
    pub(super) fn proves_unchanged(&self, now: &FileStamp) -> bool {
        self.settled && self.stamp == *now
    }
}

impl IndexItem {
    /// Returns its snapshot entry; `None` if it was not scanned yet.
    pub(super) fn child(&self) -> Option<TreeEntry> {
        Some(match &self.kind {
            IndexItemKind::New => return None,
            IndexItemKind::File { stamp: seen, content } => TreeEntry::Leaf(SnapshotEntry::File {
                mode: seen.stamp.mode,
                size: seen.stamp.size,
                content: *content,
            }),
            IndexItemKind::Link { target } => {
                TreeEntry::Leaf(SnapshotEntry::Link { target: target.clone() })
            }
            IndexItemKind::Folder { mode, folder } => {
                TreeEntry::Folder { mode: *mode, node: folder.node? }
            }
            IndexItemKind::Unscanned { why, .. } => {
                TreeEntry::Leaf(SnapshotEntry::Unscanned { why: *why })
            }
        })
    }
}

impl IndexItem {
    /// Sets the entry to a link. Returns whether it was another kind or had another target before.
    pub(super) fn set_link(&mut self, target: OsString) -> bool {
        let is_new =
            !matches!(&self.kind, IndexItemKind::Link { target: before } if *before == target);
        self.kind = IndexItemKind::Link { target };
        is_new
    }

    /// Returns the hash of a folder's tree object.
    pub(super) fn node(&self) -> Option<ObjectHash> {
        self.folder().and_then(|folder| folder.node)
    }

    /// Returns the hash of the entries of a folder that are not ignored.
    pub(super) fn unignored(&self) -> Option<ObjectHash> {
        self.folder().and_then(|folder| folder.unignored)
    }

    /// Returns whether it is a file or link that is proven unchanged, so that it needs no scan. The proof is
    /// consumed.
    pub(super) fn is_proven_leaf(&mut self) -> bool {
        let is_leaf = match &self.kind {
            IndexItemKind::File { content: ContentRef::Stored(_), .. }
            | IndexItemKind::Link { .. } => true,
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Folder { .. }
            | IndexItemKind::Unscanned { .. } => false,
        };
        is_leaf && self.unchanged.take()
    }

    fn folder(&self) -> Option<&IndexFolder> {
        match &self.kind {
            IndexItemKind::Folder { folder, .. } => Some(folder),
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Link { .. }
            | IndexItemKind::Unscanned { .. } => None,
        }
    }
}

impl IndexFolder {
    /// Updates the items to a sorted list of names, and keeps the data of those that stay. Returns whether the names
    /// changed.
    pub(super) fn merge(&mut self, names: Vec<OsString>) -> bool {
        // Both lists are sorted, so one pass merges them; items whose name is gone are dropped.
        let mut known = std::mem::take(&mut self.items).into_iter().peekable();
        let mut changed = false;
        for name in names {
            while known.next_if(|item| item.name < name).is_some() {
                changed = true;
            }
            self.items.push(known.next_if(|item| item.name == name).unwrap_or_else(|| {
                changed = true;
                IndexItem {
                    name,
                    ignored: false,
                    kind: IndexItemKind::New,
                    unchanged: UnchangedMark::default(),
                }
            }));
        }
        changed || known.next().is_some()
    }

    /// After a garbage collection: marks entries that are no longer in the store, so that the next scan stores them
    /// again.
    fn forget_missing(&mut self, objects: &Objects) {
        for item in &mut self.items {
            match &mut item.kind {
                IndexItemKind::File { stamp: seen, content: ContentRef::Stored(hash) } => {
                    // An unsettled stamp makes the next scan read the file again.
                    seen.settled &= objects.has(hash);
                }
                IndexItemKind::Folder { folder, .. } => {
                    folder.forget_missing(objects);
                    // The hash of this folder includes that of the subfolder.
                    if folder.node.is_none() {
                        self.node = None;
                    }
                }
                // There may be space again.
                IndexItemKind::File { stamp: seen, content: ContentRef::NotStored { why, .. } } => {
                    seen.settled &= !why.is_for_lack_of_space();
                }
                IndexItemKind::New
                | IndexItemKind::Link { .. }
                | IndexItemKind::Unscanned { .. } => {}
            }
        }
        self.node = self.node.filter(|node| objects.has(node));
    }
}

impl ScanIndex {
    /// Applies the garbage collections since the last scan.
    pub(super) fn catch_up(&mut self, generation: u64, objects: &Objects) {
        if self.generation != generation {
            self.generation = generation;
            self.root.forget_missing(objects);
        }
    }

    /// Returns the path of the project's index.
    pub(super) fn file(store: &Path) -> PathBuf {
        store.join(FILE)
    }

    /// Returns the path of the index of a further root.
    pub(super) fn file_of(store: &Path, root: &Path) -> PathBuf {
        store.join(FURTHER).join(ObjectHash::of(root.as_os_str().as_bytes()).to_string())
    }

    /// Removes the indexes of all further roots except these.
    pub(super) fn forget_further(store: &Path, but: &BTreeSet<PathBuf>) -> io::Result<()> {
        let kept: Vec<PathBuf> = but.iter().map(|root| Self::file_of(store, root)).collect();
        let files = match fs::read_dir(store.join(FURTHER)) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for file in files {
            let path = file?.path();
            if !kept.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Reads an index; `None` if it is missing, cut, damaged or of another version.
    pub(super) fn load(file: &Path) -> Option<Self> {
        let bytes = fs::read(file).ok()?;
        // The hash at the end covers everything before it.
        let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
        if ObjectHash::of(body).0 != hash {
            return None;
        }
        let mut reader = ByteReader::new(body.strip_prefix(MAGIC)?);
        let generation = reader.number()?;
        let outer_rules = known(reader.hash()?);
        Some(Self { generation, outer_rules, root: read_folder(&mut reader)? })
    }

    pub(super) fn save(&self, store: &Path, file: &Path) -> io::Result<()> {
        let mut writer = ByteWriter::default();
        writer.number(self.generation);
        write_hash(&mut writer, self.outer_rules);
        write_folder(&mut writer, &self.root);
        let mut bytes = [MAGIC, &writer.into_bytes()].concat();
        let hash = ObjectHash::of(&bytes);
        bytes.extend(hash.0);
        if let Some(folder) = file.parent().filter(|folder| *folder != store) {
            private_folder(folder)?;
        }
        replace(&store.join("unfinished"), file, &bytes)
    }
}

const NEW: u8 = 0;
const STORED: u8 = 1;
const NOT_STORED: u8 = 2;
const LINK: u8 = 3;
const FOLDER: u8 = 4;
const LEFT_OUT: u8 = 5;

fn write_folder(writer: &mut ByteWriter, folder: &IndexFolder) {
    // 1) The folder itself: stamp, hashes and rules.
    match &folder.stamp {
        Some(seen) => {
            writer.byte(1);
            write_seen(writer, seen);
        }
        None => writer.byte(0),
    }
    write_hash(writer, folder.node);
    write_hash(writer, folder.unignored);
    write_hash(writer, folder.rules.and_then(stored));
    // 2) Its items: name, ignored flag and kind, then the data of the kind; folders recursively.
    writer.number(folder.items.len() as u64);
    for item in &folder.items {
        writer.bytes(item.name.as_bytes());
        writer.byte(item.ignored.into());
        match &item.kind {
            IndexItemKind::File { stamp: seen, content: ContentRef::Stored(hash) } => {
                writer.byte(STORED);
                write_seen(writer, seen);
                writer.hash(hash);
            }
            IndexItemKind::File { stamp: seen, content: ContentRef::NotStored { why, .. } }
                if !why.is_for_lack_of_space() =>
            {
                writer.byte(NOT_STORED);
                write_seen(writer, seen);
                writer.byte(why.code());
            }
            // The next process may find space.
            IndexItemKind::New | IndexItemKind::File { .. } => writer.byte(NEW),
            IndexItemKind::Link { target } => {
                writer.byte(LINK);
                writer.bytes(target.as_bytes());
            }
            IndexItemKind::Folder { mode, folder } => {
                writer.byte(FOLDER);
                writer.number((*mode).into());
                write_folder(writer, folder);
            }
            IndexItemKind::Unscanned { stamp: seen, why } => {
                writer.byte(LEFT_OUT);
                write_seen(writer, seen);
                writer.byte(why.code());
            }
        }
    }
}

/// Reads a folder in the order in which [`write_folder`] wrote it.
fn read_folder(reader: &mut ByteReader<'_>) -> Option<IndexFolder> {
    let seen = match reader.byte()? {
        0 => None,
        _ => Some(read_seen(reader)?),
    };
    let node = known(reader.hash()?);
    let unignored = known(reader.hash()?);
    let rules = known(reader.hash()?).map(ContentRef::Stored);
    let mut items = Vec::new();
    for _ in 0..reader.length()? {
        let name = OsString::from_vec(reader.bytes()?.to_vec());
        let ignored = reader.byte()? != 0;
        let what = match reader.byte()? {
            NEW => IndexItemKind::New,
            STORED => {
                let seen = read_seen(reader)?;
                IndexItemKind::File { stamp: seen, content: ContentRef::Stored(reader.hash()?) }
            }
            NOT_STORED => {
                let seen = read_seen(reader)?;
                let why = NotCoveredReason::from_code(reader.byte()?)?;
                IndexItemKind::File {
                    stamp: seen,
                    content: ContentRef::NotStored { why, stamp: seen.stamp },
                }
            }
            LINK => IndexItemKind::Link { target: OsString::from_vec(reader.bytes()?.to_vec()) },
            FOLDER => {
                let mode = reader.small()?;
                IndexItemKind::Folder { mode, folder: Box::new(read_folder(reader)?) }
            }
            LEFT_OUT => {
                let seen = read_seen(reader)?;
                IndexItemKind::Unscanned {
                    stamp: seen,
                    why: NotCoveredReason::from_code(reader.byte()?)?,
                }
            }
            _ => return None,
        };
        items.push(IndexItem { name, ignored, kind: what, unchanged: UnchangedMark::default() });
    }
    Some(IndexFolder { stamp: seen, items, node, unignored, rules })
}

/// Returns the hash of stored rules; rules that are not in the store are read again.
fn stored(content: ContentRef) -> Option<ObjectHash> {
    match content {
        ContentRef::Stored(hash) => Some(hash),
        ContentRef::NotStored { .. } => None,
    }
}

fn write_seen(writer: &mut ByteWriter, seen: &IndexStamp) {
    writer.byte(seen.settled.into());
    write_stamp(writer, &seen.stamp);
}

fn read_seen(reader: &mut ByteReader<'_>) -> Option<IndexStamp> {
    let settled = reader.byte()? != 0;
    Some(IndexStamp { settled, stamp: read_stamp(reader)? })
}

/// Encodes `None`: no content has this hash.
const NOTHING: ObjectHash = ObjectHash([0; HASH]);

fn write_hash(writer: &mut ByteWriter, hash: Option<ObjectHash>) {
    writer.hash(&hash.unwrap_or(NOTHING));
}

fn known(hash: ObjectHash) -> Option<ObjectHash> {
    (hash != NOTHING).then_some(hash)
}
