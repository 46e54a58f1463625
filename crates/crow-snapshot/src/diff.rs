//! The difference between two snapshots. Folders with equal hashes are skipped.

use std::{
    cmp::Ordering,
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{
    ObjectHash, SnapshotEntry, SnapshotStoreError,
    node::{TreeEntry, read_folder, read_paths, read_roots},
    objects::Objects,
};

/// A changed path. A rename is a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path, absolute.
    pub path: PathBuf,
    /// Its state before.
    pub before: SnapshotEntry,
    /// Its state now.
    pub after: SnapshotEntry,
}

impl PathChange {
    /// Returns the reverse change, which undoes this one.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { path: self.path, before: self.after, after: self.before }
    }
}

/// Appends the differences between two tree objects to `changes`. Both are sorted by name and merged in one pass.
pub(super) fn folders(
    objects: &Objects,
    path: &Path,
    before: &ObjectHash,
    after: &ObjectHash,
    changes: &mut Vec<PathChange>,
) -> Result<(), SnapshotStoreError> {
    if before == after {
        return Ok(());
    }
    let mut old = children(objects, before)?.into_iter().peekable();
    let mut new = children(objects, after)?.into_iter().peekable();
    loop {
        // The smaller name comes next; equal names are taken from both sides.
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(()),
        };
        let was = if order.is_le() { old.next() } else { None };
        let is = if order.is_ge() { new.next() } else { None };
        let Some(name) = was.as_ref().or(is.as_ref()).map(|(name, _)| name) else { return Ok(()) };
        let path = path.join(name);
        let (was, is) = (was.map(|(_, child)| child), is.map(|(_, child)| child));
        child(objects, &path, was.as_ref(), is.as_ref(), changes)?;
    }
}

fn child(
    objects: &Objects,
    path: &Path,
    before_entry: Option<&TreeEntry>,
    after_entry: Option<&TreeEntry>,
    changes: &mut Vec<PathChange>,
) -> Result<(), SnapshotStoreError> {
    if before_entry == after_entry {
        return Ok(());
    }
    let entry = |child: Option<&TreeEntry>| child.map_or(SnapshotEntry::Absent, TreeEntry::entry);
    let (before, after) = (entry(before_entry), entry(after_entry));
    // Entries of a folder that was not scanned are neither removed nor added.
    let known = !matches!(&before, SnapshotEntry::Unscanned { .. })
        && !matches!(&after, SnapshotEntry::Unscanned { .. });
    if before != after {
        changes.push(PathChange { path: path.to_path_buf(), before, after });
    }
    // A folder is compared with the one on the other side, or with an empty one.
    if known {
        let empty = ObjectHash::of(&[]);
        let (before_entry, after_entry) = (node(before_entry), node(after_entry));
        if before_entry.is_some() || after_entry.is_some() {
            folders(
                objects,
                path,
                &before_entry.unwrap_or(empty),
                &after_entry.unwrap_or(empty),
                changes,
            )?;
        }
    }
    Ok(())
}

fn node(child: Option<&TreeEntry>) -> Option<ObjectHash> {
    match child {
        Some(TreeEntry::Folder { node, .. }) => Some(*node),
        Some(TreeEntry::Leaf(_)) | None => None,
    }
}

/// Reads a folder. The empty one needs no object.
pub(super) fn children(
    objects: &Objects,
    node: &ObjectHash,
) -> Result<Vec<(OsString, TreeEntry)>, SnapshotStoreError> {
    if *node == ObjectHash::of(&[]) {
        return Ok(Vec::new());
    }
    read_folder(&objects.read(node)?).ok_or(SnapshotStoreError::Damaged { hash: *node })
}

/// Reads a list of paths.
pub(super) fn read_path_list(
    objects: &Objects,
    list: &ObjectHash,
) -> Result<Vec<(PathBuf, SnapshotEntry)>, SnapshotStoreError> {
    read_paths(&objects.read(list)?).ok_or(SnapshotStoreError::Damaged { hash: *list })
}

/// Reads the roots of a workspace.
pub(super) fn read_root_list(
    objects: &Objects,
    list: &ObjectHash,
) -> Result<Vec<(PathBuf, ObjectHash)>, SnapshotStoreError> {
    read_roots(&objects.read(list)?).ok_or(SnapshotStoreError::Damaged { hash: *list })
}

/// Compares two lists of paths. Only paths in both can be compared.
pub(super) fn paths(
    objects: &Objects,
    before: &ObjectHash,
    after: &ObjectHash,
) -> Result<Vec<PathChange>, SnapshotStoreError> {
    let mut changes = Vec::new();
    let new = read_path_list(objects, after)?;
    for (path, before) in read_path_list(objects, before)? {
        // Lists are stored sorted by path.
        let Ok(at) = new.binary_search_by(|(other, _)| other.cmp(&path)) else { continue };
        if let Some((_, after)) = new.get(at).filter(|(_, after)| *after != before) {
            changes.push(PathChange { path, before, after: after.clone() });
        }
    }
    Ok(changes)
}
