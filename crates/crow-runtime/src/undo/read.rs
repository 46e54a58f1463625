//! From the logs of a session and of those below it to the calls that changed files.

use std::collections::{BTreeMap, BTreeSet};

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::{CallId, SessionId, SnapshotId},
    tool::ToolResult,
};

use super::{ChangedCall, UndoRecord};
use crate::{SessionStore, StoredSession};

/// What the logs say.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// In the order in which they began.
    pub(super) calls: Vec<ChangedCall>,
    /// The turns that the conversation still has.
    pub(super) turns: Vec<Turn>,
    /// The number of the root's last event.
    pub(super) last_seq: u64,
}

/// A turn of the root session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) number: u32,
    /// The number of the event that began it.
    pub(super) seq: u64,
    /// The last event before everything that belongs to it.
    pub(super) last_before: u64,
}

/// The beginning of a call whose end was not read yet.
struct Begun<'a> {
    line: &'a Envelope,
    title: &'a str,
    snapshot: Option<&'a SnapshotId>,
}

impl Told {
    /// Reads the logs. What is undone of the calls is not told by them. `is_at_work` says that calls without an end are under way, not cut off. Blocks.
    pub(super) fn read(
        store: &dyn SessionStore,
        root: &StoredSession,
        records: &[UndoRecord],
        is_at_work: bool,
    ) -> Self {
        let last_seq = root.events.iter().filter_map(|line| line.seq).max().unwrap_or(0);
        let mut told = Self { turns: turns(&root.events, records), last_seq, ..Self::default() };
        let began: Vec<(u64, u32)> = turn_starts(&root.events);
        told.take(root, is_at_work);
        let mut known = BTreeSet::new();
        let mut open = root.metadata.child_session_ids.clone();
        while let Some(id) = open.pop() {
            if !known.insert(id.clone()) {
                continue;
            }
            match store.read(&id) {
                Ok(stored) => {
                    told.take(&stored, is_at_work);
                    open.extend(stored.metadata.child_session_ids);
                }
                // What it changed cannot be told; all else can.
                Err(error) => tracing::warn!(session = %id, %error, "a child session is left out"),
            }
        }
        told.calls.sort_by_key(|call| call.seq);
        for call in &mut told.calls {
            let before = began.partition_point(|(seq, _)| *seq < call.seq);
            call.turn = before.checked_sub(1).and_then(|at| began.get(at)).map_or(0, |turn| turn.1);
        }
        told
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only calls change files")]
    fn take(&mut self, session: &StoredSession, is_at_work: bool) {
        let mut begun: BTreeMap<&CallId, Begun<'_>> = BTreeMap::new();
        let mut ended: BTreeMap<&CallId, Begun<'_>> = BTreeMap::new();
        let id = &session.metadata.session_id;
        for line in &session.events {
            match &line.event {
                AgentEvent::CallStart { call_id, title, snapshot, .. } => {
                    begun.insert(call_id, Begun { line, title, snapshot: snapshot.as_ref() });
                }
                AgentEvent::CallEnd { call_id, result, .. } => {
                    let Some(begun) = begun.remove(call_id) else { continue };
                    self.calls.extend(begun.ended(id, call_id, result));
                    ended.insert(call_id, begun);
                }
                AgentEvent::JobChanges { call_id, .. } => {
                    let call = ended.get(call_id).and_then(|begun| begun.job(id, call_id, line));
                    self.calls.extend(call);
                }
                _ => {}
            }
        }
        if !is_at_work {
            self.calls
                .extend(begun.into_iter().filter_map(|(call, begun)| begun.cut_off(id, call)));
        }
    }
}

impl Begun<'_> {
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

    /// Tells what a job of the call changed after its end.
    fn job(&self, id: &SessionId, call_id: &CallId, line: &Envelope) -> Option<ChangedCall> {
        let AgentEvent::JobChanges { files, before, after, changes, shared, .. } = &line.event
        else {
            return None;
        };
        Some(ChangedCall {
            seq: line.seq?,
            title: format!("job: {}", self.title),
            time: line.time,
            after: Some(after.clone()),
            changes: *changes,
            files: files.clone(),
            shared: *shared,
            cut_off: false,
            ..self.call(id, call_id, before.clone())?
        })
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
fn turns(events: &[Envelope], records: &[UndoRecord]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut last_before = 0;
    let mut told = BTreeSet::new();
    for line in events {
        let seq = line.seq.unwrap_or(0);
        match &line.event {
            AgentEvent::RunStart { .. } => last_before = seq.saturating_sub(1),
            AgentEvent::TurnStart { turn } => turns.push(Turn { number: *turn, seq, last_before }),
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
