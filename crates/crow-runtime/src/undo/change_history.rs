//! From the logs of a session and of those below it to the calls that changed files.

use std::collections::{BTreeMap, BTreeSet};

use crow_core::{
    capability::JobInfo,
    event::{AgentEvent, Envelope},
    ids::{CallId, SessionId, SnapshotId},
    tool::{ToolMetadata, ToolResult},
};

use super::{CallKey, ChangedCall, UndoRecord};
use crate::session::{SessionStore, StoredSession};
use crow_snapshot::is_of_project;

/// What the logs say.
#[derive(Debug, Default)]
pub(super) struct ChangeHistory {
    /// In the order in which they began.
    pub(super) calls: Vec<ChangedCall>,
    /// The calls that started background jobs, as if those had changed nothing.
    pub(super) job_starts: Vec<ChangedCall>,
    /// What a job changed that was killed with its process, if the logs do not tell it. It is one of the calls.
    pub(super) killed_job: Option<CallKey>,
    /// The last look at all files at the end of a call, and the number of that event.
    pub(super) last_look: Option<(u64, SnapshotId)>,
    /// The turns that the conversation still has.
    pub(super) turns: Vec<TurnBoundary>,
    /// The number of the root's last event.
    pub(super) last_seq: u64,
    /// Where each turn of the root began that there ever was.
    turn_starts: Vec<(u64, u32)>,
}

/// A turn of the root session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnBoundary {
    pub(super) number: u32,
    /// The number of the event that began it.
    pub(super) seq: u64,
    /// The last event before everything that belongs to it.
    pub(super) last_before: u64,
}

/// The beginning of a call whose end was not read yet.
struct StartedCall<'a> {
    line: &'a Envelope,
    title: &'a str,
    snapshot: Option<&'a SnapshotId>,
}

impl ChangeHistory {
    /// Reads the logs. What is undone of the calls is not told by them. `is_at_work` says that calls without an end are under way, not cut off. Blocks.
    pub(super) fn read(
        store: &dyn SessionStore,
        root: &StoredSession,
        records: &[UndoRecord],
        is_at_work: bool,
    ) -> Self {
        let last_seq = root.events.iter().filter_map(|line| line.seq).max().unwrap_or(0);
        let mut told = Self { turns: turns(&root.events, records), last_seq, ..Self::default() };
        told.turn_starts = turn_starts(&root.events);
        let mut job_changes = told.take(root, is_at_work);
        let mut known = BTreeSet::new();
        let mut open = root.metadata.child_session_ids.clone();
        while let Some(id) = open.pop() {
            if !known.insert(id.clone()) {
                continue;
            }
            match store.read(&id) {
                Ok(stored) => {
                    job_changes.extend(told.take(&stored, is_at_work));
                    open.extend(stored.metadata.child_session_ids);
                }
                // What it changed cannot be told; all else can.
                Err(error) => tracing::warn!(session = %id, %error, "a child session is left out"),
            }
        }
        for (id, line) in job_changes {
            let changed = told.job_changes(&id, &line);
            told.calls.extend(changed);
        }
        told.sort();
        told
    }

    /// Adds a change that the logs do not tell of.
    pub(super) fn add(&mut self, call: ChangedCall) {
        self.calls.push(call);
        self.sort();
    }

    fn sort(&mut self) {
        self.calls.sort_by_key(|call| call.seq);
        let starts = &self.turn_starts;
        for call in &mut self.calls {
            let before = starts.partition_point(|(seq, _)| *seq < call.seq);
            call.turn =
                before.checked_sub(1).and_then(|at| starts.get(at)).map_or(0, |turn| turn.1);
        }
    }

    /// Returns what a job changed after the end of the call that started it. A job that ended with a process that was killed
    /// is told of by the root, in whatever session it was started.
    fn job_changes(&self, id: &SessionId, line: &Envelope) -> Option<ChangedCall> {
        let AgentEvent::JobChanges { call_id, files, before, after, changes, shared, cut_off } =
            &line.event
        else {
            return None;
        };
        let of_call = |start: &&ChangedCall| start.call_id == *call_id;
        let own = self.job_starts.iter().filter(of_call).find(|start| start.session_id == *id);
        let start = own.or_else(|| self.job_starts.iter().find(of_call))?.clone();
        Some(ChangedCall {
            seq: line.seq?,
            time: line.time,
            before: before.clone(),
            after: Some(after.clone()),
            changes: *changes,
            files: files.clone(),
            shared: *shared,
            cut_off: *cut_off,
            ..start
        })
    }

    /// Takes the calls of a session, and returns the lines about its jobs.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only calls change files")]
    fn take(&mut self, session: &StoredSession, is_at_work: bool) -> Vec<(SessionId, Envelope)> {
        let mut begun: BTreeMap<&CallId, StartedCall<'_>> = BTreeMap::new();
        let mut job_changes = Vec::new();
        let id = &session.metadata.session_id;
        for line in &session.events {
            match &line.event {
                AgentEvent::CallStart { call_id, title, snapshot, .. } => {
                    begun.insert(call_id, StartedCall { line, title, snapshot: snapshot.as_ref() });
                }
                AgentEvent::CallEnd { call_id, result, .. } => {
                    let Some(begun) = begun.remove(call_id) else { continue };
                    self.calls.extend(begun.ended(id, call_id, result));
                    self.job_starts.extend(begun.job_start(id, call_id, result));
                    self.saw(line.seq, &result.metadata);
                }
                AgentEvent::JobChanges { .. } => job_changes.push((id.clone(), line.clone())),
                _ => {}
            }
        }
        if !is_at_work {
            self.calls
                .extend(begun.into_iter().filter_map(|(call, begun)| begun.cut_off(id, call)));
        }
        job_changes
    }

    fn saw(&mut self, seq: Option<u64>, metadata: &ToolMetadata) {
        let Some((seq, after)) = seq.zip(metadata.snapshot_after.as_ref()) else { return };
        if is_of_project(after) && self.last_look.as_ref().is_none_or(|(last, _)| *last < seq) {
            self.last_look = Some((seq, after.clone()));
        }
    }
}

impl StartedCall<'_> {
    fn ended(&self, id: &SessionId, call_id: &CallId, result: &ToolResult) -> Option<ChangedCall> {
        let metadata = &result.metadata;
        let before = metadata.snapshot_before.clone()?;
        if metadata.snapshot_after.as_ref() == Some(&before) {
            return None;
        }
        Some(ChangedCall {
            after: metadata.snapshot_after.clone(),
            changes: metadata.changes.unwrap_or_default(),
            files: metadata.files_modified.clone(),
            shared: metadata.shared,
            cut_off: metadata.cut_off,
            ..self.call(id, call_id, before)?
        })
    }

    /// Returns the job that a call started, if it did.
    fn job_start(
        &self,
        id: &SessionId,
        call_id: &CallId,
        result: &ToolResult,
    ) -> Option<ChangedCall> {
        let metadata = &result.metadata;
        metadata.extra.get(JobInfo::EXTRA_KEY)?;
        if metadata.extra.get(JobInfo::RUNNING_KEY).is_some() {
            return None;
        }
        let before = metadata.snapshot_after.clone()?;
        let title = format!("job: {}", self.title);
        Some(ChangedCall { title, ..self.call(id, call_id, before)? })
    }

    fn cut_off(self, id: &SessionId, call_id: &CallId) -> Option<ChangedCall> {
        let before = self.snapshot?.clone();
        self.call(id, call_id, before)
    }

    fn call(&self, id: &SessionId, call_id: &CallId, before: SnapshotId) -> Option<ChangedCall> {
        let AgentEvent::CallStart { tool, .. } = &self.line.event else { return None };
        Some(ChangedCall {
            seq: self.line.seq?,
            started: self.line.seq?,
            session_id: id.clone(),
            agent: self.line.agent.clone(),
            call_id: call_id.clone(),
            tool: tool.clone(),
            title: self.title.to_owned(),
            time: self.line.time,
            turn: 0,
            before,
            after: None,
            changes: crow_core::tool::ChangeCounts::default(),
            files: Vec::new(),
            shared: true,
            cut_off: true,
            undone: false,
        })
    }
}

/// Returns the snapshots that a log and its undos refer to.
#[expect(clippy::wildcard_enum_match_arm, reason = "only calls and jobs refer to snapshots")]
pub(crate) fn snapshots_of(events: &[Envelope], records: &[UndoRecord]) -> Vec<SnapshotId> {
    let mut found = BTreeSet::new();
    for line in events {
        match &line.event {
            AgentEvent::CallStart { snapshot, .. } => found.extend(snapshot.clone()),
            AgentEvent::CallEnd { result, .. } => {
                found.extend(result.metadata.snapshot_before.clone());
                found.extend(result.metadata.snapshot_after.clone());
            }
            AgentEvent::JobChanges { before, after, .. } => {
                found.extend([before.clone(), after.clone()]);
            }
            _ => {}
        }
    }
    for record in records {
        found.extend([record.before.clone(), record.after.clone()]);
        found.extend(record.intent.clone());
    }
    found.into_iter().collect()
}

/// Returns where each turn began that there ever was.
fn turn_starts(events: &[Envelope]) -> Vec<(u64, u32)> {
    let start = |line: &Envelope| {
        let AgentEvent::TurnStart { turn } = line.event else { return None };
        Some((line.seq?, turn))
    };
    events.iter().filter_map(start).collect()
}

/// Returns the turns that the conversation still has, also after the rewinds of which the log does not tell yet.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these shape the turns")]
fn turns(events: &[Envelope], records: &[UndoRecord]) -> Vec<TurnBoundary> {
    let mut turns: Vec<TurnBoundary> = Vec::new();
    let mut last_before = 0;
    let mut told = BTreeSet::new();
    for line in events {
        let seq = line.seq.unwrap_or(0);
        match &line.event {
            AgentEvent::RunStart { .. } => last_before = seq.saturating_sub(1),
            AgentEvent::TurnStart { turn } => {
                turns.push(TurnBoundary { number: *turn, seq, last_before });
            }
            AgentEvent::TurnComplete { .. } => last_before = seq,
            AgentEvent::Rewind { undo_id, last_kept } => {
                told.insert(undo_id);
                turns.retain(|turn| turn.seq <= *last_kept);
            }
            _ => {}
        }
    }
    for record in records.iter().filter(|record| !told.contains(&record.id)) {
        if let Some(last_kept) = record.last_kept {
            turns.retain(|turn| turn.seq <= last_kept);
        }
    }
    turns
}
