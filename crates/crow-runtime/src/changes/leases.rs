//! Who may change files in a folder: one call at a time, whichever agent of this process makes it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// How often it is looked whether somebody is through.
const PAUSE: Duration = Duration::from_millis(10);

/// The folders in which calls change files. A folder and one inside it are two.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<BTreeMap<PathBuf, Weak<Turn<()>>>>);

/// The right to change files in some folders, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    _held: Vec<OwnedMutexGuard<()>>,
}

impl Leases {
    /// Takes folders if nobody has them.
    pub(crate) fn try_take(&self, roots: &[PathBuf]) -> Option<Lease> {
        let turns = self.turns(roots).into_iter();
        let held = turns.map(|turn| turn.try_lock_owned().ok()).collect::<Option<_>>()?;
        Some(Lease { _held: held })
    }

    /// Takes folders, waiting for each.
    pub(crate) async fn take(&self, roots: &[PathBuf]) -> Lease {
        let mut held = Vec::new();
        for turn in self.turns(roots) {
            held.push(turn.lock_owned().await);
        }
        Lease { _held: held }
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
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the turns of folders in one order for all, so that nobody waits in a circle.
    fn turns(&self, roots: &[PathBuf]) -> Vec<Arc<Turn<()>>> {
        let mut sorted = roots.to_vec();
        sorted.sort();
        sorted.dedup();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, turn| turn.strong_count() > 0);
        let turn_of = |root: PathBuf| {
            let turn = known.get(&root).and_then(Weak::upgrade);
            turn.unwrap_or_else(|| {
                let turn = Arc::new(Turn::new(()));
                known.insert(root, Arc::downgrade(&turn));
                turn
            })
        };
        sorted.into_iter().map(turn_of).collect()
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
}
