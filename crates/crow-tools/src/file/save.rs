//! The last step of every tool that changes a file: save it, record its content as known, and report the change.

use std::path::Path;

use crow_core::{
    file_views::{ContentHash, FileView, FileViews},
    tool::{FileDiff, Patch, ToolContext, ToolError, ToolResult},
};
use serde_json::{Map, Value, json};

use super::{
    CurrentFile, LoadError, ViewFreshness, file_diff,
    store::{StoreError, store},
};
use crate::paths::{display_path, explain};

/// A saved change.
#[derive(Debug)]
pub(crate) struct SavedChange {
    /// Diff of the change.
    pub(crate) diff: FileDiff,
    /// Remarks for the model, one sentence each.
    pub(crate) remarks: Vec<String>,
    view: Option<FileView>,
}

/// Saves `content`. Afterwards the session knows the file if it knew it before or if the agent wrote all of it.
pub(crate) fn save(
    current: &CurrentFile,
    content: &[u8],
    seen: ViewFreshness,
    ctx: &ToolContext,
) -> Result<SavedChange, ToolError> {
    let path = current.path();
    let stored = store(current, content).map_err(|error| refusal(path, &error, ctx))?;
    ctx.file_views.record_written(&ctx.call_id, path, ContentHash::of_content(content));
    let mut remarks = Vec::new();
    if stored.other_links > 0 {
        remarks.push(format!(
            "It had {} other hard link(s), which keep the old content.",
            stored.other_links
        ));
    }
    let view = (seen == ViewFreshness::Current).then(|| record_written(path, content, ctx));
    Ok(SavedChange { diff: file_diff(path, current.bytes(), content), remarks, view })
}

/// Records that the agent itself wrote this content.
pub(crate) fn record_written(path: &Path, content: &[u8], ctx: &ToolContext) -> FileView {
    let view = FileView {
        path: path.to_owned(),
        hash: ContentHash::of_content(content),
        lines: None,
        call_id: ctx.call_id.clone(),
    };
    ctx.file_views.insert(view.clone());
    view
}

impl SavedChange {
    /// Makes the result of the call. `extra` is metadata that only this tool has.
    pub(crate) fn into_result(self, output: String, mut extra: Map<String, Value>) -> ToolResult {
        let mut result = ToolResult::success(output);
        if let Some(view) = self.view {
            extra.insert(FileViews::EXTRA_KEY.to_owned(), json!(view));
        }
        if !extra.is_empty() {
            result.metadata.extra = Value::Object(extra);
        }
        result.metadata.files_modified = vec![self.diff.path.clone()];
        result.metadata.diff = Some(Patch { files: vec![self.diff] });
        result
    }
}

/// Explains why a file was not loaded for a change.
pub(crate) fn load_error(path: &Path, error: &LoadError, ctx: &ToolContext) -> ToolError {
    let name = display_path(path, ctx);
    ToolError::Model(match error {
        LoadError::Missing => format!("{name} does not exist"),
        LoadError::Folder => format!("{name} is a folder; give the path of a file"),
        LoadError::Special(_) => format!("{name} {error} and is not written"),
        LoadError::TooLarge => format!("{name} {error}; change it with a command in bash"),
        LoadError::Io(error) => explain(&name, error),
    })
}

/// Explains why a file was not saved.
fn refusal(path: &Path, error: &StoreError, ctx: &ToolContext) -> ToolError {
    let name = display_path(path, ctx);
    ToolError::Model(match error {
        StoreError::Changed => {
            format!("{name} {error}, so nothing was written; read it again and repeat the call")
        }
        StoreError::Protected => format!(
            "{name} {error} (no write permission for anyone), so nothing was written; if it should be changed, make it writable with chmod first"
        ),
        StoreError::Linked(_) => format!(
            "{name} {error}, so nothing was written; write the new content to another file, or change it with a command in bash"
        ),
        StoreError::Damaged(_) => format!("{name} {error}; look at it with read_file"),
        StoreError::Io(error) => explain(&name, error),
    })
}
