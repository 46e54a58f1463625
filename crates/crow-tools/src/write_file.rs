//! `write_file`: writes an entire file, new or in place of one that the session knows.

use async_trait::async_trait;
use crow_core::{
    file_views::{ContentHash, FileView, FileViews},
    permission::Disclosure,
    tool::{
        Access, CallPlan, Patch, Preview, ToolCategory, ToolContext, ToolError, ToolResult,
        TypedTool,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::{
    blocking::{blocking, blocking_until_cancelled},
    file::{
        CurrentFile, DecodedText, SavedChange, ViewFreshness, file_diff, load_error, lock,
        record_written, save,
    },
    paths::{self, AllowedPath, display_path},
    read_file::FileHead,
};

/// Writes entire files.
#[derive(Debug)]
pub(crate) struct WriteFile;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFileInput {
    // Absolute, or relative to the working directory, which a model knows from `read_file`.
    #[serde(alias = "file_path", alias = "filePath", alias = "filename", alias = "file")]
    path: String,
    /// The complete content.
    #[serde(alias = "contents", alias = "text", alias = "file_text", alias = "code")]
    content: String,
}

#[async_trait]
impl TypedTool for WriteFile {
    type Input = WriteFileInput;
    const NAME: &'static str = "write_file";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Creates a file with its folders, or replaces one that you have read and that is unchanged since."
    }

    async fn plan(&self, input: &WriteFileInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        paths::plan("write", &input.path, Access::Write, ctx).await
    }

    async fn preview(
        &self,
        input: &WriteFileInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let path = paths::resolve_planned(&input.path, plan, ctx).await?;
        let (content, session) = (input.content.clone(), ctx.clone());
        let work = move || WriteDraft::new(&path, content, &session);
        let draft = blocking_until_cancelled(ctx, work).await??;
        let path = draft.current.path();
        Ok(Some(Preview {
            patch: Patch { files: vec![file_diff(path, draft.current.bytes(), &draft.content)] },
            basis: vec![(path.to_owned(), draft.current.hash().cloned())],
        }))
    }

    async fn execute(
        &self,
        input: WriteFileInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        write_planned(input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn write_planned(
    input: WriteFileInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let path = paths::resolve_planned(&input.path, plan, ctx).await?;
    let locked = ctx.cancellation.run_until_cancelled(lock(&path)).await;
    let guard = locked.ok_or(ToolError::Cancelled)?;
    let session = ctx.clone();
    // The work owns the guard: the write continues even if this future is dropped.
    let work = move || {
        let _guard = guard;
        write(&path, input.content, &session)
    };
    blocking(work).await?
}

fn write(path: &AllowedPath, content: String, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
    if ctx.should_abort() {
        return Err(ToolError::Cancelled);
    }
    let draft = WriteDraft::new(path, content, ctx)?;
    let name = display_path(path, ctx);
    if !draft.current.was_previewed(ctx.preview.as_ref()) {
        return Err(ToolError::Model(format!(
            "{name} was changed after this call was allowed, so nothing was written; read it again and repeat the call"
        )));
    }
    let (output, change) = draft.save(ctx)?;
    if let Some(change) = change {
        return Ok(change.into_result(output, Map::new()));
    }
    let mut result = ToolResult::success(output);
    result.metadata.extra =
        json!({ FileViews::EXTRA_KEY: record_written(path, &draft.content, ctx) });
    Ok(result)
}

/// A content to write that is not saved yet.
pub(crate) struct WriteDraft {
    pub(crate) current: CurrentFile,
    pub(crate) content: Vec<u8>,
    remarks: Vec<String>,
}

impl WriteDraft {
    /// Determines the content to write. Fails if the file may not be overwritten.
    pub(crate) fn new(
        path: &AllowedPath,
        content: String,
        ctx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let current = CurrentFile::load(path, &ctx.file_views)
            .map_err(|error| load_error(path, &error, ctx))?;
        let mut remarks = Vec::new();
        let content = in_form_of(&current, content, &mut remarks);
        if current.bytes() != content {
            refuse_unknown(&current, "overwritten", ctx)?;
        }
        Ok(Self { current, content, remarks })
    }

    /// Saves the content, unless the file has it already. Returns a report and the change.
    pub(crate) fn save(
        &self,
        ctx: &ToolContext,
    ) -> Result<(String, Option<SavedChange>), ToolError> {
        let name = display_path(self.current.path(), ctx);
        if self.current.is_present() && self.current.bytes() == self.content {
            let report = format!("{name} already has exactly this content; nothing was written.");
            return Ok((report, None));
        }
        let change = save(&self.current, &self.content, ViewFreshness::Current, None, ctx)?;
        let report = if self.current.is_present() {
            format!("Wrote {name}: +{} -{} lines.", change.diff.additions, change.diff.deletions)
        } else {
            format!("Created {name}: {} lines.", change.diff.additions)
        };
        let report = [&[report], self.remarks.as_slice(), &change.remarks].concat().join(" ");
        Ok((report, Some(change)))
    }
}

/// Most lines and bytes of an unknown file that a refusal shows.
const SHOWN_LINES: u64 = 40;
const SHOWN_BYTES: usize = 8 * 1024;

/// Refuses to overwrite or delete a file whose content the session does not know. `done` is what would happen to it.
///
/// If the model may read the file, the refusal shows its first lines. If these are all, the file counts as read.
pub(crate) fn refuse_unknown(
    current: &CurrentFile,
    done: &str,
    ctx: &ToolContext,
) -> Result<(), ToolError> {
    let name = display_path(current.path(), ctx);
    if current.bytes().is_empty() {
        return Ok(());
    }
    let (reason, advice) = match current.freshness(&ctx.file_views) {
        ViewFreshness::Current => return Ok(()),
        ViewFreshness::Never => (
            format!("{name} exists and was not read in this session, so it was not {done}"),
            "read it with read_file first, or change only parts of it",
        ),
        ViewFreshness::Stale => (
            format!(
                "{name} was changed by something else since you last saw it, so it was not {done}"
            ),
            "read it again first",
        ),
    };
    // Well within the limit of an output, so that it is not cut again.
    let bytes = SHOWN_BYTES.min(ctx.model.output_limit() / 2);
    let head = DecodedText::decode(current.bytes())
        .filter(|_| ctx.disclosure == Disclosure::Immediate)
        .map(|text| FileHead::of_text(&text, SHOWN_LINES, bytes))
        .filter(|head| head.shown > 0);
    Err(ToolError::Model(match head {
        None => format!("{reason}; {advice}"),
        Some(FileHead { text, shown, total }) if shown == total => {
            record_seen(current, total, ctx);
            format!(
                "{reason}. This is all of it; make the call again if that is what you want:\n{text}"
            )
        }
        Some(FileHead { text, shown, total }) => {
            format!("{reason}; {advice}. Lines 1-{shown} of {total}:\n{text}")
        }
    }))
}

/// Records that a refusal showed the whole file.
fn record_seen(current: &CurrentFile, total: u64, ctx: &ToolContext) {
    ctx.file_views.insert(FileView {
        path: current.path().to_owned(),
        hash: ContentHash::of_content(current.bytes()),
        lines: Some((1, total)),
        call_id: ctx.call_id.clone(),
    });
}

/// Gives new text the encoding and line ends of the file. Models write UTF-8 with line feeds.
fn in_form_of(current: &CurrentFile, content: String, remarks: &mut Vec<String>) -> Vec<u8> {
    let Some(old) = DecodedText::decode(current.bytes()).filter(|_| !current.bytes().is_empty())
    else {
        return content.into_bytes();
    };
    let content = if old.is_crlf() && !content.contains('\r') {
        remarks.push("Its CRLF line ends were kept.".to_owned());
        content.replace('\n', "\r\n")
    } else {
        content
    };
    let bare = content.strip_prefix('\u{feff}').unwrap_or(&content);
    match (old.encoding.encode(bare), old.encoding.label()) {
        (Some(bytes), None) => bytes,
        (Some(bytes), Some(label)) => {
            remarks.push(format!("Its encoding was kept ({label})."));
            bytes
        }
        (None, label) => {
            let label = label.expect("invariant: UTF-8, the form without a label, takes any text");
            remarks.push(format!("It is UTF-8 now; before it was {label}."));
            content.into_bytes()
        }
    }
}
