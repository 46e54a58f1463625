//! The ledger of changes: what calls and restores did to each path, and what of it is undone.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::ids::SessionId;

use crate::{
    SnapshotEntry, SnapshotStore,
    undo::{
        ChangedCall, UndoAction, UndoError, UndoRecord,
        change_history::ChangeHistory,
        reversal::{PathStep, StepAuthor},
        undone_steps::UndoneSteps,
    },
};

/// The changes of a session's calls and restores per path, and which of them are undone. Calls and records are referred
/// to by their index, which is valid until the next [`reload`](Self::reload).
#[derive(Debug)]
pub(in crate::undo) struct ChangeLedger {
    pub(super) store: Arc<SnapshotStore>,
    /// The root session.
    pub(super) session: SessionId,
    /// The project folder.
    pub(super) root: PathBuf,
    pub(super) history: ChangeHistory,
    /// The records of completed undos, redos and restores, oldest first.
    pub(super) records: Vec<UndoRecord>,
    pub(super) undone: UndoneSteps,
}

impl ChangeLedger {
    /// Creates an empty ledger.
    pub(in crate::undo) fn new(
        store: Arc<SnapshotStore>,
        session: SessionId,
        root: PathBuf,
    ) -> Self {
        let (history, undone) = (ChangeHistory::default(), UndoneSteps::default());
        Self { store, session, root, history, records: Vec::new(), undone }
    }

    /// Replaces the changes and the records, and finds out which changes are undone.
    pub(in crate::undo) fn reload(&mut self, history: ChangeHistory, records: Vec<UndoRecord>) {
        self.undone = UndoneSteps::new(&records);
        self.records = records;
        self.history = history;
        self.add_killed_job();
        self.mark_undone();
    }

    pub(in crate::undo) fn store(&self) -> &Arc<SnapshotStore> {
        &self.store
    }

    pub(in crate::undo) fn root(&self) -> &Path {
        &self.root
    }

    pub(in crate::undo) fn history(&self) -> &ChangeHistory {
        &self.history
    }

    pub(in crate::undo) fn calls(&self) -> &[ChangedCall] {
        &self.history.calls
    }

    pub(in crate::undo) fn records(&self) -> &[UndoRecord] {
        &self.records
    }

    pub(in crate::undo) fn undone(&self) -> &UndoneSteps {
        &self.undone
    }

    /// Returns the index of the last restore that is not fully undone, unless a call changed something since.
    pub(in crate::undo) fn last_restore(&self) -> Result<Option<usize>, UndoError> {
        let last_call = (0..self.history.calls.len())
            .rev()
            .find(|at| self.history.calls.get(*at).is_some_and(|call| !call.undone));
        for (at, record) in self.records.iter().enumerate().rev() {
            if record.action != UndoAction::Restore {
                continue;
            }
            if last_call.is_some_and(|call| call >= self.calls_before_record_at(at)) {
                break;
            }
            if !self.steps_of_restore(at)?.is_empty() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Returns the calls of the last redo, if nothing was changed or undone since.
    pub(in crate::undo) fn last_redo(&self) -> Option<Vec<usize>> {
        let redo = self.last_record_since_calls(UndoAction::Redo)?;
        let undo = self.records.iter().find(|record| Some(&record.id) == redo.reverses.as_ref());
        Some(self.history.open_calls_of(&undo?.calls)).filter(|calls| !calls.is_empty())
    }

    /// Returns the calls that the last undo left incomplete, if nothing was changed or undone since.
    pub(in crate::undo) fn left_by_undo(&self) -> Option<Vec<usize>> {
        let undo = self.last_record_since_calls(UndoAction::Undo)?;
        Some(self.history.open_calls_of(&undo.calls)).filter(|calls| !calls.is_empty())
    }

    fn last_record_since_calls(&self, action: UndoAction) -> Option<&UndoRecord> {
        let at = self.records.len().checked_sub(1)?;
        let is_last = self.calls_before_record_at(at) == self.history.calls.len();
        self.records.get(at).filter(|record| is_last && record.action == action)
    }

    /// Returns the last author of each path after the record with index `at`.
    pub(in crate::undo) fn last_authors_after(
        &self,
        at: usize,
    ) -> Result<BTreeMap<PathBuf, StepAuthor>, UndoError> {
        let is_later = |step: &&PathStep| match step.author {
            StepAuthor::Call(_) => true,
            StepAuthor::Restore(restore) => restore > at,
        };
        let steps = self.open_steps(self.calls_before_record_at(at))?.into_iter();
        let last = |steps: &[PathStep]| steps.iter().rev().find(is_later).map(|step| step.author);
        Ok(steps.filter_map(|(path, steps)| Some((path, last(&steps)?))).collect())
    }

    /// Returns the states of paths before calls made since a record first changed them.
    pub(in crate::undo) fn first_states_since(
        &self,
        record: &UndoRecord,
    ) -> Result<BTreeMap<PathBuf, SnapshotEntry>, UndoError> {
        let first = self.calls_before_record(record);
        let calls: Vec<usize> = (first..self.history.calls.len()).collect();
        let steps = self.steps(&calls)?.into_iter();
        Ok(steps.filter_map(|(path, steps)| Some((path, steps.first()?.before.clone()))).collect())
    }
}
