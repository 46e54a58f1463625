//! The objects that sessions refer to.

use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
};

use super::{
    ContentRef, ObjectHash, SnapshotEntry, SnapshotStoreError,
    diff::{children, read_path_list, read_root_list},
    node::TreeEntry,
    objects::Objects,
    refs::{References, SnapshotRoot},
};

/// The objects that sessions refer to, directly and indirectly.
#[derive(Debug, Default)]
pub(super) struct ReachableObjects {
    /// All objects that must stay.
    pub(super) objects: HashSet<ObjectHash>,
    /// Folders and lists that are missing or damaged; objects that only they refer to are lost.
    pub(super) missing: Vec<ObjectHash>,
    /// The roots of workspaces with several roots.
    pub(super) roots: BTreeSet<PathBuf>,
    /// The snapshots visited so far. Kept apart from `found`: a file may have the same bytes as a folder's object.
    entered: HashSet<SnapshotRoot>,
}

impl ReachableObjects {
    /// Follows the references of all sessions.
    pub(super) fn from_sessions(
        references: &References,
        objects: &Objects,
    ) -> Result<Self, SnapshotStoreError> {
        let mut reached = Self::default();
        for session in references.sessions()? {
            let mut pending = references.of_session(&session)?;
            while let Some(root) = pending.pop() {
                if reached.entered.insert(root) {
                    reached.enter(root, objects, &mut pending)?;
                }
            }
        }
        Ok(reached)
    }

    fn enter(
        &mut self,
        root: SnapshotRoot,
        objects: &Objects,
        pending: &mut Vec<SnapshotRoot>,
    ) -> Result<(), SnapshotStoreError> {
        match root {
            SnapshotRoot::Tree(node) => {
                self.objects.insert(node);
                for (_, child) in self.unless_lost(children(objects, &node))?.unwrap_or_default() {
                    match child {
                        TreeEntry::Folder { node, .. } => pending.push(SnapshotRoot::Tree(node)),
                        TreeEntry::Leaf(entry) => self.content(&entry),
                    }
                }
            }
            SnapshotRoot::Roots(list) => {
                self.objects.insert(list);
                let roots = self.unless_lost(read_root_list(objects, &list))?.unwrap_or_default();
                pending.extend(roots.iter().map(|(_, node)| SnapshotRoot::Tree(*node)));
                self.roots.extend(roots.into_iter().map(|(root, _)| root));
            }
            SnapshotRoot::Paths(list) => {
                self.objects.insert(list);
                for (_, entry) in
                    self.unless_lost(read_path_list(objects, &list))?.unwrap_or_default()
                {
                    self.content(&entry);
                }
            }
        }
        Ok(())
    }

    fn content(&mut self, entry: &SnapshotEntry) {
        if let SnapshotEntry::File { content: ContentRef::Stored(hash), .. } = entry {
            self.objects.insert(*hash);
        }
    }

    /// Records a missing or damaged object. What it refers to is unknown; all other objects of the session are kept.
    fn unless_lost<T>(
        &mut self,
        read: Result<T, SnapshotStoreError>,
    ) -> Result<Option<T>, SnapshotStoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(SnapshotStoreError::Missing { hash } | SnapshotStoreError::Damaged { hash }) => {
                self.missing.push(hash);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
