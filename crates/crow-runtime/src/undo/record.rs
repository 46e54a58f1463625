//! Undo records: writing them before and after files are touched, and completing those of killed undos.
//!
//! The first line (with an `intent`) says what each path is meant to become; the second line, with the same id, says
//! what was achieved. If the process is killed in between, only the first exists: the next undo compares it with the
//! files and writes the second.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use crow_core::{
    ids::{SnapshotId, UndoId},
    tool::FileChange,
};

use super::{
    ChangedCall, PathException, PathOutcome, RestoredPath, UndoAction, UndoError, UndoJournal,
    UndoRecord,
    execution::{RewindExtent, UndoRequest, change_between},
    notice::notice,
    reversal::{Reversal, StepAuthor},
};
use crate::{PathChange, SnapshotEntry};

impl UndoRecord {
    /// Keeps the last line of each record, and drops records that did nothing.
    pub(super) fn effective_records(lines: Vec<Self>) -> Vec<Self> {
        let mut records: Vec<Self> = Vec::with_capacity(lines.len());
        for line in lines {
            match records.iter_mut().find(|record| record.id == line.id) {
                Some(record) => *record = line,
                None => records.push(line),
            }
        }
        records.retain(|record| !record.did_nothing());
        records
    }

    /// Turns the record into one that did nothing, which cancels the announced one.
    pub(super) fn void(self) -> Self {
        Self {
            after: self.before.clone(),
            calls: Vec::new(),
            exceptions: Vec::new(),
            left: Vec::new(),
            intent: None,
            reverses: None,
            notice: None,
            stays: None,
            last_kept: None,
            ..self
        }
    }

    fn did_nothing(&self) -> bool {
        self.calls.is_empty()
            && self.exceptions.is_empty()
            && self.reverses.is_none()
            && self.intent.is_none()
            && self.last_kept.is_none()
            && self.before == self.after
    }
}

impl UndoJournal {
    /// Creates the record of a request from the extent to which each path was taken back. Paths missing in `reached`
    /// were meant to stay as they are.
    pub(super) fn record(
        &self,
        id: UndoId,
        request: &UndoRequest,
        reached: &BTreeMap<PathBuf, RewindExtent>,
        (before, after): (SnapshotId, SnapshotId),
    ) -> UndoRecord {
        let chosen: BTreeSet<StepAuthor> = request.authors.iter().copied().collect();
        let (mut exceptions, mut left) = (Vec::new(), Vec::new());
        for reversal in &request.reversals {
            let path = &reversal.change.path;
            let Some(reached) = reached.get(path) else { continue };
            match request.action {
                UndoAction::Undo => {
                    let all: BTreeSet<StepAuthor> = reversal.all.iter().copied().collect();
                    let undone: BTreeSet<StepAuthor> = match reached {
                        RewindExtent::Unchanged => BTreeSet::new(),
                        RewindExtent::Joined => reversal.joined.iter().copied().collect(),
                        RewindExtent::First => all.clone(),
                    };
                    // An exception is only needed where the result differs from undoing all chosen changes.
                    if undone != &all & &chosen {
                        exceptions.push(self.exception(path.clone(), &undone));
                    }
                }
                UndoAction::Redo if *reached == RewindExtent::Unchanged => left.push(path.clone()),
                UndoAction::Redo | UndoAction::Restore => {}
            }
        }
        let nothing_undone =
            |left: &Reversal| self.exception(left.change.path.clone(), &BTreeSet::new());
        exceptions.extend(request.not_chosen.iter().map(nothing_undone));
        let calls = request.calls.iter().filter_map(|at| self.ledger.calls().get(*at));
        let last_call = self.ledger.calls().last().map_or(0, |call| call.seq);
        UndoRecord {
            id,
            time: self.clock.now(),
            action: request.action,
            calls: calls.map(ChangedCall::key).collect(),
            exceptions,
            left,
            copies: Vec::new(),
            intent: None,
            continues: self.continued(request),
            reverses: request.reverses.clone(),
            before,
            after,
            notice: None,
            stays: None,
            last_kept: None,
            last_seen: Some(self.ledger.history().last_seq.max(last_call)),
        }
    }

    /// Returns the killed undo that this request completes: an undo of some of its calls.
    fn continued(&self, request: &UndoRequest) -> Option<UndoId> {
        let killed = self.finished.last().filter(|_| request.action == UndoAction::Undo)?;
        let places = self.ledger.history().call_indexes(&killed.calls);
        request.calls.iter().all(|call| places.contains(call)).then(|| killed.id.clone())
    }

    fn exception(&self, path: PathBuf, undone: &BTreeSet<StepAuthor>) -> PathException {
        let mut exception = PathException { path, calls: Vec::new(), restores: Vec::new() };
        for author in undone {
            match author {
                StepAuthor::Call(at) => {
                    exception.calls.extend(self.ledger.calls().get(*at).map(ChangedCall::key));
                }
                StepAuthor::Restore(at) => {
                    let record = self.ledger.records().get(*at);
                    exception.restores.extend(record.map(|record| record.id.clone()));
                }
            }
        }
        exception
    }

    /// Completes the records of killed undos: paths with their intended state count as done. Temporary files left by
    /// the killed undos are removed.
    pub(super) fn finish_killed(&mut self) -> Result<(), UndoError> {
        if self.unfinished.is_empty() {
            return Ok(());
        }
        self.ledger.store().undo(&[])?;
        for killed in std::mem::take(&mut self.unfinished) {
            let record = self.complete(killed)?;
            self.sessions.add_undo(&self.id, &record)?;
            self.finished.push(record);
        }
        self.reload()
    }

    /// Completes the record of a killed undo from the states of its paths.
    fn complete(&self, killed: UndoRecord) -> Result<UndoRecord, UndoError> {
        let Some(intent) = &killed.intent else { return Ok(killed) };
        // Paths changed by later calls are judged by their state before those calls.
        let later = self.ledger.first_states_since(&killed)?;
        // 1) Which paths have their intended state.
        let (mut changes, mut left, mut restored) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_any_reached = false;
        for path in self.ledger.store().paths_of(&killed.before)?.unwrap_or_default() {
            let before =
                self.ledger.store().entry(&killed.before, &path)?.unwrap_or(SnapshotEntry::Absent);
            // A folder that was only created on the way is absent from the intent.
            let wanted = self.ledger.store().entry(intent, &path)?;
            let like = wanted.as_ref().unwrap_or(&before);
            let found = match later.get(&path) {
                Some(found) => found.clone(),
                None => self.ledger.store().current_entry(&path, like)?,
            };
            let is_reached = match &wanted {
                Some(wanted) => found == *wanted,
                None => matches!(
                    (&before, &found),
                    (SnapshotEntry::Absent, SnapshotEntry::Folder { .. })
                ),
            };
            is_any_reached |= is_reached && wanted.is_some();
            if wanted.is_some() && !is_reached {
                left.push(path.clone());
            }
            let after = if is_reached { found } else { before.clone() };
            if before != after {
                let how: FileChange = change_between(&before, &after);
                let outcome = PathOutcome::Restored { how, copy: None };
                restored.push(RestoredPath { path: path.clone(), outcome });
            }
            changes.push(PathChange { path, before, after });
        }
        // 2) The completed record.
        // Killed before it changed anything: the record becomes void.
        if !is_any_reached && killed.last_kept.is_none() {
            return Ok(killed.void());
        }
        let (before, after) = self.ledger.store().record(&self.id, &changes)?;
        let mut exceptions = killed.exceptions;
        if killed.action == UndoAction::Undo {
            exceptions.retain(|exception| !left.contains(&exception.path));
            let nothing_undone = |path: &PathBuf| self.exception(path.clone(), &BTreeSet::new());
            exceptions.extend(left.iter().map(nothing_undone));
            left.clear();
        }
        left.extend(killed.left.iter().cloned());
        let calls: Vec<&ChangedCall> =
            self.ledger.calls().iter().filter(|call| killed.calls.contains(&call.key())).collect();
        Ok(UndoRecord {
            exceptions,
            left: if killed.action == UndoAction::Redo { left } else { Vec::new() },
            intent: None,
            before,
            after,
            notice: notice(killed.action, &calls, &restored, self.ledger.root()),
            calls: killed.calls,
            ..killed
        })
    }
}
