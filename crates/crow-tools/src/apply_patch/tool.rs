//! The tool itself: plans every path of a patch, applies all sections to what the files have now, and saves them only if
//! each of them fits.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use crow_core::{
    file_views::ContentHash,
    permission::Disclosure,
    tool::{
        Access, CallPlan, Effects, FileChange, FileDiff, Patch, Preview, Subject, ToolCategory,
        ToolContext, ToolError, ToolResult, TypedTool,
    },
};
use crow_edit::PatchHunk;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::parse::{PatchSection, SectionChange, parse};
use crate::{
    blocking::{blocking, blocking_until_cancelled},
    edit_file::{EditDraft, QuotedChange},
    file::{
        CurrentFile, SavedChange, delete, file_diff, load_error, lock, save, save_moved,
        with_changes,
    },
    paths::{self, AllowedPath, display_path, missing_file_message, path_and_target},
    write_file::{WriteDraft, refuse_unknown},
};

/// Most files that a title names.
const MAX_NAMED: usize = 8;

/// Changes files by a patch.
#[derive(Debug)]
pub(crate) struct ApplyPatch;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyPatchInput {
    /// The patch, from *** Begin Patch to *** End Patch.
    #[serde(
        alias = "patch",
        alias = "diff",
        alias = "patch_text",
        alias = "patchText",
        alias = "command",
        alias = "cmd",
        alias = "content",
        alias = "text",
        deserialize_with = "patch_text"
    )]
    input: String,
}

/// Reads the patch, or the command line that would pass it to a program, as a list of words.
fn patch_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum PatchArgument {
        Text(String),
        Words([String; 2]),
    }
    match PatchArgument::deserialize(deserializer) {
        Ok(PatchArgument::Text(text)) => Ok(text),
        Ok(PatchArgument::Words([program, text])) if program == ApplyPatch::NAME => Ok(text),
        Ok(PatchArgument::Words(_)) | Err(_) => {
            Err(serde::de::Error::custom("the patch must be a string"))
        }
    }
}

fn sections(input: &ApplyPatchInput) -> Result<Vec<PatchSection>, ToolError> {
    parse(&input.input).map_err(|error| ToolError::Model(format!("nothing was changed: {error}")))
}

#[async_trait]
impl TypedTool for ApplyPatch {
    type Input = ApplyPatchInput;
    const NAME: &'static str = "apply_patch";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Changes files by a patch of sections between *** Begin Patch and *** End Patch. *** Add File: PATH, then all \
         lines with + before them. *** Delete File: PATH. *** Update File: PATH, with *** Move to: PATH below it to \
         rename, then hunks: @@ and the head of the class or function, then the changed lines with - and +, with 3 \
         unchanged lines around them, each with a space before it. All is applied or nothing."
    }

    async fn plan(
        &self,
        input: &ApplyPatchInput,
        ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        let mut effects = Vec::new();
        let mut titles = Vec::new();
        for section in sections(input)? {
            let effect = paths::path_effect(&section.path, Access::Write, ctx).await?;
            let (verb, target) = match &section.change {
                SectionChange::Add { .. } => ("add", None),
                SectionChange::Delete => ("delete", None),
                SectionChange::Update { move_to: None, .. } => ("edit", None),
                SectionChange::Update { move_to: Some(target), .. } => ("move", Some(target)),
            };
            let mut title = format!("{verb} {}", path_and_target(&section.path, &effect.path, ctx));
            effects.push(effect);
            if let Some(target) = target {
                let effect = paths::path_effect(target, Access::Write, ctx).await?;
                let _ = write!(title, " to {}", path_and_target(target, &effect.path, ctx));
                effects.push(effect);
            }
            titles.push(title);
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = effects.iter().find(|effect| !known.insert(&effect.path)) {
            return Err(ToolError::Model(format!(
                "nothing was changed: the patch names {} twice; put all changes of a file into one section",
                display_path(&twice.path, ctx)
            )));
        }
        let subject = match effects.as_slice() {
            [only] => Subject::Path(only.path.clone()),
            _ => Subject::Nothing,
        };
        let left_out = titles.len().saturating_sub(MAX_NAMED);
        titles.truncate(MAX_NAMED);
        if left_out > 0 {
            titles.push(format!("change {left_out} more files"));
        }
        let plan = CallPlan { title: titles.join(", "), effects: Effects::Paths(effects), subject };
        // A hunk that does not match is answered with the closest passage, so a denial of reading applies as well.
        Ok(plan.with_read_of_written())
    }

    async fn preview(
        &self,
        input: &ApplyPatchInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let planned = PlannedSection::resolve(sections(input)?, plan, ctx).await?;
        let session = ctx.clone();
        let work = move || {
            let drafts = drafts(&planned, &session)?;
            let files = drafts.iter().flat_map(SectionDraft::diffs).collect();
            let basis = drafts.iter().flat_map(SectionDraft::basis).collect();
            Ok(Some(Preview { patch: Patch { files }, basis }))
        };
        blocking_until_cancelled(ctx, work).await?
    }

    async fn execute(
        &self,
        input: ApplyPatchInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        patch_planned(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn patch_planned(
    input: &ApplyPatchInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let planned = PlannedSection::resolve(sections(input)?, plan, ctx).await?;
    // In order of path, so that two patches never wait for each other.
    let paths: BTreeSet<&Path> =
        planned.iter().flat_map(PlannedSection::paths).map(|path| &**path).collect();
    let mut guards = Vec::new();
    for path in paths {
        let locked = ctx.cancellation.run_until_cancelled(lock(path)).await;
        guards.push(locked.ok_or(ToolError::Cancelled)?);
    }
    let session = ctx.clone();
    // The work owns the guards: the patch is applied entirely even if this future is dropped.
    let work = move || {
        let _guards = guards;
        apply(&planned, &session)
    };
    blocking(work).await?
}

/// A section whose paths are resolved.
#[derive(Debug)]
struct PlannedSection {
    path: AllowedPath,
    change: PlannedChange,
}

#[derive(Debug)]
enum PlannedChange {
    Add { content: String },
    Update { target: Option<AllowedPath>, hunks: Vec<PatchHunk> },
    Delete,
}

impl PlannedSection {
    /// Resolves the paths of all sections again and makes sure that they are the planned ones.
    async fn resolve(
        sections: Vec<PatchSection>,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Vec<Self>, ToolError> {
        let mut planned = Vec::with_capacity(sections.len());
        for section in sections {
            let path = paths::resolve_planned(&section.path, plan, ctx).await?;
            let change = match section.change {
                SectionChange::Add { content } => PlannedChange::Add { content },
                SectionChange::Delete => PlannedChange::Delete,
                SectionChange::Update { move_to, hunks } => {
                    let target = match &move_to {
                        Some(target) => Some(paths::resolve_planned(target, plan, ctx).await?),
                        None => None,
                    };
                    PlannedChange::Update { target, hunks }
                }
            };
            planned.push(Self { path, change });
        }
        Ok(planned)
    }

    fn paths(&self) -> impl Iterator<Item = &AllowedPath> {
        let target = match &self.change {
            PlannedChange::Update { target, .. } => target.as_ref(),
            PlannedChange::Add { .. } | PlannedChange::Delete => None,
        };
        std::iter::once(&self.path).chain(target)
    }

    fn draft(&self, ctx: &ToolContext) -> Result<SectionDraft<'_>, ToolError> {
        match &self.change {
            PlannedChange::Add { content } => {
                let draft = WriteDraft::new(&self.path, content.clone(), ctx)?;
                Ok(SectionDraft::Add(draft))
            }
            PlannedChange::Update { target: None, hunks } => {
                let draft = EditDraft::new(&self.path, QuotedChange::Hunks(hunks), ctx)?;
                Ok(SectionDraft::Update { draft, hunks })
            }
            PlannedChange::Update { target: Some(target), hunks } => {
                let edit = if hunks.is_empty() {
                    MovedContent::Unchanged(self.present(ctx)?)
                } else {
                    let draft = EditDraft::new(&self.path, QuotedChange::Hunks(hunks), ctx)?;
                    MovedContent::Edited(draft, hunks)
                };
                let load = CurrentFile::load(target, &ctx.file_views);
                let target = load.map_err(|error| load_error(target, &error, ctx))?;
                if target.is_present() {
                    return Err(ToolError::Model(format!(
                        "{} was not moved: {} exists already; choose another path or delete that file first",
                        display_path(&self.path, ctx),
                        display_path(target.path(), ctx)
                    )));
                }
                Ok(SectionDraft::Move { content: edit, target })
            }
            PlannedChange::Delete => {
                let current = self.present(ctx)?;
                refuse_unknown(&current, "deleted", ctx)?;
                Ok(SectionDraft::Delete(current))
            }
        }
    }

    /// Loads the file, which must exist.
    fn present(&self, ctx: &ToolContext) -> Result<CurrentFile, ToolError> {
        let load = CurrentFile::load(&self.path, &ctx.file_views);
        let current = load.map_err(|error| load_error(&self.path, &error, ctx))?;
        if current.is_present() {
            Ok(current)
        } else {
            Err(ToolError::Model(missing_file_message(&self.path, ctx)))
        }
    }
}

/// A changed file that is not saved yet.
enum SectionDraft<'a> {
    Add(WriteDraft),
    Update { draft: EditDraft, hunks: &'a [PatchHunk] },
    Move { content: MovedContent<'a>, target: CurrentFile },
    Delete(CurrentFile),
}

/// The content of a file that gets another path.
enum MovedContent<'a> {
    Unchanged(CurrentFile),
    Edited(EditDraft, &'a [PatchHunk]),
}

impl MovedContent<'_> {
    fn current(&self) -> &CurrentFile {
        match self {
            Self::Unchanged(current) => current,
            Self::Edited(draft, _) => &draft.current,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Unchanged(current) => current.bytes(),
            Self::Edited(draft, _) => &draft.applied.content,
        }
    }
}

/// Computes the new content of all files. Fails if one section does not fit, with what is wrong in each.
fn drafts<'a>(
    planned: &'a [PlannedSection],
    ctx: &ToolContext,
) -> Result<Vec<SectionDraft<'a>>, ToolError> {
    // The errors of several sections show no content: they could be too long for one output.
    let disclosure = if planned.len() > 1 { Disclosure::AfterApproval } else { ctx.disclosure };
    let ctx = &ToolContext { disclosure, ..ctx.clone() };
    let mut drafts = Vec::with_capacity(planned.len());
    let mut errors = Vec::new();
    for section in planned {
        match section.draft(ctx) {
            Ok(draft) => drafts.push(draft),
            Err(ToolError::Model(error)) => errors.push(error),
            Err(error) => return Err(error),
        }
    }
    match (errors.as_slice(), planned) {
        ([], _) => Ok(drafts),
        ([error], [_]) => Err(ToolError::Model(error.clone())),
        _ => Err(ToolError::Model(format!(
            "nothing of the patch was applied:\n{}",
            errors.join("\n")
        ))),
    }
}

/// Applies the sections to the files, or none of them if one does not fit.
fn apply(planned: &[PlannedSection], ctx: &ToolContext) -> Result<ToolResult, ToolError> {
    if ctx.should_abort() {
        return Err(ToolError::Cancelled);
    }
    let mut drafts = drafts(planned, ctx)?;
    let files = || drafts.iter().flat_map(SectionDraft::files);
    if let Some(changed) = files().find(|file| !file.was_previewed(ctx.preview.as_ref())) {
        return Err(ToolError::Model(format!(
            "{} was changed after this patch was allowed, so nothing was written; read it again and repeat the call",
            display_path(changed.path(), ctx)
        )));
    }
    // Contents are written before files are deleted, so that an error in between loses nothing.
    drafts.sort_by_key(SectionDraft::order);
    let (mut reports, mut changes) = (Vec::new(), Vec::new());
    for (index, draft) in drafts.iter().enumerate() {
        if let Err(error) = draft.save(&mut reports, &mut changes, ctx) {
            if changes.is_empty() {
                return Err(error);
            }
            let rest: Vec<String> = drafts
                .iter()
                .skip(index)
                .map(|draft| display_path(draft.current().path(), ctx))
                .collect();
            let message = format!(
                "The patch was applied only in part: {error}\nDone before:\n{}\nNot done: {}.",
                reports.join("\n"),
                rest.join(", ")
            );
            return Ok(with_changes(ToolResult::failure(message), changes));
        }
    }
    Ok(with_changes(ToolResult::success(reports.join("\n")), changes))
}

impl SectionDraft<'_> {
    /// Returns the place of the section in the order of saving.
    fn order(&self) -> u8 {
        match self {
            Self::Add(_) | Self::Update { .. } => 0,
            Self::Move { .. } => 1,
            Self::Delete(_) => 2,
        }
    }

    /// Returns the file that the section names.
    fn current(&self) -> &CurrentFile {
        match self {
            Self::Add(draft) => &draft.current,
            Self::Update { draft, .. } => &draft.current,
            Self::Move { content, .. } => content.current(),
            Self::Delete(current) => current,
        }
    }

    /// Returns the files of which the section changes the content or existence.
    fn files(&self) -> impl Iterator<Item = &CurrentFile> {
        let target = match self {
            Self::Move { target, .. } => Some(target),
            Self::Add(_) | Self::Update { .. } | Self::Delete(_) => None,
        };
        std::iter::once(self.current()).chain(target)
    }

    fn basis(&self) -> impl Iterator<Item = (PathBuf, Option<ContentHash>)> {
        self.files().map(|file| (file.path().to_owned(), file.hash().cloned()))
    }

    fn diffs(&self) -> Vec<FileDiff> {
        let current = self.current();
        let diff = |change, new: &[u8]| FileDiff {
            change,
            ..file_diff(current.path(), current.bytes(), new)
        };
        let change = if current.is_present() { FileChange::Modified } else { FileChange::Created };
        match self {
            Self::Add(draft) => vec![diff(change, &draft.content)],
            Self::Update { draft, .. } => vec![diff(change, &draft.applied.content)],
            Self::Delete(_) => vec![diff(FileChange::Deleted, &[])],
            Self::Move { content, target } => {
                let created = FileDiff {
                    change: FileChange::Created,
                    ..file_diff(target.path(), &[], content.bytes())
                };
                vec![created, diff(FileChange::Deleted, &[])]
            }
        }
    }

    /// Saves the file. Adds a line to the reports, and what was changed, also if only a part of it was.
    fn save(
        &self,
        reports: &mut Vec<String>,
        changes: &mut Vec<SavedChange>,
        ctx: &ToolContext,
    ) -> Result<(), ToolError> {
        let name = display_path(self.current().path(), ctx);
        match self {
            Self::Add(draft) => {
                let (report, change) = draft.save(ctx)?;
                reports.push(report);
                changes.extend(change);
            }
            Self::Update { draft, hunks } => {
                let built_on = draft.current.hash().cloned();
                let content = &draft.applied.content;
                let change = save(&draft.current, content, draft.seen, built_on, ctx)?;
                let (additions, deletions) = (change.diff.additions, change.diff.deletions);
                let report = format!("Edited {name}: +{additions} -{deletions} lines");
                let hunks = QuotedChange::Hunks(hunks);
                reports.push(draft.describe(report, hunks, &change.remarks));
                changes.push(change);
            }
            Self::Move { content, target } => {
                let source = content.current();
                let seen = source.freshness(&ctx.file_views);
                let created = save_moved(source, target, content.bytes(), seen, ctx)?;
                let target = display_path(target.path(), ctx);
                changes.push(created);
                match delete(source, ctx) {
                    Ok(deleted) => changes.push(deleted),
                    Err(error) => {
                        reports.push(format!("Created {target} with the content of {name}."));
                        return Err(error);
                    }
                }
                let report = format!("Moved {name} to {target}");
                reports.push(match content {
                    MovedContent::Unchanged(_) => format!("{report}."),
                    MovedContent::Edited(draft, hunks) => {
                        draft.describe(report, QuotedChange::Hunks(hunks), &[])
                    }
                });
            }
            Self::Delete(current) => {
                let change = delete(current, ctx)?;
                reports.push(format!("Deleted {name}: -{} lines.", change.diff.deletions));
                changes.push(change);
            }
        }
        Ok(())
    }
}
