//! The JSON output of `undo`, `redo`, `restore`, `diff` and `sessions show --changes`. The documentation of the types
//! is the description in the JSON Schema.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::SessionId,
    tool::{ChangeCounts, FileChange, FileDiff, Patch},
};
use crow_runtime::{ChangedCall, PathOutcome, RestoredPath, UndoAction, UndoRecord, UndoReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::json::Version;
use crate::quoted_path::path_text;

/// What an undo, a redo or a restore did, or would do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UndoLine {
    v: Version,
    #[serde(rename = "type")]
    kind: UndoType,
    /// The session.
    session_id: SessionId,
    /// What was done.
    action: Action,
    /// Dry run: nothing was changed.
    dry_run: bool,
    /// Every path is in the wanted state. The exit code is 0 if so, else 1.
    complete: bool,
    /// The calls, in the order in which they were made.
    calls: Vec<CallChanges>,
    /// The outcome of each path, sorted.
    paths: Vec<PathReportLine>,
    /// Number of other paths that these calls changed, and that stay because they were not named.
    not_chosen: usize,
    /// The conversation was rewound to before this turn.
    rewound_to: Option<u32>,
    /// The agent of the session runs in another process: it is told before its next model call.
    told_later: bool,
}

/// A call that changed files.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallLine {
    v: Version,
    #[serde(rename = "type")]
    kind: CallType,
    #[serde(flatten)]
    call: CallChanges,
    /// How many of its changes cannot be undone, within bounds.
    not_restorable: usize,
}

/// An undo, a redo or a restore of the past.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecordLine {
    v: Version,
    #[serde(rename = "type")]
    kind: RecordType,
    /// Its id.
    id: String,
    /// When.
    time: Timestamp,
    /// What was done.
    action: Action,
    /// The calls that it undid or redid.
    calls: Vec<String>,
    /// The record that it reverses.
    reverses: Option<String>,
    /// The last event that the conversation keeps, if it went back.
    last_kept: Option<u64>,
}

/// What changed between two points of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffLine<'a> {
    v: Version,
    #[serde(rename = "type")]
    kind: DiffType,
    /// The session.
    session_id: &'a SessionId,
    /// The change of each file. A path that is not UTF-8 is in quotes, as git writes it: `"/p/na\377me.txt"`.
    files: Cow<'a, [FileDiff]>,
    /// Those of the files that git ignores.
    ignored: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UndoType {
    UndoReport,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CallType {
    CallChanges,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordType {
    UndoRecord,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DiffType {
    Diff,
}

/// What was done to files of a session from outside of its agents.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Changes of calls were undone.
    Undo,
    /// An undo was undone.
    Redo,
    /// A single path was restored to an earlier state.
    Restore,
}

/// What a call changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallChanges {
    /// The number of its start among the events of its root session.
    seq: u64,
    /// The turn of the root session in which it was made.
    turn: u32,
    /// The session that it was made in.
    call_session_id: SessionId,
    /// The agent that made it.
    agent: String,
    /// The call.
    call_id: String,
    /// The tool.
    tool: String,
    /// What it did, in one line.
    title: String,
    /// When it began.
    time: Timestamp,
    /// How much it changed.
    changes: ChangeCounts,
    /// The files that it changed, within bounds.
    files: Vec<String>,
    /// Others may have made some of the changes.
    shared: bool,
    /// It was cut off, so its last changes were not observed.
    cut_off: bool,
    /// It is undone now.
    undone: bool,
}

/// What became of a path.
#[derive(Debug, Serialize, JsonSchema)]
struct PathReportLine {
    /// The path, absolute. One that is not UTF-8 is in quotes, as git writes it: `"/p/na\377me.txt"`.
    path: String,
    /// How it changed.
    outcome: OutcomeWord,
    /// How the path changed, if it was restored.
    change: Option<FileChange>,
    /// Where the previous content is kept, if it was moved aside by force.
    copy: Option<String>,
    /// Why it was not restored.
    reason: Option<String>,
    /// Whether git ignores it.
    ignored: bool,
}

/// What became of a path.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    /// It is now in the wanted state.
    Restored,
    /// It was already as wanted.
    Unchanged,
    /// It was changed since; it was left alone.
    Conflict,
    /// The wanted content was never stored; it was left alone.
    NotRestorable,
    /// It could not be put back.
    Failed,
}

impl UndoLine {
    pub(crate) fn new(
        session_id: &SessionId,
        report: &UndoReport,
        ignored: &BTreeSet<PathBuf>,
    ) -> Self {
        Self {
            v: Version,
            kind: UndoType::UndoReport,
            session_id: session_id.clone(),
            action: report.action.into(),
            dry_run: report.dry_run,
            complete: report.is_complete(),
            calls: report.calls.iter().map(CallChanges::from).collect(),
            paths: report.paths.iter().map(|path| PathReportLine::new(path, ignored)).collect(),
            not_chosen: report.not_chosen,
            rewound_to: report.rewound_to,
            told_later: report.notified_later,
        }
    }
}

impl CallLine {
    pub(crate) fn new(call: &ChangedCall, not_restorable: usize) -> Self {
        Self { v: Version, kind: CallType::CallChanges, call: call.into(), not_restorable }
    }
}

impl RecordLine {
    pub(crate) fn new(record: &UndoRecord) -> Self {
        Self {
            v: Version,
            kind: RecordType::UndoRecord,
            id: record.id.to_string(),
            time: record.time,
            action: record.action.into(),
            calls: record.calls.iter().map(|call| call.call_id.to_string()).collect(),
            reverses: record.reverses.as_ref().map(ToString::to_string),
            last_kept: record.last_kept,
        }
    }
}

impl<'a> DiffLine<'a> {
    pub(crate) fn new(
        session_id: &'a SessionId,
        patch: &'a Patch,
        ignored: &BTreeSet<PathBuf>,
    ) -> Self {
        let is_text = |file: &FileDiff| file.path.to_str().is_some();
        let as_text = |file: &FileDiff| FileDiff { path: text(&file.path).into(), ..file.clone() };
        let files = if patch.files.iter().all(is_text) {
            Cow::Borrowed(patch.files.as_slice())
        } else {
            Cow::Owned(patch.files.iter().map(as_text).collect())
        };
        let ignored = ignored.iter().map(|path| text(path)).collect();
        Self { v: Version, kind: DiffType::Diff, session_id, files, ignored }
    }
}

impl From<&ChangedCall> for CallChanges {
    fn from(call: &ChangedCall) -> Self {
        Self {
            seq: call.seq,
            turn: call.turn,
            call_session_id: call.session_id.clone(),
            agent: call.agent.clone(),
            call_id: call.call_id.to_string(),
            tool: call.tool.clone(),
            title: call.title.clone(),
            time: call.time,
            changes: call.changes,
            files: call.files.iter().map(|path| text(path)).collect(),
            shared: call.shared,
            cut_off: call.cut_off,
            undone: call.undone,
        }
    }
}

impl PathReportLine {
    fn new(restored: &RestoredPath, ignored: &BTreeSet<PathBuf>) -> Self {
        let (outcome, change, copy, reason) = match &restored.outcome {
            PathOutcome::Restored { how, copy } => {
                (OutcomeWord::Restored, Some(*how), copy.as_deref().map(text), None)
            }
            PathOutcome::Unchanged => (OutcomeWord::Unchanged, None, None, None),
            PathOutcome::Conflict { reason, .. } => {
                (OutcomeWord::Conflict, None, None, Some(reason))
            }
            PathOutcome::NotRestorable { reason } => {
                (OutcomeWord::NotRestorable, None, None, Some(reason))
            }
            PathOutcome::Failed { error } => (OutcomeWord::Failed, None, None, Some(error)),
        };
        let reason = reason.cloned();
        let ignored = ignored.contains(&restored.path);
        Self { path: text(&restored.path), outcome, change, copy, reason, ignored }
    }
}

impl From<UndoAction> for Action {
    fn from(action: UndoAction) -> Self {
        match action {
            UndoAction::Undo => Self::Undo,
            UndoAction::Redo => Self::Redo,
            UndoAction::Restore => Self::Restore,
        }
    }
}

/// Returns a path as text: JSON is UTF-8, file names need not be.
fn text(path: &Path) -> String {
    path_text(path).into_owned()
}

#[cfg(test)]
mod tests {
    use crow_core::ids::{CallId, SnapshotId, UndoId};
    use crow_runtime::CallKey;
    use serde_json::Value;

    use super::*;
    use crate::output::{output_line, schema, tests::faults};

    fn call() -> ChangedCall {
        ChangedCall {
            seq: 7,
            started: 7,
            session_id: SessionId::new("child"),
            agent: "explorer".into(),
            call_id: CallId::new("c1"),
            tool: "bash".into(),
            title: "make \u{9b}2J".into(),
            time: Timestamp::UNIX_EPOCH,
            turn: 2,
            before: SnapshotId::new("before"),
            after: None,
            changes: ChangeCounts::default(),
            files: vec!["/p/a".into()],
            shared: true,
            cut_off: false,
            undone: true,
        }
    }

    fn report() -> UndoReport {
        let outcomes = [
            PathOutcome::Restored { how: FileChange::Created, copy: Some("/p/a.kept".into()) },
            PathOutcome::Restored { how: FileChange::Modified, copy: None },
            PathOutcome::Unchanged,
            PathOutcome::Conflict { reason: "changed since".into(), forcible: true },
            PathOutcome::NotRestorable { reason: "too large".into() },
            PathOutcome::Failed { error: "full".into() },
        ];
        UndoReport {
            action: UndoAction::Undo,
            calls: vec![call()],
            paths: outcomes.map(|outcome| RestoredPath { path: "/p/a".into(), outcome }).to_vec(),
            not_chosen: 3,
            rewound_to: Some(2),
            notified_later: true,
            dry_run: false,
        }
    }

    fn record() -> UndoRecord {
        UndoRecord {
            id: UndoId::new("u1"),
            time: Timestamp::UNIX_EPOCH,
            action: UndoAction::Redo,
            calls: vec![CallKey { seq: 7, call_id: CallId::new("c1") }],
            reverses: Some(UndoId::new("u0")),
            before: SnapshotId::new("before"),
            after: SnapshotId::new("after"),
            notice: None,
            last_kept: None,
            last_seen: None,
            exceptions: Vec::new(),
            left: Vec::new(),
            copies: Vec::new(),
            intent: None,
            continues: None,
            stays: None,
        }
    }

    fn lines() -> [Vec<u8>; 4] {
        let (id, patch) = (SessionId::new("s"), crate::output::tests::sample_patch());
        [
            output_line(&UndoLine::new(&id, &report(), &BTreeSet::new())),
            output_line(&CallLine::new(&call(), 2)),
            output_line(&RecordLine::new(&record())),
            output_line(&DiffLine::new(&id, &patch, &["/p/a".into()].into())),
        ]
        .map(Result::unwrap)
    }

    #[test]
    fn every_line_conforms_to_the_schema_without_control_characters() {
        let schema = schema();
        for line in lines() {
            let text = String::from_utf8(line).unwrap();
            assert!(!text.trim_end().chars().any(char::is_control), "{text}");
            let line: Value = serde_json::from_str(&text).unwrap();
            let violations = faults(&schema, &schema, &line);
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }

    #[test]
    fn a_report_tells_all_that_there_is() {
        let line: Value = serde_json::from_slice(&lines()[0]).unwrap();
        insta::assert_json_snapshot!(line);
    }
}
