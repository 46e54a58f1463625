//! Extracts the calls that changed files from the logs of a session tree.
//!
//! The logs of the root and its descendants are read once. A call with differing snapshots before and after it becomes
//! a [`ChangedCall`], as does every change of a background job (with the identity of the call that started the job) and
//! every call that was cut off. The calls are ordered by event number, which also determines their turn of the root.

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

/// The changes recorded in the logs of a session tree.
#[derive(Debug, Default)]
pub(super) struct ChangeHistory {
    /// The changing calls, ordered by `seq`.
    pub(super) calls: Vec<ChangedCall>,
    /// The calls that started background jobs, without changes. Templates for the job changes.
    pub(super) job_starts: Vec<ChangedCall>,
    /// The entry of `calls` for the changes of a job killed with its process, if the logs do not contain them.
    pub(super) killed_job: Option<CallKey>,
    /// The event number and the snapshot of the last full scan at the end of a call.
    pub(super) last_scan: Option<(u64, SnapshotId)>,
    /// The turns that are still part of the conversation.
    pub(super) turns: Vec<TurnBoundary>,
    /// The number of the root's last event.
    pub(super) last_seq: u64,
    /// Event number and turn number of each turn of the root, including rewound ones.
    turn_starts: Vec<(u64, u32)>,
}

/// A turn of the root session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnBoundary {
    pub(super) number: u32,
    /// The number of its first event.
    pub(super) seq: u64,
    /// The number of the last event before everything that belongs to the turn.
    pub(super) last_before: u64,
}

/// A call whose end was not read yet.
struct StartedCall<'a> {
    line: &'a Envelope,
    title: &'a str,
    snapshot: Option<&'a SnapshotId>,
}

impl ChangeHistory {
    /// Reads the logs of the root and its descendants. Does not set [`ChangedCall::undone`]. If `is_at_work`, calls
    /// without an end count as running, otherwise as cut off. Blocks.
    pub(super) fn read(
        store: &dyn SessionStore,
        root: &StoredSession,
        records: &[UndoRecord],
        is_at_work: bool,
    ) -> Self {
        let last_seq = root.events.iter().filter_map(|line| line.seq).max().unwrap_or(0);
        let mut history = Self { turns: turns(&root.events, records), last_seq, ..Self::default() };
        history.turn_starts = turn_starts(&root.events);
        let mut job_changes = history.take(root, is_at_work);
        let mut visited = BTreeSet::new();
        let mut pending = root.metadata.child_session_ids.clone();
        while let Some(id) = pending.pop() {
            if !visited.insert(id.clone()) {
                continue;
            }
            match store.read(&id) {
                Ok(stored) => {
                    job_changes.extend(history.take(&stored, is_at_work));
                    pending.extend(stored.metadata.child_session_ids);
                }
                // Only its own changes are missing then.
                Err(error) => tracing::warn!(session = %id, %error, "a child session is left out"),
            }
        }
        // Job changes come last, since they refer to the starts of jobs in any session.
        for (id, line) in job_changes {
            let changed = history.job_changes(&id, &line);
            history.calls.extend(changed);
        }
        history.sort();
        history
    }

    /// Adds a change that is not in the logs.
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

    /// Converts a job change after the end of the call that started the job. Changes of a job killed with its process
    /// are in the root's log, whichever session started it.
    fn job_changes(&self, id: &SessionId, line: &Envelope) -> Option<ChangedCall> {
        let AgentEvent::JobChanges { call_id, files, before, after, changes, shared, cut_off } =
            &line.event
        else {
            return None;
        };
        let of_call = |start: &&ChangedCall| start.call_id == *call_id;
        // Prefers the start in the same session; call ids may repeat between sessions.
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

    /// Adds the calls of a session, and returns the events about its jobs.
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
                    self.note_scan(line.seq, &result.metadata);
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

    fn note_scan(&mut self, seq: Option<u64>, metadata: &ToolMetadata) {
        let Some((seq, after)) = seq.zip(metadata.snapshot_after.as_ref()) else { return };
        if is_of_project(after) && self.last_scan.as_ref().is_none_or(|(last, _)| *last < seq) {
            self.last_scan = Some((seq, after.clone()));
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

    /// Returns the template for the changes of the job that a call started, if it started one that still ran at its
    /// end.
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

/// Returns the ids of the snapshots that a log and its undo records refer to.
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

/// Returns event number and turn number of each turn, including rewound ones.
fn turn_starts(events: &[Envelope]) -> Vec<(u64, u32)> {
    let start = |line: &Envelope| {
        let AgentEvent::TurnStart { turn } = line.event else { return None };
        Some((line.seq?, turn))
    };
    events.iter().filter_map(start).collect()
}

/// Returns the turns that are still part of the conversation, with the rewinds of undo records that the log does not
/// contain yet applied.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these shape the turns")]
fn turns(events: &[Envelope], records: &[UndoRecord]) -> Vec<TurnBoundary> {
    let mut turns: Vec<TurnBoundary> = Vec::new();
    let mut last_before = 0;
    let mut rewound = BTreeSet::new();
    for line in events {
        let seq = line.seq.unwrap_or(0);
        match &line.event {
            AgentEvent::RunStart { .. } => last_before = seq.saturating_sub(1),
            AgentEvent::TurnStart { turn } => {
                turns.push(TurnBoundary { number: *turn, seq, last_before });
            }
            AgentEvent::TurnComplete { .. } => last_before = seq,
            AgentEvent::Rewind { undo_id, last_kept } => {
                rewound.insert(undo_id);
                turns.retain(|turn| turn.seq <= *last_kept);
            }
            _ => {}
        }
    }
    for record in records.iter().filter(|record| !rewound.contains(&record.id)) {
        if let Some(last_kept) = record.last_kept {
            turns.retain(|turn| turn.seq <= last_kept);
        }
    }
    turns
}
