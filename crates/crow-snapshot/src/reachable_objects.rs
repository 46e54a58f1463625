//! Which objects sessions refer to.

use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
};

use super::{
    ContentRef, ObjectHash, SnapshotEntry, SnapshotStoreError,
    diff::{children, listed, listed_roots},
    node::TreeEntry,
    objects::Objects,
    refs::{References, SnapshotRoot},
};

/// The objects that sessions refer to.
#[derive(Debug, Default)]
pub(super) struct ReachableObjects {
    /// All that must stay.
    pub(super) found: HashSet<ObjectHash>,
    /// Folders and lists that are lost, and with them what they led to.
    pub(super) missing: Vec<ObjectHash>,
    /// The roots of workspaces that have several.
    pub(super) roots: BTreeSet<PathBuf>,
    /// Those that were looked into. A file may have the bytes of a folder's object.
    entered: HashSet<SnapshotRoot>,
}

impl ReachableObjects {
    /// Goes from the references of all sessions to all that they lead to.
    pub(super) fn from_sessions(
        references: &References,
        objects: &Objects,
    ) -> Result<Self, SnapshotStoreError> {
        let mut reached = Self::default();
        for session in references.sessions()? {
            let mut waiting = references.of(&session)?;
            while let Some(root) = waiting.pop() {
                if reached.entered.insert(root) {
                    reached.enter(root, objects, &mut waiting)?;
                }
            }
        }
        Ok(reached)
    }

    fn enter(
        &mut self,
        root: SnapshotRoot,
        objects: &Objects,
        waiting: &mut Vec<SnapshotRoot>,
    ) -> Result<(), SnapshotStoreError> {
        match root {
            SnapshotRoot::Tree(node) => {
                self.found.insert(node);
                for (_, child) in self.unless_lost(children(objects, &node))?.unwrap_or_default() {
                    match child {
                        TreeEntry::Folder { node, .. } => waiting.push(SnapshotRoot::Tree(node)),
                        TreeEntry::Leaf(entry) => self.content(&entry),
                    }
                }
            }
            SnapshotRoot::Roots(list) => {
                self.found.insert(list);
                let roots = self.unless_lost(listed_roots(objects, &list))?.unwrap_or_default();
                waiting.extend(roots.iter().map(|(_, node)| SnapshotRoot::Tree(*node)));
                self.roots.extend(roots.into_iter().map(|(root, _)| root));
            }
            SnapshotRoot::Paths(list) => {
                self.found.insert(list);
                for (_, entry) in self.unless_lost(listed(objects, &list))?.unwrap_or_default() {
                    self.content(&entry);
                }
            }
        }
        Ok(())
    }

    fn content(&mut self, entry: &SnapshotEntry) {
        if let SnapshotEntry::File { content: ContentRef::Stored(hash), .. } = entry {
            self.found.insert(*hash);
        }
    }

    /// References of a missing object are unknown; all other objects of the session are kept.
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
