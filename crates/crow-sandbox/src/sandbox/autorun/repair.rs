//! Repairs differences from the baseline until none can start a program any more.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use crow_core::capability::{OriginalState, QuarantinedFile};
use crow_fs::EntryKind;

use super::{
    entry_state::{EntryState, StateReader},
    inventory::{Inventory, InventoryScope, SealedPaths},
    inventory_diff::{Judge, Judgement, RepairAction},
    quarantine::Quarantine,
};

/// Maximum number of rounds: a repair may reveal something that was hidden behind it.
const ROUNDS: usize = 8;

/// Repairs the differences from `baseline`, and stores the result there. Returns what was done.
pub(super) fn repair(
    scope: &InventoryScope,
    reader: &mut StateReader,
    sealed: &dyn SealedPaths,
    baseline: &mut Inventory,
    quarantine: &Quarantine,
    judge: &Judge<'_>,
) -> Vec<QuarantinedFile> {
    let mut results: Vec<QuarantinedFile> = Vec::new();
    // A command may leave tens of thousands of files.
    let mut positions: HashMap<PathBuf, usize> = HashMap::new();
    for _ in 0..ROUNDS {
        reopen_roots(baseline);
        let mut now = Inventory::collect(scope, reader, sealed);
        if open_ways(scope, baseline, &now) {
            now = Inventory::collect(scope, reader, sealed);
        }
        let Judgement { repairs, undecided } = judge.judge(baseline, &now);
        if repairs.is_empty() {
            // Undecided paths are kept out of the baseline, so they are new at the next check as well.
            now.entries.retain(|path, _| !undecided.contains(path));
            *baseline = now;
            break;
        }
        let mut last_moved: Option<PathBuf> = None;
        for repair in repairs {
            let outcome = match &repair {
                // It was already moved together with its directory.
                RepairAction::MoveAside(path)
                    if last_moved.as_ref().is_some_and(|moved| path.starts_with(moved)) =>
                {
                    continue;
                }
                RepairAction::MoveAside(path) => {
                    last_moved = Some(path.clone());
                    let outcome = quarantine.move_aside(path);
                    if outcome.moved_to.is_none() && open_way(scope, path) {
                        quarantine.move_aside(path)
                    } else {
                        outcome
                    }
                }
                RepairAction::Disarm { path, rest } => quarantine.disarm(path, rest),
                RepairAction::PutBack(path) => {
                    let before = baseline.entries.get(path).map(|entry| &entry.state);
                    let before = before.unwrap_or(&EntryState::Absent);
                    let outcome = quarantine.put_back(path, before);
                    let has_failed = match outcome.original {
                        OriginalState::Absent => outcome.moved_to.is_none(),
                        OriginalState::Restored | OriginalState::Disarmed => false,
                        OriginalState::Lost => true,
                    };
                    if has_failed && open_way(scope, path) {
                        quarantine.put_back(path, before)
                    } else {
                        outcome
                    }
                }
            };
            match positions.get(&outcome.path).map(|position| &mut results[*position]) {
                // An earlier attempt failed because of something else in the way.
                Some(earlier) if earlier.moved_to.is_none() => *earlier = outcome,
                Some(_) => {}
                None => {
                    positions.insert(outcome.path.clone(), results.len());
                    results.push(outcome);
                }
            }
        }
    }
    results
}

/// Restores the modes of the roots, if a command made them inaccessible to their owner.
fn reopen_roots(baseline: &Inventory) {
    for (root, mode) in &baseline.roots {
        let is_closed = crow_fs::metadata(root).is_ok_and(|now| now.mode & 0o700 != mode & 0o700);
        if is_closed && let Err(error) = crow_fs::set_mode(root, *mode) {
            tracing::warn!(path = %root.display(), %error, "a closed directory cannot be opened");
        }
    }
}

/// Makes the directories above unreadable entries accessible. Returns true if any mode was changed.
fn open_ways(scope: &InventoryScope, baseline: &Inventory, now: &Inventory) -> bool {
    let is_unreadable = |state: &EntryState| *state == EntryState::Unreadable;
    let was_readable = |path: &PathBuf| {
        baseline.entries.get(path).is_none_or(|before| !is_unreadable(&before.state))
    };
    let unreadable = now.entries.iter().filter(|(_, entry)| is_unreadable(&entry.state));
    unreadable
        .fold(false, |opened, (path, _)| was_readable(path) && open_way(scope, path) || opened)
}

/// Gives the owner access to a path and the directories above it, as far as commands can change them.
pub(super) fn open_way(scope: &InventoryScope, path: &Path) -> bool {
    let mut opened = false;
    let mut directories: Vec<_> =
        path.ancestors().filter(|above| scope.is_writable(above)).collect();
    directories.reverse();
    for above in directories {
        let Ok(found) = crow_fs::metadata(above) else { continue };
        let is_closed = found.kind == EntryKind::Directory && found.mode & 0o700 != 0o700;
        opened |= is_closed && crow_fs::set_mode(above, found.mode | 0o700).is_ok();
    }
    opened
}
