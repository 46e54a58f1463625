//! State of the file system entry at a path, kept for later comparison and restoration.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName, FileIdentity};

use super::{
    git_index::{GitIndex, IndexPart},
    inventory::{Inventory, InventoryScope, SealedPaths},
    nested_repositories::{Moment, NestedRepositories},
    pass_record::{PassObservations, PassRecord},
    pass_view::PassView,
};
use crow_fs::change_time::{self, nanoseconds, since_1970};

/// Maximum size in bytes of a file whose content is kept, and of all such contents together.
const FILE_BYTES: u64 = 1 << 20;
const ALL_BYTES: u64 = 16 << 20;
/// Maximum size in bytes of a git index that is read.
const INDEX_BYTES: u64 = 256 << 20;

/// State of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryState {
    Absent,
    File {
        mode: u32,
        content: FileContent,
    },
    Directory {
        mode: u32,
    },
    Symlink {
        target: PathBuf,
    },
    /// A pipe, a socket or a device.
    Special,
    /// The entry could not be examined.
    Unreadable,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileContent {
    Whole(Arc<[u8]>),
    /// The file is too long to be kept, or unreadable. `changed` is the inode's change time, which no
    /// program can set.
    NotKept {
        size: u64,
        changed: (i64, i64),
    },
}

/// State of a path, with the identity of the file.
#[derive(Debug, Clone)]
pub(super) struct EntryObservation {
    pub state: EntryState,
    /// Device and inode, which distinguish the file from a replacement.
    pub identity: Option<FileIdentity>,
}

impl From<EntryState> for EntryObservation {
    fn from(state: EntryState) -> Self {
        Self { state, identity: None }
    }
}

/// Reads the states of paths. Reads contents again only if the metadata says that they may have changed.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct StateReader {
    contents: HashMap<PathBuf, CachedContent>,
    bytes: u64,
    indexes: HashMap<(PathBuf, IndexPart), CachedIndex>,
    last_pass: Option<LastPass>,
    nested: NestedRepositories,
}

/// Result of the last pass, with its inputs.
#[derive(Debug)]
struct LastPass {
    scope: InventoryScope,
    record: PassRecord,
    inventory: Inventory,
    nested: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct CachedIndex {
    metadata: EntryMetadata,
    index: GitIndex,
}

#[derive(Debug)]
struct CachedContent {
    metadata: EntryMetadata,
    /// True if every later change is certain to get another time stamp.
    is_settled: bool,
    content: Arc<[u8]>,
}

impl EntryState {
    /// Returns the content of a file, if it was kept.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { content: FileContent::Whole(bytes), .. } => Some(bytes),
            Self::File { content: FileContent::NotKept { .. }, .. }
            | Self::Absent
            | Self::Directory { .. }
            | Self::Symlink { .. }
            | Self::Special
            | Self::Unreadable => None,
        }
    }
}

impl StateReader {
    /// Searches for repositories below the roots, before the next pass.
    pub(super) fn look_for_repositories(&mut self, scope: &InventoryScope, moment: Moment) {
        self.nested.search(scope, moment);
    }

    /// Returns the `.git` paths of the repositories found.
    pub(super) fn nested(&self) -> Vec<PathBuf> {
        self.nested.found().iter().cloned().collect()
    }

    /// Returns the inventory of the last pass if another pass would give the same.
    pub(super) fn unchanged_inventory(
        &mut self,
        scope: &InventoryScope,
        sealed: &dyn SealedPaths,
    ) -> Option<Inventory> {
        let mut last = self.last_pass.take()?;
        let is_still_sealed = |(path, identity): (&PathBuf, Option<FileIdentity>)| {
            identity.is_some_and(|identity| sealed.is_sealed(path, identity))
        };
        let is_unchanged = last.scope == *scope
            && last.nested == *self.nested.found()
            && last.inventory.shallow_entries().all(is_still_sealed)
            && last.record.is_unchanged();
        // A record that has become invalid is dropped; the next pass makes a new one.
        let last = self.last_pass.insert(is_unchanged.then_some(last)?);
        Some(last.inventory.clone())
    }

    /// Stores the result of a pass, if its observations can be recorded.
    pub(super) fn keep_pass(
        &mut self,
        scope: &InventoryScope,
        observations: PassObservations,
        inventory: &Inventory,
    ) {
        self.last_pass = observations.into_record(scope).map(|record| LastPass {
            scope: scope.clone(),
            record,
            inventory: inventory.clone(),
            nested: self.nested.found().clone(),
        });
    }

    /// Reads the state of an entry of a directory.
    pub(super) fn observe(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
    ) -> EntryObservation {
        let found = match directory.metadata(name) {
            Ok(found) => found,
            Err(error) if is_absence(&error) => return EntryState::Absent.into(),
            Err(_) => return EntryState::Unreadable.into(),
        };
        let state = match found.kind {
            EntryKind::Directory => EntryState::Directory { mode: found.mode },
            EntryKind::Symlink => match directory.read_link(name) {
                Ok(target) => EntryState::Symlink { target },
                Err(_) => EntryState::Unreadable,
            },
            EntryKind::Special => EntryState::Special,
            EntryKind::File => EntryState::File {
                mode: found.mode,
                content: self.content(directory, name, path, &found),
            },
        };
        EntryObservation { state, identity: Some(found.identity) }
    }

    /// Returns the paths of other repositories (gitlinks) in a repository's index, relative to the
    /// worktree; `None` if the index is too long to be read.
    pub(super) fn gitlinks(&mut self, view: &PassView, git_dir: &Path) -> Option<Vec<PathBuf>> {
        let index = self.index(view, &git_dir.join("index"), IndexPart::Whole)?;
        match index.shared.clone() {
            Some(shared) => {
                let shared = self.index(view, &git_dir.join(shared), IndexPart::Shared)?;
                Some(index.with_shared(shared))
            }
            None => Some(index.gitlinks),
        }
    }

    fn index(&mut self, view: &PassView, path: &Path, part: IndexPart) -> Option<GitIndex> {
        // Git follows a link in place of the index.
        let Some(path) = view.resolve(path) else { return Some(GitIndex::default()) };
        let Ok(metadata) = view.metadata(&path) else { return Some(GitIndex::default()) };
        if metadata.size > INDEX_BYTES {
            return None;
        }
        let key = (path, part);
        if let Some(cached) = self.indexes.get(&key)
            && cached.metadata == metadata
        {
            return Some(cached.index.clone());
        }
        // Git cannot read an unreadable index either, and takes a missing one for an empty one.
        let bytes = crow_fs::read_bounded(&key.0, INDEX_BYTES).unwrap_or_default();
        let index = GitIndex::parse(&bytes, part);
        if is_settled(metadata.changed) {
            self.indexes.insert(key, CachedIndex { metadata, index: index.clone() });
        }
        Some(index)
    }

    fn content(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
        found: &EntryMetadata,
    ) -> FileContent {
        if let Some(cached) = self.contents.get(path)
            && cached.is_settled
            && cached.metadata == *found
        {
            return FileContent::Whole(Arc::clone(&cached.content));
        }
        let not_kept = FileContent::NotKept { size: found.size, changed: found.changed };
        if let Some(cached) = self.contents.remove(path) {
            self.bytes = self.bytes.saturating_sub(cached.content.len() as u64);
        }
        let room = FILE_BYTES.min(ALL_BYTES.saturating_sub(self.bytes));
        let Ok(bytes) = directory.open_file(name).and_then(|file| crow_fs::read_file(file, room))
        else {
            return not_kept;
        };
        self.bytes += bytes.len() as u64;
        let content: Arc<[u8]> = bytes.into();
        let cached = CachedContent {
            metadata: *found,
            is_settled: is_settled(found.changed),
            content: Arc::clone(&content),
        };
        self.contents.insert(path.to_owned(), cached);
        FileContent::Whole(content)
    }
}

/// Returns true if every later change is certain to get a later time stamp than this one.
fn is_settled(changed: (i64, i64)) -> bool {
    change_time::is_settled(nanoseconds(changed), since_1970(SystemTime::now()))
}

/// Returns true if the error means that nothing exists at the path. That includes paths below a file or
/// behind a link that is not followed.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || crow_fs::is_link_error(error)
}
