//! Who may change files in a folder: one call at a time, whichever agent of this process makes it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock as Turn};

/// How often it is looked whether somebody is through.
const PAUSE: Duration = Duration::from_millis(10);

/// The folders in which calls change files. Who has one has all that are in it: it is held alone, and those above it
/// together with others.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<BTreeMap<PathBuf, Weak<Turn<()>>>>);

/// The right to change files in some folders, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    _alone: Vec<OwnedRwLockWriteGuard<()>>,
    _together: Vec<OwnedRwLockReadGuard<()>>,
}

/// How a folder is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LeaseMode {
    Together,
    Alone,
}

impl Leases {
    /// Takes folders if nobody has them.
    pub(crate) fn try_take(&self, roots: &[PathBuf]) -> Option<Lease> {
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for (turn, hold) in self.turns(roots) {
            match hold {
                LeaseMode::Alone => alone.push(turn.try_write_owned().ok()?),
                LeaseMode::Together => together.push(turn.try_read_owned().ok()?),
            }
        }
        Some(Lease { _alone: alone, _together: together })
    }

    /// Takes folders, waiting for each.
    pub(crate) async fn take(&self, roots: &[PathBuf]) -> Lease {
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for (turn, hold) in self.turns(roots) {
            match hold {
                LeaseMode::Alone => alone.push(turn.write_owned().await),
                LeaseMode::Together => together.push(turn.read_owned().await),
            }
        }
        Lease { _alone: alone, _together: together }
    }

    /// Takes folders, blocking for at most so long.
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

    /// Returns the turns of folders in one order for all, so that nobody waits in a circle.
    fn turns(&self, roots: &[PathBuf]) -> Vec<(Arc<Turn<()>>, LeaseMode)> {
        let mut holds: BTreeMap<&Path, LeaseMode> = BTreeMap::new();
        for root in roots {
            let mut above = root.ancestors().skip(1);
            // What lies in another one of them is held with it.
            if above.clone().any(|above| roots.iter().any(|other| other == above)) {
                continue;
            }
            holds.insert(root, LeaseMode::Alone);
            above.by_ref().for_each(|above| {
                holds.entry(above).or_insert(LeaseMode::Together);
            });
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, turn| turn.strong_count() > 0);
        let turn_of = |(folder, hold): (&Path, LeaseMode)| {
            let turn = known.get(folder).and_then(Weak::upgrade);
            let turn = turn.unwrap_or_else(|| {
                let turn = Arc::new(Turn::new(()));
                known.insert(folder.to_path_buf(), Arc::downgrade(&turn));
                turn
            });
            (turn, hold)
        };
        holds.into_iter().map(turn_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one_until_it_is_let_go() {
        let leases = Leases::default();
        let (a, b) = (PathBuf::from("/a"), PathBuf::from("/b"));
        let both = leases.try_take(&[b.clone(), a.clone(), a.clone()]).unwrap();
        assert!(leases.try_take(std::slice::from_ref(&a)).is_none());
        assert!(leases.try_take(&[PathBuf::from("/c")]).is_some());
        drop(both);
        assert!(leases.try_take(&[a, b]).is_some());
    }

    #[test]
    fn a_folder_is_held_with_all_that_is_in_it_and_not_with_those_beside_it() {
        let leases = Leases::default();
        let of = |path: &str| leases.try_take(&[PathBuf::from(path)]);
        let inner = of("/p/sub").unwrap();
        assert!(of("/p").is_none() && of("/p/sub/deep").is_none());
        let beside = of("/p/other").unwrap();
        drop(inner);
        assert!(of("/p").is_none());
        drop(beside);
        let outer = leases.try_take(&["/p/sub".into(), "/p".into()]).unwrap();
        assert!(of("/p/other").is_none() && of("/q").is_some());
        drop(outer);
        assert!(of("/p/other").is_some());
    }
}
