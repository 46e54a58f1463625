//! What the last scan saw, so that the next one reads only what changed. A cache: losing it costs time, nothing else.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use super::{
    Content, ContentHash, Entry, FileStamp, WhyNotCovered,
    codec::{Reader, Writer},
    node::{Child, read_stamp, write_stamp},
    objects::{Objects, private_folder, replace},
    proof::Proof,
};

const FILE: &str = "index";
/// Those of further roots.
const FURTHER: &str = "indexes";
const MAGIC: &[u8] = b"crow snapshot index 1\n";
/// The hash at the end of the file.
const HASH: usize = 32;

/// What the last scan saw.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// How many collections the store had seen.
    pub(super) generation: u64,
    /// The rules for ignored files that stand above the root.
    pub(super) outer_rules: Option<ContentHash>,
    pub(super) root: Folder,
}

/// A folder that was looked into.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// Nothing if the list of names must be read again.
    pub(super) seen: Option<Seen>,
    /// Sorted by name.
    pub(super) items: Vec<Item>,
    /// Its object, if it is in the store.
    pub(super) node: Option<ContentHash>,
    /// The hash of what is in it and not ignored.
    pub(super) unignored: Option<ContentHash>,
    /// The rules for ignored files by which its items were judged.
    pub(super) rules: Option<Content>,
}

/// What lies under a name.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: OsString,
    pub(super) ignored: bool,
    pub(super) what: What,
    pub(super) proof: Proof,
}

/// What it is.
#[derive(Debug)]
pub(super) enum What {
    /// Not looked at yet.
    New,
    /// A file and its content.
    File { seen: Seen, content: Content },
    /// A link and where it points.
    Link { target: OsString },
    /// A folder.
    Folder { mode: u32, folder: Box<Folder> },
    /// A folder that is not looked into.
    LeftOut { seen: Seen, why: WhyNotCovered },
}

/// A stamp, and whether it proves anything: something may change twice within one tick of the file system's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) stamp: FileStamp,
    pub(super) settled: bool,
}

impl Seen {
    /// Returns whether nothing changed since.
    pub(super) fn still(&self, now: &FileStamp) -> bool {
        self.settled && self.stamp == *now
    }
}

impl Item {
    /// Returns what the snapshot says of it, once it was looked at.
    pub(super) fn child(&self) -> Option<Child> {
        Some(match &self.what {
            What::New => return None,
            What::File { seen, content } => Child::Leaf(Entry::File {
                mode: seen.stamp.mode,
                size: seen.stamp.size,
                content: *content,
            }),
            What::Link { target } => Child::Leaf(Entry::Link { target: target.clone() }),
            What::Folder { mode, folder } => Child::Folder { mode: *mode, node: folder.node? },
            What::LeftOut { why, .. } => Child::Leaf(Entry::LeftOut { why: *why }),
        })
    }
}

impl Item {
    /// Takes it for a link. Returns whether it was something else before, or led elsewhere.
    pub(super) fn set_link(&mut self, target: OsString) -> bool {
        let is_new = !matches!(&self.what, What::Link { target: before } if *before == target);
        self.what = What::Link { target };
        is_new
    }

    /// Returns the object of a folder.
    pub(super) fn node(&self) -> Option<ContentHash> {
        self.folder().and_then(|folder| folder.node)
    }

    /// Returns the hash of what is in a folder and not ignored.
    pub(super) fn unignored(&self) -> Option<ContentHash> {
        self.folder().and_then(|folder| folder.unignored)
    }

    /// Returns whether there is nothing to be said of it but that it is as it was. That is said once.
    pub(super) fn is_proven_leaf(&mut self) -> bool {
        let is_leaf = match &self.what {
            What::File { content: Content::Stored(_), .. } | What::Link { .. } => true,
            What::New | What::File { .. } | What::Folder { .. } | What::LeftOut { .. } => false,
        };
        is_leaf && self.proof.take()
    }

    fn folder(&self) -> Option<&Folder> {
        match &self.what {
            What::Folder { folder, .. } => Some(folder),
            What::New | What::File { .. } | What::Link { .. } | What::LeftOut { .. } => None,
        }
    }
}

impl Folder {
    /// Makes the items those of a sorted list of names; what is known of a name stays known.
    pub(super) fn merge(&mut self, names: Vec<OsString>) -> bool {
        let mut known = std::mem::take(&mut self.items).into_iter().peekable();
        let mut changed = false;
        for name in names {
            while known.next_if(|item| item.name < name).is_some() {
                changed = true;
            }
            self.items.push(known.next_if(|item| item.name == name).unwrap_or_else(|| {
                changed = true;
                Item { name, ignored: false, what: What::New, proof: Proof::default() }
            }));
        }
        changed || known.next().is_some()
    }

    /// After a collection: what is no longer in the store must be stored anew.
    fn forget_missing(&mut self, objects: &Objects) {
        for item in &mut self.items {
            match &mut item.what {
                What::File { seen, content: Content::Stored(hash) } => {
                    seen.settled &= objects.has(hash);
                }
                What::Folder { folder, .. } => {
                    folder.forget_missing(objects);
                    if folder.node.is_none() {
                        self.node = None;
                    }
                }
                // There may be room again.
                What::File { seen, content: Content::NotStored { why, .. } } => {
                    seen.settled &= !why.is_for_lack_of_space();
                }
                What::New | What::Link { .. } | What::LeftOut { .. } => {}
            }
        }
        self.node = self.node.filter(|node| objects.has(node));
    }
}

impl Index {
    /// Takes note of the collections since.
    pub(super) fn catch_up(&mut self, generation: u64, objects: &Objects) {
        if self.generation != generation {
            self.generation = generation;
            self.root.forget_missing(objects);
        }
    }

    /// Returns the file of the project's index.
    pub(super) fn file(store: &Path) -> PathBuf {
        store.join(FILE)
    }

    /// Returns the file of the index of a further root.
    pub(super) fn file_of(store: &Path, root: &Path) -> PathBuf {
        store.join(FURTHER).join(ContentHash::of(root.as_os_str().as_bytes()).to_string())
    }

    /// Removes the indexes of further roots but these.
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

    /// Reads an index. What is cut, damaged or of another version is no index.
    pub(super) fn load(file: &Path) -> Option<Self> {
        let bytes = fs::read(file).ok()?;
        let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
        if ContentHash::of(body).0 != hash {
            return None;
        }
        let mut reader = Reader::new(body.strip_prefix(MAGIC)?);
        let generation = reader.number()?;
        let outer_rules = known(reader.hash()?);
        Some(Self { generation, outer_rules, root: read_folder(&mut reader)? })
    }

    pub(super) fn save(&self, store: &Path, file: &Path) -> io::Result<()> {
        let mut writer = Writer::default();
        writer.number(self.generation);
        write_hash(&mut writer, self.outer_rules);
        write_folder(&mut writer, &self.root);
        let mut bytes = [MAGIC, &writer.into_bytes()].concat();
        let hash = ContentHash::of(&bytes);
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

fn write_folder(writer: &mut Writer, folder: &Folder) {
    match &folder.seen {
        Some(seen) => {
            writer.byte(1);
            write_seen(writer, seen);
        }
        None => writer.byte(0),
    }
    write_hash(writer, folder.node);
    write_hash(writer, folder.unignored);
    write_hash(writer, folder.rules.and_then(stored));
    writer.number(folder.items.len() as u64);
    for item in &folder.items {
        writer.bytes(item.name.as_bytes());
        writer.byte(item.ignored.into());
        match &item.what {
            What::File { seen, content: Content::Stored(hash) } => {
                writer.byte(STORED);
                write_seen(writer, seen);
                writer.hash(hash);
            }
            What::File { seen, content: Content::NotStored { why, .. } }
                if !why.is_for_lack_of_space() =>
            {
                writer.byte(NOT_STORED);
                write_seen(writer, seen);
                writer.byte(why.code());
            }
            // The next process may find room.
            What::New | What::File { .. } => writer.byte(NEW),
            What::Link { target } => {
                writer.byte(LINK);
                writer.bytes(target.as_bytes());
            }
            What::Folder { mode, folder } => {
                writer.byte(FOLDER);
                writer.number((*mode).into());
                write_folder(writer, folder);
            }
            What::LeftOut { seen, why } => {
                writer.byte(LEFT_OUT);
                write_seen(writer, seen);
                writer.byte(why.code());
            }
        }
    }
}

fn read_folder(reader: &mut Reader<'_>) -> Option<Folder> {
    let seen = match reader.byte()? {
        0 => None,
        _ => Some(read_seen(reader)?),
    };
    let node = known(reader.hash()?);
    let unignored = known(reader.hash()?);
    let rules = known(reader.hash()?).map(Content::Stored);
    let mut items = Vec::new();
    for _ in 0..reader.length()? {
        let name = OsString::from_vec(reader.bytes()?.to_vec());
        let ignored = reader.byte()? != 0;
        let what = match reader.byte()? {
            NEW => What::New,
            STORED => {
                let seen = read_seen(reader)?;
                What::File { seen, content: Content::Stored(reader.hash()?) }
            }
            NOT_STORED => {
                let seen = read_seen(reader)?;
                let why = WhyNotCovered::from_code(reader.byte()?)?;
                What::File { seen, content: Content::NotStored { why, stamp: seen.stamp } }
            }
            LINK => What::Link { target: OsString::from_vec(reader.bytes()?.to_vec()) },
            FOLDER => {
                let mode = reader.small()?;
                What::Folder { mode, folder: Box::new(read_folder(reader)?) }
            }
            LEFT_OUT => {
                let seen = read_seen(reader)?;
                What::LeftOut { seen, why: WhyNotCovered::from_code(reader.byte()?)? }
            }
            _ => return None,
        };
        items.push(Item { name, ignored, what, proof: Proof::default() });
    }
    Some(Folder { seen, items, node, unignored, rules })
}

/// Rules that are not in the store are read again.
fn stored(content: Content) -> Option<ContentHash> {
    match content {
        Content::Stored(hash) => Some(hash),
        Content::NotStored { .. } => None,
    }
}

fn write_seen(writer: &mut Writer, seen: &Seen) {
    writer.byte(seen.settled.into());
    write_stamp(writer, &seen.stamp);
}

fn read_seen(reader: &mut Reader<'_>) -> Option<Seen> {
    let settled = reader.byte()? != 0;
    Some(Seen { settled, stamp: read_stamp(reader)? })
}

/// No content has this hash.
const NOTHING: ContentHash = ContentHash([0; HASH]);

fn write_hash(writer: &mut Writer, hash: Option<ContentHash>) {
    writer.hash(&hash.unwrap_or(NOTHING));
}

fn known(hash: ContentHash) -> Option<ContentHash> {
    (hash != NOTHING).then_some(hash)
}
