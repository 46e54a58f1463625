//! What can be undone, what was, and what became of it.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use crow_core::{
    ids::{CallId, SessionId, SnapshotId, UndoId},
    tool::{ChangeCounts, FileChange},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A call that changed files, or may have; or what a background job that a call started changed later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedCall {
    /// The number of its start among the events of its root session.
    pub seq: u64,
    /// The number of the start of the call itself. Another one than `seq` if a background job of the call made these
    /// changes, after its end.
    pub started: u64,
    /// The session that it was made in: the root's or that of an agent below it.
    pub session_id: SessionId,
    /// The agent that made it.
    pub agent: String,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What it did, in one line.
    pub title: String,
    /// When it began.
    pub time: Timestamp,
    /// The turn of the root session in which it was made.
    pub turn: u32,
    /// The files before it.
    pub before: SnapshotId,
    /// The files after it. Nothing for a call that was cut off and of which nobody saw the end.
    pub after: Option<SnapshotId>,
    /// How much it changed.
    pub changes: ChangeCounts,
    /// The files that it changed, within bounds.
    pub files: Vec<PathBuf>,
    /// Others may have made some of the changes: they are undone by force alone.
    pub shared: bool,
    /// Nobody saw the end of the call.
    pub cut_off: bool,
    /// All that it changed is undone now.
    pub undone: bool,
}

impl ChangedCall {
    /// Returns what names it.
    pub(super) fn key(&self) -> CallKey {
        CallKey { seq: self.seq, call_id: self.call_id.clone() }
    }
}

/// Which calls to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoTarget {
    /// Those of the last turn that changed files and is not undone.
    LastTurn,
    /// This one: its id or the beginning of it.
    Call(String),
    /// Those of this turn.
    Turn(u32),
    /// Those of this turn and of all later ones: the files are as they were before it.
    BackTo(u32),
    /// All.
    ToStart,
}

/// How to undo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoOptions {
    /// Put back also what somebody changed since, after keeping a copy of it.
    pub force: bool,
    /// Change nothing, and say what would become of each path.
    pub dry_run: bool,
    /// Let the conversation go on from before the turns that are undone.
    pub chat: bool,
}

/// A point of a session, seen from its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestorePoint {
    /// Before the first call that changed something.
    Start,
    /// Before this call: its id or the beginning of it.
    BeforeCall(String),
    /// After this call: its id or the beginning of it.
    AfterCall(String),
    /// Before the first call of this turn.
    BeforeTurn(u32),
    /// After the last call of this turn.
    AfterTurn(u32),
    /// After the last call.
    End,
}

/// What was done to files of a session from outside of its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoAction {
    /// Changes of calls were undone.
    Undo,
    /// An undo was undone.
    Redo,
    /// A single path was put into a state that it had.
    Restore,
}

/// An undo, a redo or a restore, as the session remembers it: a line of its `undo.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// Its id.
    pub id: UndoId,
    /// When.
    pub time: Timestamp,
    /// What was done.
    pub action: UndoAction,
    /// The calls that are undone by it, or redone: what they changed at all paths, unless `exceptions` or `left` name one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallKey>,
    /// Of an undo: the paths at which it undid something else than all that `calls` had changed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<PathException>,
    /// Of a redo: the paths at which the undo stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "path_list")]
    pub left: Vec<PathBuf>,
    /// Where it kept what it overwrote by force: these files are its own work, not that of a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "path_list")]
    pub copies: Vec<PathBuf>,
    /// What the paths are to become. Only there until it is known what they became: if the process is killed before, the
    /// next undo finds it and says what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<SnapshotId>,
    /// The undo that was killed and that this one brings to its end: a redo takes both back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<UndoId>,
    /// The record that it takes back: for a redo the undo, for an undo the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<UndoId>,
    /// The paths before it.
    pub before: SnapshotId,
    /// The paths after it.
    pub after: SnapshotId,
    /// What the model is told, unless the conversation goes back, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// What the model is told if the conversation goes back: what stays although the conversation no longer tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// The last event that the conversation keeps, if it is to go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_kept: Option<u64>,
    /// The last event that there was before it. What was said since is not thrown away when the conversation goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<u64>,
}

/// What an undo undid at a path, where that is not all that its calls had changed there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathException {
    /// The path, absolute.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The calls whose changes of the path it undid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallKey>,
    /// The restores of the path that it undid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<UndoId>,
}

/// Names a call among those of all agents of a root session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The number of its start.
    pub seq: u64,
    /// The call.
    pub call_id: CallId,
}

/// What an undo, a redo or a restore did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReport {
    /// What was done.
    pub action: UndoAction,
    /// The calls, in the order in which they were made.
    pub calls: Vec<ChangedCall>,
    /// What became of each path, sorted.
    pub paths: Vec<RestoredPath>,
    /// The conversation goes on from before this turn.
    pub rewound_to: Option<u32>,
    /// The agent of the session runs in another process: it is told before it asks its model again.
    pub told_later: bool,
    /// Nothing was done: this is what would be.
    pub dry_run: bool,
}

impl UndoReport {
    /// Returns whether every path is as it was to be.
    pub fn is_complete(&self) -> bool {
        self.paths.iter().all(|path| {
            matches!(path.outcome, PathOutcome::Restored { .. } | PathOutcome::Unchanged)
        })
    }
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredPath {
    /// The path, absolute.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: PathOutcome,
}

impl RestoredPath {
    /// Returns where what was there before is kept, if it was put aside by force.
    pub(super) fn copy(&self) -> Option<&PathBuf> {
        match &self.outcome {
            PathOutcome::Restored { copy, .. } => copy.as_ref(),
            PathOutcome::Unchanged
            | PathOutcome::Conflict { .. }
            | PathOutcome::NotRestorable { .. }
            | PathOutcome::Failed { .. } => None,
        }
    }
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathOutcome {
    /// It is as wanted now.
    Restored {
        /// What that did to it.
        how: FileChange,
        /// Where what was there before is kept, if it was put aside by force.
        copy: Option<PathBuf>,
    },
    /// It was as wanted already.
    Unchanged,
    /// Somebody changed it since; it was left alone.
    Conflict {
        /// What stands in the way, in a few words.
        reason: String,
        /// Whether the same with force puts the path back.
        forcible: bool,
    },
    /// What should be there was never stored; it was left alone.
    NotRestorable {
        /// Why.
        reason: String,
    },
    /// It could not be put back.
    Failed {
        /// Why.
        error: String,
    },
}

/// A path as JSON: text, or its bytes where it is no text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&PathBuf> for StoredPath {
    fn from(path: &PathBuf) -> Self {
        let bytes = || Self::Bytes(path.as_os_str().as_bytes().to_vec());
        path.to_str().map_or_else(bytes, |text| Self::Text(text.to_owned()))
    }
}

impl From<StoredPath> for PathBuf {
    fn from(path: StoredPath) -> Self {
        match path {
            StoredPath::Text(text) => Self::from(text),
            StoredPath::Bytes(bytes) => Self::from(OsString::from_vec(bytes)),
        }
    }
}

mod path_text {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::StoredPath;

    pub(super) fn serialize<S: Serializer>(path: &PathBuf, to: S) -> Result<S::Ok, S::Error> {
        StoredPath::from(path).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        StoredPath::deserialize(from).map(PathBuf::from)
    }
}

mod path_list {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::StoredPath;

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(StoredPath::from))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<StoredPath>::deserialize(from)?;
        Ok(paths.into_iter().map(PathBuf::from).collect())
    }
}
