//! Records of undone changes: the lines of `undo.jsonl`.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use crow_core::ids::{CallId, SnapshotId, UndoId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The kind of an operation on the files of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoAction {
    /// Undo of changes of calls.
    Undo,
    /// Undo of an undo.
    Redo,
    /// Restore of a path to an earlier state.
    Restore,
}

/// The record of an undo, redo or restore: a line of `undo.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// The id of the record.
    pub id: UndoId,
    /// Time of the operation.
    pub time: Timestamp,
    /// Kind of the operation.
    pub action: UndoAction,
    /// The calls that are undone or redone, with all their changes except at the paths in `exceptions` or `left`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallKey>,
    /// For an undo: paths at which something other than all changes of `calls` was undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<PathException>,
    /// For a redo: paths at which the undo remains in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "path_list")]
    pub left: Vec<PathBuf>,
    /// Copies of content overwritten by force. These files were created by this operation and not by a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "path_list")]
    pub copies: Vec<PathBuf>,
    /// The intended states of the paths. Only present until the result is known: if the process is killed before, the
    /// next undo finds it and completes the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<SnapshotId>,
    /// The killed undo that this one completes: a redo reverts both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<UndoId>,
    /// The record that is reverted: for a redo the undo, for an undo the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<UndoId>,
    /// Snapshot of the paths before the operation.
    pub before: SnapshotId,
    /// Snapshot of the paths after the operation.
    pub after: SnapshotId,
    /// Notice for the model if the conversation is not rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Notice for the model if the conversation is rewound: the changes that remain although they are no longer in the
    /// conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Number of the last event that stays in the conversation, if it is to be rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_kept: Option<u64>,
    /// Number of the last event before the operation. A conversation with later user input is not rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<u64>,
}

/// A path at which an undo did not undo exactly all changes of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathException {
    /// The path, absolute.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The calls whose changes of the path were undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallKey>,
    /// The restores of the path that were undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<UndoId>,
}

/// Identifies a call among those of all agents of a root session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// Number of its first event.
    pub seq: u64,
    /// The id of the call.
    pub call_id: CallId,
}

/// A path as JSON: a string, or its bytes if it is not valid UTF-8.
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
