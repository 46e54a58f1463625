//! The journal of a session: what its calls changed, and what was undone of it.

use std::{
    collections::BTreeSet,
    fs::File,
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
    CallKey, ChangedCall, Point, UndoAction, UndoError, UndoOptions, UndoRecord, UndoReport,
    UndoTarget,
    act::{Act, Done, Request},
    compose::Reversal,
    notice::{notice, stays},
    read::{Told, last_standing, last_undo},
};
use crate::{
    AgentHandle, Change, Entry, RuntimeConfig, SessionStore, SnapshotStore, StoredSession,
    changes::{JobWatch, Lease, Leases, describe_all},
};

/// How long an undo waits for a call that changes files.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the calls of a root session and of the agents below it changed, and what was undone of it.
///
/// All methods block.
#[derive(Debug)]
pub struct UndoJournal {
    sessions: Arc<dyn SessionStore>,
    pub(super) store: Arc<SnapshotStore>,
    watch: Arc<JobWatch>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    pub(super) id: SessionId,
    pub(super) root: PathBuf,
    /// The folders in which the agents of the session work.
    roots: Vec<PathBuf>,
    pub(super) told: Told,
    records: Vec<UndoRecord>,
    /// The agent of the session, if it runs in this process.
    agent: Option<(AgentHandle, Arc<Leases>)>,
}

impl UndoJournal {
    /// Reads the journal of a root session. Somebody may work in it meanwhile.
    pub fn open(config: &RuntimeConfig, id: &SessionId) -> Result<Self, UndoError> {
        let stores = config.snapshots.as_ref().ok_or(UndoError::Unavailable)?;
        let crow = config.store.read(id)?.metadata.crow();
        let workspace = crow.workspace();
        let mut journal = Self {
            sessions: Arc::clone(&config.store),
            store: stores.of_workspace(&workspace)?,
            watch: stores.watch_of(&workspace),
            clock: Arc::clone(&config.clock),
            ids: Arc::clone(&config.ids),
            id: id.clone(),
            root: crow.cwd,
            roots: workspace.roots().to_vec(),
            told: Told::default(),
            records: Vec::new(),
            agent: None,
        };
        journal.reload()?;
        Ok(journal)
    }

    /// Reads the journal of an agent that runs in this process. What is done waits for its turn to change files, and
    /// wakes the agent.
    pub(crate) fn of_agent(
        config: &RuntimeConfig,
        handle: AgentHandle,
        leases: Arc<Leases>,
    ) -> Result<Self, UndoError> {
        let mut journal = Self::open(config, handle.root_id())?;
        journal.agent = Some((handle, leases));
        Ok(journal)
    }

    /// Returns the calls that changed files, in the order in which they were made.
    pub fn calls(&self) -> &[ChangedCall] {
        &self.told.calls
    }

    /// Returns what was undone, redone and restored, the first one first.
    pub fn records(&self) -> &[UndoRecord] {
        &self.records
    }

    /// Returns the number of the last turn.
    pub fn turns(&self) -> u32 {
        self.told.last_turn()
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folders in which the agents of the session work: that of the project first.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Undoes calls. The last restore counts as one.
    pub fn undo(
        &mut self,
        target: &UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        if *target == UndoTarget::LastTurn
            && !options.chat
            && let Some(restore) = self.last_restore()
        {
            return self.reverse(&restore.clone(), UndoAction::Undo, options);
        }
        let chosen = match self.last_redo().filter(|_| *target == UndoTarget::LastTurn) {
            Some(calls) if !options.chat => self.told.chosen(calls),
            _ => self.told.choose(target, options.chat).map_err(|error| self.why(error))?,
        };
        let last_kept = match chosen.turn.filter(|_| options.chat) {
            Some(turn) => {
                self.refuse_if_at_work()?;
                Some((turn.number, turn.last_before))
            }
            None => None,
        };
        let request = Request {
            action: UndoAction::Undo,
            reversals: self.reversals(&chosen.calls)?,
            calls: chosen.calls,
            reverses: None,
            last_kept,
        };
        self.act(&request, options)
    }

    /// Says why there is nothing to undo, where nothing is captured.
    fn why(&self, error: UndoError) -> UndoError {
        match (error, self.store.may_scan()) {
            (UndoError::Nothing { .. }, Err(refused)) => UndoError::NotCaptured(refused),
            (error, _) => error,
        }
    }

    /// Takes the last undo back.
    pub fn redo(&mut self, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        let undo = last_undo(&self.records).ok_or(UndoError::Nothing { what: "redo" })?.clone();
        self.reverse(&undo, UndoAction::Redo, options)
    }

    /// Puts a path into the state that it had at a point; of a folder, everything in it that calls changed.
    pub fn restore(
        &mut self,
        path: &Path,
        at: &Point,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let _turn = self.begin(options)?;
        let place = self.told.place(at)?;
        let path = self.root.join(path);
        let wanted = self.state_at(&path, place)?;
        let mut reversals = Vec::new();
        for (changed, wanted, is_certain) in wanted {
            let found = self.store.look_at(&changed, &wanted)?;
            if !is_certain && changed != path && (found != Entry::Absent || found == wanted) {
                continue;
            }
            let path = changed;
            let change = Change { path, before: wanted, after: found };
            reversals.push(Reversal::of(change));
        }
        let request = Request {
            action: UndoAction::Restore,
            reversals,
            calls: Vec::new(),
            reverses: None,
            last_kept: None,
        };
        self.act(&request, options)
    }

    /// Returns what changed from one point to another. From the start to the end, what is undone does not count.
    pub fn diff(&self, from: &Point, to: &Point) -> Result<Patch, UndoError> {
        let (first, end) = (self.told.place(from)?, self.told.place(to)?);
        let all = (from, to) == (&Point::Start, &Point::End);
        let is_meant =
            |at: &usize| !all || self.told.calls.get(*at).is_some_and(|call| !call.undone);
        let calls: Vec<usize> = (first..end).filter(is_meant).collect();
        let mut changes = Vec::new();
        for (path, steps) in self.steps(&calls)? {
            let (Some(before), Some(after)) = (steps.first(), steps.last()) else { continue };
            if before.before != after.after {
                let (before, after) = (before.before.clone(), after.after.clone());
                changes.push(Change { path, before, after });
            }
        }
        Ok(describe_all(&self.store, &changes))
    }

    fn reload(&mut self) -> Result<(), UndoError> {
        self.records = self.sessions.undos(&self.id)?;
        let stored: StoredSession = self.sessions.read(&self.id)?;
        let is_at_work = match &self.agent {
            Some((handle, _)) => !handle.is_idle(),
            None => self.sessions.is_in_use(&self.id)?,
        };
        self.told = Told::read(self.sessions.as_ref(), &stored, &self.records, is_at_work);
        Ok(())
    }

    /// Waits for the turn to change files, and reads what happened until then. Who only looks may do so where nothing can be
    /// written.
    fn begin(&mut self, options: UndoOptions) -> Result<(Option<Lease>, Vec<File>), UndoError> {
        let roots = &self.roots;
        let lease = match &self.agent {
            None => None,
            Some((_, leases)) => Some(leases.take_within(roots, PATIENCE).ok_or(UndoError::Busy)?),
        };
        let alone = match self.store.undo_alone() {
            Err(_) if options.dry_run => Vec::new(),
            alone => alone?,
        };
        self.reload()?;
        let last = self.told.calls.iter().rev().find(|call| !call.undone);
        let removed = last
            .and_then(|call| call.after.as_ref())
            .is_some_and(|after| self.store.is_empty(after, self.store.root()));
        if !self.root.exists() && !removed && !self.told.calls.is_empty() {
            return Err(UndoError::ProjectGone { path: self.root.clone() });
        }
        Ok((lease, alone))
    }

    fn refuse_if_at_work(&self) -> Result<(), UndoError> {
        let is_free = match &self.agent {
            Some((handle, _)) => handle.is_idle(),
            None => !self.sessions.is_in_use(&self.id)?,
        };
        if is_free { Ok(()) } else { Err(UndoError::ChatInUse { id: self.id.clone() }) }
    }

    /// Returns the last restore, if nothing was changed by a call since.
    fn last_restore(&self) -> Option<&UndoRecord> {
        let restore = last_standing(&self.records, UndoAction::Restore)?;
        let last = self.told.calls.iter().rev().find(|call| !call.undone);
        last.is_none_or(|call| call.time < restore.time).then_some(restore)
    }

    /// Returns the calls of the last redo, if nothing was changed and nothing else was done since.
    fn last_redo(&self) -> Option<Vec<usize>> {
        let redo = self.records.last().filter(|record| record.action == UndoAction::Redo)?;
        let calls = self.told.calls.iter().enumerate();
        if self.told.calls.last().is_some_and(|call| call.time > redo.time) {
            return None;
        }
        let is_meant = |call: &ChangedCall| {
            !call.undone
                && redo.calls.iter().any(|key| key.seq == call.seq && key.call_id == call.call_id)
        };
        let places: Vec<usize> =
            calls.filter(|(_, call)| is_meant(call)).map(|(at, _)| at).collect();
        (!places.is_empty()).then_some(places)
    }

    /// Takes a record back.
    fn reverse(
        &mut self,
        record: &UndoRecord,
        action: UndoAction,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let mut changes = self.store.changes(&record.before, &record.after)?;
        let is_meant = |call: &ChangedCall| {
            record.calls.iter().any(|key| key.seq == call.seq && key.call_id == call.call_id)
        };
        let calls = self.told.calls.iter().enumerate().filter(|(_, call)| is_meant(call));
        let calls: Vec<usize> = calls.map(|(at, _)| at).collect();
        if action == UndoAction::Redo {
            // An undo that was killed left no record of what it had put back; the calls say what there was.
            let seen: BTreeSet<PathBuf> =
                changes.iter().map(|change| change.path.clone()).collect();
            let missed = self.reversals(&calls)?.into_iter().map(|reversal| reversal.change);
            let missed = missed.filter(|change| !seen.contains(&change.path));
            changes.extend(missed.map(Change::reversed));
        }
        let request = Request {
            action,
            calls,
            reversals: changes.into_iter().map(Reversal::of).collect(),
            reverses: Some(record.id.clone()),
            last_kept: None,
        };
        self.act(&request, options)
    }

    /// Puts paths back. Jobs, and commands that run beside it, are not to blame.
    fn carry_out(&self, act: &Act<'_>, request: &Request) -> Result<Done, UndoError> {
        self.watch.began(&self.store);
        let carry_out = || -> Result<(Done, Vec<Change>), UndoError> {
            let done = act.carry_out(request)?;
            let changes = self.store.changes(&done.before, &done.after)?;
            Ok((done, changes))
        };
        let all = request.reversals.iter().map(|reversal| &reversal.change);
        let paths = |result: &Result<(Done, Vec<Change>), UndoError>| match result {
            Ok((_, changes)) => changes.iter().map(|change| change.path.clone()).collect(),
            Err(_) => all.map(|change| change.path.clone()).collect(),
        };
        let sandbox = self.agent.as_ref().and_then(|(handle, _)| handle.sandbox());
        let (done, changes) = match sandbox {
            Some(sandbox) => sandbox.while_user_changes(carry_out, paths),
            None => carry_out(),
        }?;
        self.watch.touch(changes);
        Ok(done)
    }

    fn act(&mut self, request: &Request, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let (store, session, calls) = (&self.store, &self.id, &self.told.calls);
        let gone = self.gone_roots(&request.calls)?;
        let act = Act { store, session, calls, gone, force: options.force };
        let calls: Vec<&ChangedCall> =
            request.calls.iter().filter_map(|at| self.told.calls.get(*at)).collect();
        let mut report = UndoReport {
            action: request.action,
            calls: calls.iter().map(|call| (*call).clone()).collect(),
            paths: Vec::new(),
            rewound_to: request.last_kept.map(|(turn, _)| turn),
            told_later: false,
            dry_run: options.dry_run,
        };
        if options.dry_run {
            report.paths = act.foresee(request)?;
            return Ok(report);
        }
        let done = self.carry_out(&act, request)?;
        report.paths = done.paths;
        // A record is taken back as a whole: until then it stands.
        let reverses = request.reverses.clone().filter(|_| done.is_whole);
        let is_done = |at: &&usize| {
            !done.left.contains(*at) && (reverses.is_some() || request.reverses.is_none())
        };
        let finished =
            request.calls.iter().filter(is_done).filter_map(|at| self.told.calls.get(*at));
        let key = |call: &ChangedCall| CallKey { seq: call.seq, call_id: call.call_id.clone() };
        let notice = notice(request.action, &calls, &report.paths, &self.root);
        let stays = stays(&report.paths, &self.root).filter(|_| request.last_kept.is_some());
        let record = UndoRecord {
            id: UndoId::new(self.ids.next_id()),
            time: self.clock.now(),
            action: request.action,
            calls: finished.map(key).collect(),
            reverses: reverses.clone(),
            before: done.before,
            after: done.after,
            notice,
            stays,
            last_kept: request.last_kept.map(|(_, last_kept)| last_kept),
            last_seen: request.last_kept.map(|_| self.told.last_seq),
        };
        let does_nothing = record.calls.is_empty() && record.reverses.is_none();
        if record.before == record.after && does_nothing && record.last_kept.is_none() {
            return Ok(report);
        }
        self.sessions.add_undo(&self.id, &record)?;
        if let Some((handle, _)) = &self.agent {
            handle.tell_undone();
        } else {
            report.told_later = record.notice.is_some() && self.sessions.is_in_use(&self.id)?;
        }
        self.reload()?;
        // They are told as they are now.
        for call in &mut report.calls {
            let is_same = |now: &&ChangedCall| (now.seq, &now.call_id) == (call.seq, &call.call_id);
            if let Some(now) = self.told.calls.iter().find(is_same) {
                call.undone = now.undone;
            }
        }
        Ok(report)
    }
}
