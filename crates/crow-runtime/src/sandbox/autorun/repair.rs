//! Putting back and moving aside until nothing differs any more that could start a program.

use std::path::PathBuf;

use crow_core::capability::PutAside;

use super::{
    entry_state::{EntryState, StateReader},
    inventory::{Inventory, InventoryScope, SealedPaths},
    judgement::{Blame, Repair, judge},
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
    blame: &Blame<'_>,
) -> Vec<PutAside> {
    let mut found: Vec<PutAside> = Vec::new();
    for _ in 0..ROUNDS {
        let now = Inventory::collect(scope, reader, sealed);
        let repairs = judge(baseline, &now, blame);
        if repairs.is_empty() {
            *baseline = now;
            break;
        }
        let mut last_moved: Option<PathBuf> = None;
        for repair in repairs {
            let done = match &repair {
                // It went with the directory that it was in.
                Repair::MoveAside(path)
                    if last_moved.as_ref().is_some_and(|moved| path.starts_with(moved)) =>
                {
                    continue;
                }
                Repair::MoveAside(path) => {
                    last_moved = Some(path.clone());
                    quarantine.move_aside(path)
                }
                Repair::PutBack(path) => {
                    let before = baseline.entries.get(path).map(|entry| &entry.state);
                    quarantine.put_back(path, before.unwrap_or(&EntryState::Absent))
                }
            };
            if !found.iter().any(|known| known.path == done.path) {
                found.push(done);
            }
        }
    }
    found
}
