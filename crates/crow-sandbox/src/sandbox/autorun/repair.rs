//! Putting back and moving aside until nothing differs any more that could start a program.

use std::path::{Path, PathBuf};

use crow_core::capability::{Original, PutAside};
use crow_fs::EntryKind;

use super::{
    entry_state::{EntryState, StateReader},
    inventory::{Inventory, InventoryScope, SealedPaths},
    inventory_diff::{Judge, Judgement, RepairAction},
    quarantine::Quarantine,
};

/// How often repairs are followed by another look: a repair may bring to light what it was hidden behind.
const ROUNDS: usize = 8;

/// Repairs what differs from `baseline`, and makes the result the new one. Returns what was done.
pub(super) fn repair(
    scope: &InventoryScope,
    reader: &mut StateReader,
    sealed: &dyn SealedPaths,
    baseline: &mut Inventory,
    quarantine: &Quarantine,
    judge: &Judge<'_>,
) -> Vec<PutAside> {
    let mut found: Vec<PutAside> = Vec::new();
    for _ in 0..ROUNDS {
        reopen_roots(baseline);
        let mut now = Inventory::collect(scope, reader, sealed);
        if open_ways(scope, baseline, &now) {
            now = Inventory::collect(scope, reader, sealed);
        }
        let Judgement { repairs, undecided } = judge.judge(baseline, &now);
        if repairs.is_empty() {
            // They are new at the next look as well.
            now.entries.retain(|path, _| !undecided.contains(path));
            *baseline = now;
            break;
        }
        let mut last_moved: Option<PathBuf> = None;
        for repair in repairs {
            let done = match &repair {
                // It went with the directory that it was in.
                RepairAction::MoveAside(path)
                    if last_moved.as_ref().is_some_and(|moved| path.starts_with(moved)) =>
                {
                    continue;
                }
                RepairAction::MoveAside(path) => {
                    last_moved = Some(path.clone());
                    let done = quarantine.move_aside(path);
                    if done.kept.is_none() && open_way(scope, path) {
                        quarantine.move_aside(path)
                    } else {
                        done
                    }
                }
                RepairAction::Disarm { path, rest } => quarantine.disarm(path, rest),
                RepairAction::PutBack(path) => {
                    let before = baseline.entries.get(path).map(|entry| &entry.state);
                    let before = before.unwrap_or(&EntryState::Absent);
                    let done = quarantine.put_back(path, before);
                    let has_failed = match done.original {
                        Original::Absent => done.kept.is_none(),
                        Original::PutBack | Original::Disarmed => false,
                        Original::Lost => true,
                    };
                    if has_failed && open_way(scope, path) {
                        quarantine.put_back(path, before)
                    } else {
                        done
                    }
                }
            };
            match found.iter_mut().find(|known| known.path == done.path) {
                // It could not be moved before: something else was in the way.
                Some(known) if known.kept.is_none() => *known = done,
                Some(_) => {}
                None => found.push(done),
            }
        }
    }
    found
}

/// Gives the roots the modes that they had, if a command closed them to their owner.
fn reopen_roots(baseline: &Inventory) {
    for (root, mode) in &baseline.roots {
        let is_closed = crow_fs::metadata(root).is_ok_and(|now| now.mode & 0o700 != mode & 0o700);
        if is_closed && let Err(error) = crow_fs::set_mode(root, *mode) {
            tracing::warn!(path = %root.display(), %error, "a closed directory cannot be opened");
        }
    }
}

/// Opens the directories on the way to what cannot be looked at any more. Returns whether there were any.
fn open_ways(scope: &InventoryScope, baseline: &Inventory, now: &Inventory) -> bool {
    let is_unreadable = |state: &EntryState| *state == EntryState::Unreadable;
    let was_readable = |path: &PathBuf| {
        baseline.entries.get(path).is_none_or(|before| !is_unreadable(&before.state))
    };
    let unreadable = now.entries.iter().filter(|(_, entry)| is_unreadable(&entry.state));
    unreadable
        .fold(false, |opened, (path, _)| was_readable(path) && open_way(scope, path) || opened)
}

/// Opens a path and the directories around it, as far as commands can change them, to their owner.
pub(super) fn open_way(scope: &InventoryScope, path: &Path) -> bool {
    let mut opened = false;
    let mut around: Vec<_> = path.ancestors().filter(|above| scope.is_writable(above)).collect();
    around.reverse();
    for above in around {
        let Ok(found) = crow_fs::metadata(above) else { continue };
        let is_closed = found.kind == EntryKind::Directory && found.mode & 0o700 != 0o700;
        opened |= is_closed && crow_fs::set_mode(above, found.mode | 0o700).is_ok();
    }
    opened
}
