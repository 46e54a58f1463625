//! Write leases: one call at a time may change files in a folder, across all agents of this process.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock as Turn};

/// Interval for polling a lease.
const PAUSE: Duration = Duration::from_millis(10);

/// The locks of folders in which calls change files. A lease of a folder covers everything in it: it locks the folder
/// exclusively and all its ancestors shared.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<BTreeMap<PathBuf, Weak<Turn<()>>>>);

/// The right to change files in some folders, until dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    _exclusive: Vec<OwnedRwLockWriteGuard<()>>,
    _shared: Vec<OwnedRwLockReadGuard<()>>,
}

/// The way a folder is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LeaseMode {
    Shared,
    Exclusive,
}

impl Leases {
    /// Leases folders if all of them are free.
    pub(crate) fn try_take(&self, roots: &[PathBuf]) -> Option<Lease> {
        let (mut exclusive, mut shared) = (Vec::new(), Vec::new());
        for (turn, mode) in self.locks(roots) {
            match mode {
                LeaseMode::Exclusive => exclusive.push(turn.try_write_owned().ok()?),
                LeaseMode::Shared => shared.push(turn.try_read_owned().ok()?),
            }
        }
        Some(Lease { _exclusive: exclusive, _shared: shared })
    }

    /// Leases folders, waiting for each.
    pub(crate) async fn take(&self, roots: &[PathBuf]) -> Lease {
        let (mut exclusive, mut shared) = (Vec::new(), Vec::new());
        for (turn, mode) in self.locks(roots) {
            match mode {
                LeaseMode::Exclusive => exclusive.push(turn.write_owned().await),
                LeaseMode::Shared => shared.push(turn.read_owned().await),
            }
        }
        Lease { _exclusive: exclusive, _shared: shared }
    }

    /// Leases folders, blocking for at most `patience`.
    pub(crate) fn take_within(&self, roots: &[PathBuf], patience: Duration) -> Option<Lease> {
        let until = Instant::now() + patience;
        loop {
            if let Some(lease) = self.try_take(roots) {
                return Some(lease);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Returns the locks of the folders in a global order, which prevents deadlocks.
    fn locks(&self, roots: &[PathBuf]) -> Vec<(Arc<Turn<()>>, LeaseMode)> {
        let mut modes: BTreeMap<&Path, LeaseMode> = BTreeMap::new();
        for root in roots {
            let mut above = root.ancestors().skip(1);
            // A folder inside another one of them is covered by that one's lease.
            if above.clone().any(|above| roots.iter().any(|other| other == above)) {
                continue;
            }
            modes.insert(root, LeaseMode::Exclusive);
            above.by_ref().for_each(|above| {
                modes.entry(above).or_insert(LeaseMode::Shared);
            });
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, turn| turn.strong_count() > 0);
        let turn_of = |(folder, mode): (&Path, LeaseMode)| {
            let turn = known.get(folder).and_then(Weak::upgrade);
            let turn = turn.unwrap_or_else(|| {
                let turn = Arc::new(Turn::new(()));
                known.insert(folder.to_path_buf(), Arc::downgrade(&turn));
                turn
            });
            (turn, mode)
        };
        modes.into_iter().map(turn_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_lease_until_it_is_dropped() {
        let leases = Leases::default();
        let (a, b) = (PathBuf::from("/a"), PathBuf::from("/b"));
        let both = leases.try_take(&[b.clone(), a.clone(), a.clone()]).unwrap();
        assert!(leases.try_take(std::slice::from_ref(&a)).is_none());
        assert!(leases.try_take(&[PathBuf::from("/c")]).is_some());
        drop(both);
        assert!(leases.try_take(&[a, b]).is_some());
    }

    #[test]
    fn a_lease_covers_subfolders_and_no_siblings() {
        let leases = Leases::default();
        let try_one = |path: &str| leases.try_take(&[PathBuf::from(path)]);
        let inner = try_one("/p/sub").unwrap();
        assert!(try_one("/p").is_none() && try_one("/p/sub/deep").is_none());
        let beside = try_one("/p/other").unwrap();
        drop(inner);
        assert!(try_one("/p").is_none());
        drop(beside);
        let outer = leases.try_take(&["/p/sub".into(), "/p".into()]).unwrap();
        assert!(try_one("/p/other").is_none() && try_one("/q").is_some());
        drop(outer);
        assert!(try_one("/p/other").is_some());
    }
}
