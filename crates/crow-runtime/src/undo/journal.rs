//! The undo journal of a session: the changes of its calls, and what was undone of them.
//!
//! The journal is rebuilt from disk by `reload`: [`ChangeHistory`] (from the logs) lists the changing calls, the undo
//! records (from `undo.jsonl`) say what was undone since, and [`ChangeLedger`] combines both per path. Every operation
//! first takes the right to change files (`begin`), reloads, completes undos that were killed, and then executes an
//! [`UndoRequest`].

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::Clock,
    ids::{IdSource, SessionId, UndoId},
    tool::Patch,
};

use super::{
    ChangedCall, RestorePoint, RestoredPath, UndoAction, UndoError, UndoOptions, UndoRecord,
    UndoReport, UndoTarget,
    change_history::ChangeHistory,
    execution::{CompletedUndo, PreparedUndo, RewindExtent, UndoExecution, UndoRequest},
    ledger::ChangeLedger,
    notice::{notice, remaining_changes_notice},
    reversal::{Reversal, StepAuthor},
    selection::UndoSelection,
};
use crate::{
    PathChange, Sandbox, SnapshotEntry, SnapshotStore,
    changes::{JobWatch, Lease, Leases, describe_all},
    config::RuntimeConfig,
    quarantine_messages::recovery_messages,
    session::{SessionStore, StoredSession},
};
use crow_fs::FileLock;

/// Time that an undo waits for a call that is changing files.
const PATIENCE: Duration = Duration::from_secs(3);

/// The agent of a session that runs in this process, as far as an undo needs it.
pub(crate) trait RunningAgent: std::fmt::Debug + Send + Sync {
    /// Returns true if no run is under way or requested.
    fn is_idle(&self) -> bool;

    /// Returns the sandbox of the session.
    fn sandbox(&self) -> Option<&Sandbox>;

    /// Wakes the agent, so that it reads the new undo record.
    fn notify_undo(&self);
}

/// The changes made by the calls of a root session and its descendants, and what was undone of them.
///
/// All methods block.
#[derive(Debug)]
pub struct UndoJournal {
    pub(super) sessions: Arc<dyn SessionStore>,
    watch: Arc<JobWatch>,
    pub(super) clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    pub(super) id: SessionId,
    /// The roots of the session's workspace.
    roots: Vec<PathBuf>,
    pub(super) ledger: ChangeLedger,
    /// Records of undos that were announced but not completed: killed, or under way.
    pub(super) unfinished: Vec<UndoRecord>,
    /// Records of killed undos that were completed since the current operation began.
    pub(super) finished: Vec<UndoRecord>,
    /// What was put back of killed sessions, for the user.
    recovered: Vec<String>,
    /// The agent of the session, if it runs in this process.
    agent: Option<(Box<dyn RunningAgent>, Arc<Leases>)>,
}

impl UndoJournal {
    /// Reads the journal of a root session, which may be in use. What killed sessions left among the files that start
    /// programs is put back first: it is no change to undo or to make again.
    pub fn open(config: &RuntimeConfig, id: &SessionId) -> Result<Self, UndoError> {
        let workspace = config.store.read(id)?.metadata.crow().workspace();
        let folder = config.sandbox_folder.as_deref();
        let report = folder.map(|folder| Sandbox::recover_in(folder, workspace.roots()));
        let recovered = report.iter().flat_map(recovery_messages).collect();
        Ok(Self { recovered, ..Self::read(config, id)? })
    }

    /// Reads the journal, and changes nothing.
    pub(crate) fn read(config: &RuntimeConfig, id: &SessionId) -> Result<Self, UndoError> {
        let stores = config.snapshots.as_ref().ok_or(UndoError::Unavailable)?;
        let crow = config.store.read(id)?.metadata.crow();
        let workspace = crow.workspace();
        let mut journal = Self {
            sessions: Arc::clone(&config.store),
            ledger: ChangeLedger::new(stores.open_workspace(&workspace)?, id.clone(), crow.cwd),
            watch: stores.job_watch(&workspace),
            clock: Arc::clone(&config.clock),
            ids: Arc::clone(&config.ids),
            id: id.clone(),
            roots: workspace.roots().to_vec(),
            unfinished: Vec::new(),
            finished: Vec::new(),
            recovered: Vec::new(),
            agent: None,
        };
        journal.reload()?;
        Ok(journal)
    }

    /// Reads the journal of an agent that runs in this process. Operations wait for their turn to change files, and
    /// wake the agent.
    pub(crate) fn of_agent(
        config: &RuntimeConfig,
        root_id: &SessionId,
        agent: Box<dyn RunningAgent>,
        leases: Arc<Leases>,
    ) -> Result<Self, UndoError> {
        let mut journal = Self::open(config, root_id)?;
        journal.agent = Some((agent, leases));
        Ok(journal)
    }

    /// Returns the calls that changed files, in order.
    pub fn calls(&self) -> &[ChangedCall] {
        self.ledger.calls()
    }

    /// Returns messages for the user about what was put back of killed sessions when the journal was opened.
    pub fn recovered(&self) -> &[String] {
        &self.recovered
    }

    /// Returns the undo, redo and restore records, oldest first.
    pub fn records(&self) -> &[UndoRecord] {
        self.ledger.records()
    }

    /// Returns the number of the last turn.
    pub fn turns(&self) -> u32 {
        self.ledger.history().last_turn()
    }

    /// Returns the project folder.
    pub fn root(&self) -> &Path {
        self.ledger.root()
    }

    /// Returns the workspace roots of the session, the project folder first.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns those of the paths that git ignores, so that they can be shown separately.
    pub fn ignored<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> BTreeSet<PathBuf> {
        self.ledger.store().ignored(&paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Returns the changes of a job killed with its process, if they are not in the log yet.
    pub(crate) fn changed_by_killed_job(&self) -> Option<&ChangedCall> {
        self.ledger.changed_by_killed_job()
    }

    /// Undoes calls, or the last restore, which counts as one.
    pub fn undo(
        &mut self,
        target: &UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        let selection = self.select(target, options)?;
        let last_kept = match selection.turn.filter(|_| options.chat) {
            Some(turn) => {
                self.refuse_if_at_work()?;
                Some((turn.number, turn.last_before))
            }
            None => None,
        };
        let restore = selection.restore.and_then(|at| self.ledger.records().get(at));
        let request = UndoRequest {
            action: UndoAction::Undo,
            reversals: self.ledger.reversals(&selection.authors())?,
            reverses: restore.map(|restore| restore.id.clone()),
            authors: selection.authors(),
            calls: selection.calls,
            not_chosen: Vec::new(),
            last_kept,
            remaining: Vec::new(),
        };
        self.execute(&request, options)
    }

    /// Rewinds the conversation to before the first turn of the target, and leaves all files as they are. The model is
    /// told which changes of the removed turns stay; they can still be undone. A redo does not bring the turns back.
    ///
    /// [`UndoTarget::LastTurn`] is the last turn of the conversation, whether it changed files or not. Fails if the
    /// conversation does not contain the turn, and while the agent is at work.
    pub fn rewind_conversation(
        &mut self,
        target: &UndoTarget,
        dry_run: bool,
    ) -> Result<UndoReport, UndoError> {
        let options = UndoOptions { dry_run, ..UndoOptions::default() };
        let _turn = self.begin(options)?;
        let (turn, last_before) = self.ledger.history().boundary_of(target)?;
        self.refuse_if_at_work()?;
        let open = self.ledger.history().open_calls_after(last_before);
        let authors: Vec<StepAuthor> = open.into_iter().map(StepAuthor::Call).collect();
        let remaining = self.ledger.reversals(&authors)?.into_iter();
        let request = UndoRequest {
            action: UndoAction::Undo,
            reversals: Vec::new(),
            authors: Vec::new(),
            calls: Vec::new(),
            reverses: None,
            not_chosen: Vec::new(),
            last_kept: Some((turn, last_before)),
            remaining: remaining
                .filter(|reversal| !reversal.is_nothing())
                .map(|reversal| reversal.change.path)
                .collect(),
        };
        self.execute(&request, options)
    }

    /// Undoes the changes of calls at some paths and below them, and leaves the other changes of these calls. Paths may
    /// be relative to the project.
    ///
    /// [`UndoTarget::LastTurn`] is the last turn that changed one of the paths. Fails if there is nothing to undo at one
    /// of them, and if the conversation is to be rewound.
    pub fn undo_paths(
        &mut self,
        target: &UndoTarget,
        paths: &[PathBuf],
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        if options.chat {
            return Err(UndoError::ChatNeedsAllPaths);
        }
        let _turn = self.begin(options)?;
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.root().join(path)).collect();
        let is_chosen = |path: &Path| paths.iter().any(|chosen| path.starts_with(chosen));
        let selection = self.select_at_paths(target, &is_chosen, options)?;
        let authors = selection.as_ref().map_or_else(Vec::new, UndoSelection::authors);
        let (reversals, not_chosen): (Vec<_>, Vec<_>) = self
            .ledger
            .reversals(&authors)?
            .into_iter()
            .partition(|reversal| is_chosen(&reversal.change.path));
        // A misspelt path beside others must not pass unnoticed.
        let is_changed =
            |path: &PathBuf| reversals.iter().any(|own| own.change.path.starts_with(path));
        if let Some(path) = paths.iter().find(|path| !is_changed(path)) {
            let path = path.strip_prefix(self.root()).unwrap_or(path).display().to_string();
            return Err(explain(UndoError::NothingAtPath { path }, self.ledger.store()));
        }
        let selection = selection.ok_or(UndoError::Nothing { what: "undo" })?;
        let restore = selection.restore.and_then(|at| self.ledger.records().get(at));
        let request = UndoRequest {
            action: UndoAction::Undo,
            reversals,
            reverses: restore.map(|restore| restore.id.clone()),
            authors,
            calls: selection.calls,
            not_chosen,
            last_kept: None,
            remaining: Vec::new(),
        };
        self.execute(&request, options)
    }

    /// Selects what to undo. Without a target, the user's last operation has priority: a restore, a redo, or with force
    /// an undo that left something.
    fn select(
        &self,
        target: &UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoSelection, UndoError> {
        if *target == UndoTarget::LastTurn
            && !options.chat
            && let Some(selection) = self.last_operation(options)?
        {
            return Ok(selection);
        }
        self.ledger
            .history()
            .select(target, options.chat)
            .map_err(|error| explain(error, self.ledger.store()))
    }

    /// Selects what to undo at chosen paths, like [`select`](Self::select), but the last turn is the last one that
    /// changed one of them. Returns `None` if there is nothing.
    fn select_at_paths(
        &self,
        target: &UndoTarget,
        is_chosen: &dyn Fn(&Path) -> bool,
        options: UndoOptions,
    ) -> Result<Option<UndoSelection>, UndoError> {
        let steps = self.ledger.open_steps(0)?.into_iter().filter(|(path, _)| is_chosen(path));
        let authors: BTreeSet<StepAuthor> =
            steps.flat_map(|(_, steps)| steps).map(|step| step.author).collect();
        if *target != UndoTarget::LastTurn {
            return Ok(self.ledger.history().select(target, false)?.retain_authors(&authors));
        }
        let again = self.last_operation(options)?;
        if let Some(selection) = again.and_then(|selection| selection.retain_authors(&authors)) {
            return Ok(Some(selection));
        }
        let turn_of = |author: &StepAuthor| match author {
            StepAuthor::Call(at) => self.ledger.calls().get(*at).map(|call| call.turn),
            StepAuthor::Restore(_) => None,
        };
        let Some(last) = authors.iter().filter_map(turn_of).max() else { return Ok(None) };
        Ok(self.ledger.history().select(&UndoTarget::Turn(last), false)?.retain_authors(&authors))
    }

    /// Returns the user's last operation, which an undo without a target has to take back: a restore, a redo, or with
    /// force an undo that left something.
    fn last_operation(&self, options: UndoOptions) -> Result<Option<UndoSelection>, UndoError> {
        if let Some(restore) = self.ledger.last_restore()? {
            let restore = Some(restore);
            return Ok(Some(UndoSelection { calls: Vec::new(), restore, turn: None }));
        }
        let again = self
            .ledger
            .last_redo()
            .or_else(|| options.force.then(|| self.ledger.left_by_undo())?);
        Ok(again.map(|calls| self.ledger.history().selection_of(calls)))
    }

    /// Reverts the last undo: each path gets the state before that undo, and no other path is touched.
    pub fn redo(&mut self, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        let at = self.ledger.undone().last_undo().ok_or(UndoError::Nothing { what: "redo" })?;
        let continued = self.ledger.records().get(at).and_then(|undo| undo.continues.clone());
        let mut report = self.redo_one(at, options)?;
        let index_of =
            |id: &UndoId| self.ledger.records().iter().position(|record| record.id == *id);
        // The undo completed an earlier one that was killed: that is reverted as well.
        if let Some(at) = continued.as_ref().and_then(index_of) {
            let first = self.redo_one(at, options)?;
            report.calls.retain(|call| !first.calls.iter().any(|own| own.key() == call.key()));
            report.calls.extend(first.calls);
            report.paths.extend(first.paths);
            report.notified_later |= first.notified_later;
        }
        Ok(report)
    }

    /// Reverts the undo record with this index.
    fn redo_one(&mut self, at: usize, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let undo =
            self.ledger.records().get(at).ok_or(UndoError::Nothing { what: "redo" })?.clone();
        let mut changes = self.ledger.store().changes(&undo.before, &undo.after)?;
        if let Some(left) = self.ledger.undone().left_by_redo(at) {
            changes.retain(|change| left.contains(&change.path));
        }
        let mut later = self.ledger.last_authors_after(at)?;
        let reversals = changes.into_iter().map(|change| {
            let later = later.remove(&change.path);
            Reversal { later, ..Reversal::from_change(change) }
        });
        let calls = self.ledger.history().call_indexes(&undo.calls);
        let request = UndoRequest {
            action: UndoAction::Redo,
            reversals: reversals.collect(),
            authors: Vec::new(),
            calls,
            reverses: Some(undo.id),
            not_chosen: Vec::new(),
            last_kept: None,
            remaining: Vec::new(),
        };
        self.execute(&request, options)
    }

    /// Restores a path to its state at a point; for a folder, everything in it that calls changed.
    pub fn restore(
        &mut self,
        path: &Path,
        at: &RestorePoint,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        let index = self.ledger.history().calls_before(at)?;
        let path = self.ledger.root().join(path);
        let wanted = self.ledger.state_at(&path, index)?;
        let mut reversals = Vec::new();
        for (changed, wanted, is_certain) in wanted {
            let found = self.ledger.store().current_entry(&changed, &wanted)?;
            if !is_certain && changed != path && (found != SnapshotEntry::Absent || found == wanted)
            {
                continue;
            }
            let path = changed;
            let change = PathChange { path, before: wanted, after: found };
            reversals.push(Reversal::from_change(change));
        }
        let request = UndoRequest {
            action: UndoAction::Restore,
            reversals,
            authors: Vec::new(),
            calls: Vec::new(),
            reverses: None,
            not_chosen: Vec::new(),
            last_kept: None,
            remaining: Vec::new(),
        };
        self.execute(&request, options)
    }

    /// Returns the changes between two points. From start to end, undone changes are excluded.
    pub fn diff(&self, from: &RestorePoint, to: &RestorePoint) -> Result<Patch, UndoError> {
        let (first, end) =
            (self.ledger.history().calls_before(from)?, self.ledger.history().calls_before(to)?);
        let all = (from, to) == (&RestorePoint::Start, &RestorePoint::End);
        let steps = if all {
            self.ledger.open_steps(first)?
        } else {
            self.ledger.steps(&(first..end).collect::<Vec<usize>>())?
        };
        let mut changes = Vec::new();
        for (path, steps) in steps {
            let (Some(before), Some(after)) = (steps.first(), steps.last()) else { continue };
            if before.before != after.after {
                let (before, after) = (before.before.clone(), after.after.clone());
                changes.push(PathChange { path, before, after });
            }
        }
        Ok(describe_all(self.ledger.store(), &changes))
    }

    /// Returns the state before the session of each path that its calls changed, without changes that were undone.
    pub fn start_entries(&self) -> Result<Vec<(PathBuf, SnapshotEntry)>, UndoError> {
        let steps = self.ledger.open_steps(0)?;
        let first = steps.into_iter().filter_map(|(path, steps)| {
            let (first, last) = (steps.first()?, steps.last()?);
            (first.before != last.after).then(|| (path, first.before.clone()))
        });
        Ok(first.collect())
    }

    /// Reads the content of a file, or the target of a link.
    pub fn read_entry(&self, entry: &SnapshotEntry) -> Result<Vec<u8>, UndoError> {
        Ok(self.ledger.store().read(entry)?)
    }

    /// Rebuilds the journal from the log and the undo records.
    pub(super) fn reload(&mut self) -> Result<(), UndoError> {
        let records = UndoRecord::effective_records(self.sessions.undos(&self.id)?);
        let (unfinished, records): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.intent.is_some());
        let stored: StoredSession = self.sessions.read(&self.id)?;
        let is_at_work = match &self.agent {
            Some((agent, _)) => !agent.is_idle(),
            None => self.sessions.is_in_use(&self.id)?,
        };
        let history = ChangeHistory::read(self.sessions.as_ref(), &stored, &records, is_at_work);
        self.unfinished = unfinished;
        self.ledger.reload(history, records);
        Ok(())
    }

    /// Waits for the right to change files, then reloads the journal and completes killed undos. A dry run also works
    /// where nothing can be written.
    fn begin(&mut self, options: UndoOptions) -> Result<(Option<Lease>, Vec<FileLock>), UndoError> {
        let roots = &self.roots;
        let lease = match &self.agent {
            None => None,
            Some((_, leases)) => Some(leases.take_within(roots, PATIENCE).ok_or(UndoError::Busy)?),
        };
        // Excludes undos of other processes. A dry run does without where no lock can be taken.
        let locks = match self.ledger.store().activities().lock_undo() {
            Err(_) if options.dry_run => Vec::new(),
            locks => locks?,
        };
        self.reload()?;
        self.finished.clear();
        if !options.dry_run {
            self.finish_killed()?;
        }
        // A missing project folder is an error, unless the last call removed it.
        let last = self.ledger.calls().iter().rev().find(|call| !call.undone);
        let removed = last
            .and_then(|call| call.after.as_ref())
            .is_some_and(|after| self.ledger.store().is_empty(after, self.ledger.store().root()));
        if !self.ledger.root().exists() && !removed && !self.ledger.calls().is_empty() {
            return Err(UndoError::ProjectGone { path: self.ledger.root().to_path_buf() });
        }
        Ok((lease, locks))
    }

    fn refuse_if_at_work(&self) -> Result<(), UndoError> {
        let is_free = match &self.agent {
            Some((agent, _)) => agent.is_idle(),
            None => !self.sessions.is_in_use(&self.id)?,
        };
        if is_free { Ok(()) } else { Err(UndoError::ChatInUse { id: self.id.clone() }) }
    }

    /// Carries out a request. Its changes are not attributed to jobs, or to commands that run at the same time.
    fn execute_request(
        &self,
        execution: &UndoExecution<'_>,
        request: &UndoRequest,
        announce: &dyn Fn(&PreparedUndo) -> Result<(), UndoError>,
    ) -> Result<CompletedUndo, UndoError> {
        // The job watch must not count this as foreign activity, and the sandbox must not blame commands for it.
        self.watch.count_activity(self.ledger.store());
        let carry_out = || -> Result<(CompletedUndo, Vec<PathChange>), UndoError> {
            let done = execution.execute(request, announce)?;
            let changes = self.ledger.store().changes(&done.before, &done.after)?;
            Ok((done, changes))
        };
        let all = request.reversals.iter().map(|reversal| &reversal.change);
        let paths = |result: &Result<(CompletedUndo, Vec<PathChange>), UndoError>| match result {
            Ok((_, changes)) => changes.iter().map(|change| change.path.clone()).collect(),
            Err(_) => all.map(|change| change.path.clone()).collect(),
        };
        let sandbox = self.agent.as_ref().and_then(|(agent, _)| agent.sandbox());
        let (done, changes) = match sandbox {
            Some(sandbox) => sandbox.run_user_change(carry_out, paths),
            None => carry_out(),
        }?;
        self.watch.touch(self.ledger.store(), changes)?;
        Ok(done)
    }

    #[tracing::instrument(
        level = "debug",
        name = "undo",
        skip_all,
        fields(session = %self.id, action = ?request.action, dry_run = options.dry_run)
    )]
    fn execute(
        &mut self,
        request: &UndoRequest,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let (store, session, calls) = (self.ledger.store(), &self.id, self.ledger.calls());
        let gone = self.ledger.gone_roots(&request.calls)?;
        let execution =
            UndoExecution { store, session, calls, missing_roots: gone, force: options.force };
        let calls: Vec<&ChangedCall> =
            request.calls.iter().filter_map(|at| self.ledger.calls().get(*at)).collect();
        let mut report = UndoReport {
            action: request.action,
            calls: calls.iter().map(|call| (*call).clone()).collect(),
            paths: Vec::new(),
            not_chosen: request.not_chosen.iter().filter(|left| !left.is_nothing()).count()
                + request.remaining.len(),
            rewound_to: request.last_kept.map(|(turn, _)| turn),
            notified_later: false,
            dry_run: options.dry_run,
        };
        if options.dry_run {
            report.paths = execution.preview(request)?;
            return Ok(report);
        }
        // 1) The announcement is a record with an intent: if this process is killed, the next undo completes it.
        let id = UndoId::new(self.ids.next_id());
        let announce = |prepared: &PreparedUndo| -> Result<(), UndoError> {
            let reached = prepared.extents.clone();
            let (before, after) = (prepared.before.clone(), prepared.before.clone());
            let record = self.record(id.clone(), request, &reached, (before, after));
            let record = UndoRecord { intent: Some(prepared.intent.clone()), ..record };
            Ok(self.sessions.add_undo(&self.id, &record)?)
        };
        tracing::debug!(calls = calls.len(), paths = request.reversals.len(), "undo started");
        let done = self.execute_request(&execution, request, &announce)?;
        tracing::debug!(paths = done.paths.len(), "files put back");
        // 2) The final record, or a void one if nothing was done.
        report.paths = done.paths;
        let notice = notice(request.action, &calls, &report.paths, self.ledger.root());
        let left = report.paths.iter().filter(|path| !path.is_done()).map(|path| &path.path);
        let stays = remaining_changes_notice(left.chain(&request.remaining), self.ledger.root())
            .filter(|_| request.last_kept.is_some());
        let is_left = |reversal: &Reversal| {
            done.extents.get(&reversal.change.path) == Some(&RewindExtent::Unchanged)
        };
        let reversals = &request.reversals;
        // No file changed, the conversation stays and, for undo and redo, every path was left alone.
        let did_nothing = done.before == done.after
            && request.last_kept.is_none()
            && (request.action == UndoAction::Restore
                || !reversals.is_empty() && reversals.iter().all(is_left));
        let record = UndoRecord {
            copies: report.paths.iter().filter_map(RestoredPath::copy).cloned().collect(),
            notice,
            stays,
            last_kept: request.last_kept.map(|(_, last_kept)| last_kept),
            ..self.record(id, request, &done.extents, (done.before, done.after))
        };
        if did_nothing {
            if done.is_announced {
                self.sessions.add_undo(&self.id, &record.void())?;
            }
            return Ok(report);
        }
        // 3) The record is stored, then the agent is notified.
        self.sessions.add_undo(&self.id, &record)?;
        if let Some((agent, _)) = &self.agent {
            agent.notify_undo();
        } else {
            report.notified_later = record.notice.is_some() && self.sessions.is_in_use(&self.id)?;
        }
        self.reload()?;
        // The report shows the calls in their new state.
        for call in &mut report.calls {
            let is_same = |now: &&ChangedCall| (now.seq, &now.call_id) == (call.seq, &call.call_id);
            if let Some(now) = self.ledger.calls().iter().find(is_same) {
                call.undone = now.undone;
            }
        }
        Ok(report)
    }
}

/// Replaces "nothing to undo" with the reason if nothing is captured.
fn explain(error: UndoError, store: &SnapshotStore) -> UndoError {
    match (error, store.check_scannable()) {
        (UndoError::Nothing { .. } | UndoError::NothingAtPath { .. }, Err(refused)) => {
            UndoError::NotCaptured(refused)
        }
        (error, _) => error,
    }
}
