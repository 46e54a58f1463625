//! `edit_file`: replaces quoted text in a file.

use std::fmt::Write as _;

use async_trait::async_trait;
use crow_core::tool::{
    Access, CallPlan, Patch, Preview, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::{
    blocking::{blocking, blocking_until_cancelled},
    file::{CurrentFile, ViewFreshness, file_diff, load_error, lock, save},
    paths::{self, AllowedPath, display_path, missing_file_message},
};
use crow_edit::{
    EditError, EditedFile, MatchType, NoteCause, PatchHunk, TextEdit, apply_edits, apply_hunks,
};

/// Replaces quoted text in files.
#[derive(Debug)]
pub(crate) struct EditFile;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditFileInput {
    // Absolute, or relative to the working directory, which a model knows from `read_file`.
    #[serde(alias = "file_path", alias = "filePath", alias = "filename", alias = "file")]
    path: String,
    /// Text to replace, copied exactly.
    #[serde(
        default,
        alias = "old_str",
        alias = "oldStr",
        alias = "old_text",
        alias = "oldText",
        alias = "oldString"
    )]
    old_string: Option<String>,
    /// Text in its place.
    #[serde(
        default,
        alias = "new_str",
        alias = "newStr",
        alias = "new_text",
        alias = "newText",
        alias = "newString"
    )]
    new_string: Option<String>,
    /// Replace every occurrence.
    #[serde(default, alias = "replaceAll", alias = "allow_multiple")]
    replace_all: bool,
    /// Several replacements: all or none, each matched against the original file.
    #[serde(default)]
    edits: Vec<EditInput>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditInput {
    #[serde(
        alias = "old_str",
        alias = "oldStr",
        alias = "old_text",
        alias = "oldText",
        alias = "oldString"
    )]
    old_string: String,
    #[serde(
        alias = "new_str",
        alias = "newStr",
        alias = "new_text",
        alias = "newText",
        alias = "newString"
    )]
    new_string: String,
    #[serde(default, alias = "replaceAll", alias = "allow_multiple")]
    replace_all: bool,
}

impl EditFileInput {
    /// Returns the edits, which the arguments give in one of two forms.
    fn edits(&self) -> Result<Vec<TextEdit>, String> {
        let fail = |message: &str| Err(message.to_owned());
        match (&self.old_string, &self.new_string, self.edits.as_slice()) {
            (Some(old), Some(new), []) => Ok(vec![TextEdit {
                old: old.clone(),
                new: new.clone(),
                replace_all: self.replace_all,
            }]),
            (None, None, []) => fail("old_string and new_string are missing"),
            (None, Some(_), []) => fail("old_string is missing: the text to replace"),
            (Some(_), None, []) => {
                fail("new_string is missing; give an empty one to delete old_string")
            }
            (None, None, edits) => Ok(edits
                .iter()
                .map(|edit| TextEdit {
                    old: edit.old_string.clone(),
                    new: edit.new_string.clone(),
                    replace_all: edit.replace_all || self.replace_all,
                })
                .collect()),
            (_, _, [..]) => fail("give either old_string and new_string, or edits, not both"),
        }
    }
}

#[async_trait]
impl TypedTool for EditFile {
    type Input = EditFileInput;
    const NAME: &'static str = "edit_file";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Replaces text in a file that you have read. Give old_string and new_string, 1 to 3 lines, only enough to be \
         unique and without line numbers, or edits for several places."
    }

    async fn plan(&self, input: &EditFileInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        input.edits().map_err(ToolError::Model)?;
        let plan = paths::plan("edit", &input.path, Access::Write, ctx).await?;
        // What does not match is answered with the closest passage, so a denial of reading applies as well.
        Ok(plan.with_read_of_written())
    }

    async fn preview(
        &self,
        input: &EditFileInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let edits = input.edits().map_err(ToolError::Model)?;
        let path = paths::resolve_planned(&input.path, plan, ctx).await?;
        let session = ctx.clone();
        let work = move || EditDraft::new(&path, QuotedChange::Edits(&edits), &session);
        let draft = blocking_until_cancelled(ctx, work).await??;
        let (current, content) = (&draft.current, &draft.applied.content);
        let diff = file_diff(current.path(), current.bytes(), content);
        Ok(Some(Preview {
            patch: Patch { files: vec![diff] },
            basis: vec![(current.path().to_owned(), current.hash().cloned())],
        }))
    }

    async fn execute(
        &self,
        input: EditFileInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        edit_planned(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn edit_planned(
    input: &EditFileInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let edits = input.edits().map_err(ToolError::Model)?;
    let path = paths::resolve_planned(&input.path, plan, ctx).await?;
    let locked = ctx.cancellation.run_until_cancelled(lock(&path)).await;
    let guard = locked.ok_or(ToolError::Cancelled)?;
    let session = ctx.clone();
    // The work owns the guard: the edit continues even if this future is dropped.
    let work = move || {
        let _guard = guard;
        edit(&path, &edits, &session)
    };
    blocking(work).await?
}

/// The change of a file that exists, by quotations of its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QuotedChange<'a> {
    /// Edits of `edit_file`.
    Edits(&'a [TextEdit]),
    /// Hunks of a patch.
    Hunks(&'a [PatchHunk]),
}

impl QuotedChange<'_> {
    fn apply(self, original: &[u8]) -> Result<EditedFile, EditError> {
        match self {
            Self::Edits(edits) => apply_edits(original, edits),
            Self::Hunks(hunks) => apply_hunks(original, hunks),
        }
    }

    /// Returns true if the file may be missing.
    fn may_create(self) -> bool {
        match self {
            Self::Edits(edits) => edits.iter().all(|edit| edit.old.is_empty()),
            Self::Hunks(_) => false,
        }
    }

    /// Returns a name of the quotation for use in a sentence.
    const fn name(self) -> &'static str {
        match self {
            Self::Edits(_) => "old_string",
            Self::Hunks(_) => "a hunk",
        }
    }
}

/// An edited content that is not saved yet.
pub(crate) struct EditDraft {
    pub(crate) current: CurrentFile,
    pub(crate) seen: ViewFreshness,
    pub(crate) applied: EditedFile,
}

impl EditDraft {
    /// Computes the edited content. Fails if the edit is refused.
    pub(crate) fn new(
        path: &AllowedPath,
        change: QuotedChange<'_>,
        ctx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let current = CurrentFile::load(path, &ctx.file_views)
            .map_err(|error| load_error(path, &error, ctx))?;
        if !current.is_present() && !change.may_create() {
            return Err(ToolError::Model(missing_file_message(path, ctx)));
        }
        let name = display_path(path, ctx);
        let seen = current.freshness(&ctx.file_views);
        // The reason for which the content is not known to the session, if it is not.
        let unknown = match seen {
            ViewFreshness::Current => None,
            ViewFreshness::Never => Some("the file was not read in this session"),
            ViewFreshness::Stale => {
                Some("the file was changed by something else since you last saw it")
            }
        };
        let applied = change.apply(current.bytes()).map_err(|error| {
            ToolError::Model(match unknown {
                Some(unknown) if current.is_present() => {
                    format!(
                        "{name} was not changed: {error}\nNote: {unknown}; read it before trying again."
                    )
                }
                _ => format!("{name} was not changed: {error}"),
            })
        })?;
        // An inexact match is accepted only if the session knows the content.
        match (unknown, applied.match_type) {
            (None, _) | (_, MatchType::Exact | MatchType::Create) => {
                Ok(Self { current, seen, applied })
            }
            (
                Some(unknown),
                MatchType::LineTrimmed
                | MatchType::UnicodeNormalized
                | MatchType::IndentationFlexible
                | MatchType::WhitespaceNormalized
                | MatchType::EscapeNormalized
                | MatchType::TrimmedBoundary
                | MatchType::LineNumbersStripped
                | MatchType::BlockAnchor
                | MatchType::ContextAware,
            ) => Err(ToolError::Model(format!(
                "{name} was not changed: {quoted} fits only inexactly ({}), and {unknown}; read it and copy {quoted} exactly",
                applied.match_type.as_str(),
                quoted = change.name()
            ))),
        }
    }

    /// Adds to the first words of a report what the model should know of the edit.
    pub(crate) fn describe(
        &self,
        mut report: String,
        change: QuotedChange<'_>,
        remarks: &[String],
    ) -> String {
        let applied = &self.applied;
        if applied.replacements > 1 {
            let _ = write!(report, ", {} replacements", applied.replacements);
        }
        let _ = write!(report, ", first change in line {}.", applied.first_changed_line);
        match self.seen {
            ViewFreshness::Current => {}
            ViewFreshness::Never => report.push_str(" The file had not been read in this session."),
            ViewFreshness::Stale => report.push_str(
                " The file had been changed by something else since you last saw it: read it before you go on.",
            ),
        }
        for remark in remarks {
            report.push(' ');
            report.push_str(remark);
        }
        for note in &applied.notes {
            let cause = match note.cause {
                NoteCause::Inexact(found) => {
                    format!("{} fitted only inexactly ({})", change.name(), found.as_str())
                }
                NoteCause::JoinedLines => {
                    "old_string ended with a line break and new_string does not, so the next line was joined".to_owned()
                }
            };
            let _ = write!(report, "\n{cause}; the lines now read:\n{}", note.excerpt.trim_end());
        }
        report
    }
}

fn edit(
    path: &AllowedPath,
    edits: &[TextEdit],
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    if ctx.should_abort() {
        return Err(ToolError::Cancelled);
    }
    let quoted = QuotedChange::Edits(edits);
    let draft = EditDraft::new(path, quoted, ctx)?;
    let name = display_path(path, ctx);
    if !draft.current.was_previewed(ctx.preview.as_ref()) {
        return Err(ToolError::Model(format!(
            "{name} was changed after this edit was allowed, so nothing was written; read it again and repeat the call"
        )));
    }
    // The content of a file that this call creates is known entirely.
    let known = if draft.current.is_present() { draft.seen } else { ViewFreshness::Current };
    let built_on = draft.current.hash().cloned();
    let change = save(&draft.current, &draft.applied.content, known, built_on, ctx)?;
    let (additions, deletions) = (change.diff.additions, change.diff.deletions);
    let output = if draft.current.is_present() {
        let report = format!("Edited {name}: +{additions} -{deletions} lines");
        draft.describe(report, quoted, &change.remarks)
    } else {
        format!("Created {name}: {additions} lines.")
    };
    let match_type = json!(draft.applied.match_type.as_str());
    Ok(change.into_result(output, Map::from_iter([("match_type".to_owned(), match_type)])))
}
