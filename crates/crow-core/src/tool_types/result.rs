//! Results of calls.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Patch;
use crate::{ids::SnapshotId, message::Image};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what was asked.
    Success,
    /// It did not.
    Error,
    /// It was stopped before its end. It may have had effects.
    Cancelled,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// How it ended.
    pub status: ToolStatus,
    /// The text for the model.
    pub output: String,
    /// Why it failed, in one line for people. The model reads `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Pictures for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Metadata of the call beside its output.
    #[serde(default)]
    pub metadata: ToolMetadata,
}

impl ToolResult {
    /// Makes a successful result.
    pub fn success(output: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::Success, output.into(), None)
    }

    /// Makes a failed result. The model reads `message`; its first line is the error for people, joined with the next
    /// one if it ends with a colon and so is not meaningful alone.
    pub fn failure(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let error = match lines.next() {
            Some(next) if first.ends_with(':') => format!("{first} {}", next.trim_start()),
            Some(_) | None => first.to_owned(),
        };
        Self::with_status(ToolStatus::Error, message, Some(error))
    }

    /// Makes the result of a cancelled call.
    pub fn cancelled() -> Self {
        let note =
            "The call was cancelled before it finished. What it did until then was not undone.";
        Self::with_status(ToolStatus::Cancelled, note.to_owned(), None)
    }

    fn with_status(status: ToolStatus, output: String, error: Option<String>) -> Self {
        Self { status, output, error, images: Vec::new(), metadata: ToolMetadata::default() }
    }

    /// Returns true unless the call succeeded.
    pub fn is_error(&self) -> bool {
        self.status != ToolStatus::Success
    }
}

impl From<String> for ToolResult {
    fn from(output: String) -> Self {
        Self::success(output)
    }
}

/// Metadata of a call beside its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolMetadata {
    /// Files that the call created, changed or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<PathBuf>,
    /// The state of the files before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_before: Option<SnapshotId>,
    /// The state of the files after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_after: Option<SnapshotId>,
    /// The change, within bounds: not every file and not every line may be in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Patch>,
    /// How much changed, beyond the bounds of `files_modified` and `diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
    /// What changed and cannot be undone, within bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restorable: Vec<NotRestorable>,
    /// Others may have made some of the changes: another process worked in the same folder meanwhile, or the call was cut
    /// off. An undo takes them for conflicts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The end of the call was not observed: changes until the session was resumed may be its own or those of others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// How long the call took.
    #[serde(default)]
    pub duration_ms: u64,
    /// Metadata of this tool only.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

/// How much a call changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeCounts {
    /// Files, links and folders that are new.
    pub created: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Those that were changed.
    pub modified: u64,
    /// Lines that were added, as far as they were compared.
    pub additions: u64,
    /// Lines that were deleted, as far as they were compared.
    pub deletions: u64,
}

impl ChangeCounts {
    /// Returns the number of paths that changed.
    pub fn paths(&self) -> u64 {
        self.created + self.deleted + self.modified
    }
}

/// A path whose change cannot be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRestorable {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}
