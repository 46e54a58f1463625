//! Roots of a killed session that were moved before the next start: finds them by what stays the same when a directory is
//! renamed, and adapts the stored paths to their new place.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

use super::inventory::{Inventory, InventoryScope};

/// What stays the same when a directory is moved on its file system, and distinguishes it from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RootIdentity {
    inode: u64,
    /// Numbers of removed directories are used again.
    made: RootOrigin,
}

/// What tells a directory from another one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RootOrigin {
    /// Time of its creation in nanoseconds since 1970.
    Created(u64),
    /// Its device, if the file system stores no time of creation. After a restart of the machine it may be another one.
    Device(u64),
}

/// Place of a root at the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RootPlace {
    /// Where it was. Also if its identity is not known.
    Unchanged,
    MovedTo(PathBuf),
    /// Neither where it was, where another directory may be now, nor around the new session.
    Unknown,
}

/// Roots of a killed session with their present places.
#[derive(Debug, Default)]
pub(super) struct RootPlaces(Vec<(PathBuf, RootPlace)>);

impl RootIdentity {
    /// Returns the identity of a directory; `None` if there is none at this path.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let opened = crow_fs::open_without_reading(path).ok()?;
        let found = opened.metadata().ok().filter(Metadata::is_dir)?;
        let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created = created.and_then(|since| u64::try_from(since.as_nanos()).ok());
        let made = created.map_or(RootOrigin::Device(found.dev()), RootOrigin::Created);
        Some(Self { inode: found.ino(), made })
    }
}

impl RootPlaces {
    /// Looks for roots where they were, and among `near` (the roots of the session that starts) and the directories
    /// around these.
    pub(super) fn find<'a>(
        roots: impl IntoIterator<Item = (&'a Path, Option<RootIdentity>)>,
        near: &[PathBuf],
    ) -> Self {
        let place = |root: &Path, identity: Option<RootIdentity>| {
            let Some(identity) = identity else { return RootPlace::Unchanged };
            let is_it = |path: &&Path| RootIdentity::of(path) == Some(identity);
            if is_it(&root) {
                return RootPlace::Unchanged;
            }
            let found = near.iter().flat_map(|root| root.ancestors()).find(is_it);
            found.map_or(RootPlace::Unknown, |path| RootPlace::MovedTo(path.to_owned()))
        };
        let find = |(root, identity): (&Path, _)| (root.to_owned(), place(root, identity));
        Self(roots.into_iter().map(find).collect())
    }

    pub(super) fn is_found(&self) -> bool {
        self.0.iter().any(|(_, place)| *place != RootPlace::Unknown)
    }

    /// Returns the roots that were not found.
    pub(super) fn unknown(&self) -> Vec<PathBuf> {
        let unknown = self.0.iter().filter(|(_, place)| *place == RootPlace::Unknown);
        unknown.map(|(root, _)| root.clone()).collect()
    }

    /// Returns a stored path in its present place.
    pub(super) fn present(&self, path: &Path) -> PathBuf {
        match self.around(path) {
            Some((root, RootPlace::MovedTo(to))) => {
                // Joining nothing would add a slash.
                let below = path.strip_prefix(root).unwrap_or(path);
                if below.as_os_str().is_empty() { to.clone() } else { to.join(below) }
            }
            Some((_, RootPlace::Unchanged | RootPlace::Unknown)) | None => path.to_owned(),
        }
    }

    /// Returns true if a stored path lies in a root that was not found.
    pub(super) fn is_unknown(&self, path: &Path) -> bool {
        matches!(self.around(path), Some((_, RootPlace::Unknown)))
    }

    /// Returns the innermost root around a stored path.
    fn around(&self, path: &Path) -> Option<&(PathBuf, RootPlace)> {
        let around = self.0.iter().filter(|(root, _)| path.starts_with(root));
        around.max_by_key(|(root, _)| root.as_os_str().len())
    }

    /// Returns a scope and an inventory in their present places, with the paths that `is_kept` selects by their stored
    /// place.
    pub(super) fn apply(
        &self,
        scope: &InventoryScope,
        inventory: &Inventory,
        is_kept: impl Fn(&Path) -> bool,
    ) -> (InventoryScope, Inventory) {
        let present = |paths: &[PathBuf]| {
            let kept = paths.iter().filter(|path| is_kept(path));
            kept.map(|path| self.present(path)).collect::<Vec<_>>()
        };
        let scope = InventoryScope {
            roots: present(&scope.roots),
            writable: present(&scope.writable),
            protected: present(&scope.protected),
            links: present(&scope.links),
            ..scope.clone()
        };
        let entries = inventory.entries.iter().filter(|(path, _)| is_kept(path));
        let entries = entries.map(|(path, entry)| {
            let mut entry = entry.clone();
            entry.entrance = entry.entrance.map(|path| self.present(&path));
            (self.present(path), entry)
        });
        (scope, Inventory { entries: entries.collect(), ..Inventory::default() })
    }
}
