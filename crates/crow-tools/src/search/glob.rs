//! The tool `glob`.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::tool::{
    Access, CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
};
use ignore::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;

use super::walk::{
    GlobPattern, IgnoreMode, OpenRoot, SearchDeadline, WithheldFiles, files, first_ignored_match,
};
use crate::{
    blocking::blocking_until_cancelled,
    paths::{self, AllowedPath, display_path, explain, here, missing_file_message, open_folder},
};

/// Most files that are listed.
const MAX_FILES: usize = 100;
/// Time limit of a search.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of the search for ignored files that match.
const HINT_LIMIT: Duration = Duration::from_secs(1);

/// Finds files by name.
#[derive(Debug)]
pub(crate) struct Glob;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobInput {
    /// Such as *.rs (in every folder) or src/**/*.{ts,tsx}.
    #[serde(alias = "glob", alias = "glob_pattern", alias = "query")]
    pattern: String,
    /// Folder. Default: the working directory.
    #[serde(
        default = "here",
        alias = "dir",
        alias = "directory",
        alias = "dir_path",
        alias = "file_path",
        alias = "filePath"
    )]
    path: String,
}

impl GlobInput {
    fn parse(&self) -> Result<(GlobPattern, String), ToolError> {
        let pattern = GlobPattern::parse(&self.pattern).map_err(ToolError::Model)?;
        // An empty path stays empty, because it is an error of its own.
        let root = if self.path.is_empty() || pattern.base.as_os_str().is_empty() {
            self.path.clone()
        } else {
            Path::new(&self.path).join(&pattern.base).to_string_lossy().into_owned()
        };
        Ok((pattern, root))
    }
}

#[async_trait]
impl TypedTool for Glob {
    type Input = GlobInput;
    const NAME: &'static str = "glob";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Finds files by name, newest first, up to 100. Leaves out what .gitignore names."
    }

    async fn plan(&self, input: &GlobInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let (_, root) = input.parse()?;
        let plan = paths::plan("glob", &root, Access::Read, ctx).await?;
        Ok(CallPlan { title: format!("glob {}", paths::escape(&input.pattern)), ..plan })
    }

    async fn execute(&self, input: GlobInput, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        find_planned(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn find_planned(
    input: &GlobInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let (pattern, root) = input.parse()?;
    let root = paths::resolve_planned(&root, plan, ctx).await?;
    let session = ctx.clone();
    blocking_until_cancelled(ctx, move || find(&root, &pattern, &session)).await?
}

/// Modification time and path of a file. The newest files come first; those of the same time, in order of path.
type GlobHit = ((i64, i64), Reverse<PathBuf>);

fn find(
    root: &AllowedPath,
    pattern: &GlobPattern,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let mut handle = match open_folder(root) {
        Ok(handle) => OpenRoot::new(root, handle),
        Err(error) => return Err(ToolError::Model(unsearchable(root, &error, ctx))),
    };
    let matches = |entry: &DirEntry| {
        entry.path().strip_prefix(root).is_ok_and(|relative| pattern.matches(relative))
    };
    let stop = SearchDeadline::new(ctx.cancellation.clone(), TIME_LIMIT);
    // The heap has the newest files so far, with the oldest of them on top.
    let mut newest: BinaryHeap<Reverse<GlobHit>> = BinaryHeap::new();
    let mut total = 0_usize;
    let withheld = WithheldFiles::for_root(root, ctx);
    let is_listed =
        |entry: &DirEntry| entry.path().parent().is_none_or(|folder| !withheld.is_unlisted(folder));
    for entry in files(root, &withheld, IgnoreMode::Skip, &stop).filter(matches).filter(is_listed) {
        let path = entry.into_path();
        // The walk goes by path: a file that is not in the folder without a link on the way was put there in between.
        let Ok(metadata) = handle.metadata(&path) else { continue };
        total += 1;
        newest.push(Reverse((metadata.modified, Reverse(path))));
        if newest.len() > MAX_FILES {
            newest.pop();
        }
    }
    if stop.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let mut output = String::new();
    if stop.is_late() {
        let _ = writeln!(
            output,
            "[stopped after {} s: not everything was searched; give a smaller folder]",
            TIME_LIMIT.as_secs()
        );
    } else if total == 0 {
        let mut is_in_folder = |entry: &DirEntry| handle.metadata(entry.path()).is_ok();
        let matches = |entry: &DirEntry| matches(entry) && is_in_folder(entry);
        return Ok(ToolResult::success(nothing(root, &withheld, matches, ctx)));
    }
    if total > MAX_FILES {
        let _ = writeln!(
            output,
            "[the newest {MAX_FILES} of {total} files; narrow the pattern to see others]"
        );
    }
    for Reverse((_, Reverse(path))) in newest.into_sorted_vec() {
        let _ = writeln!(output, "{}", display_path(&path, ctx));
    }
    Ok(ToolResult::success(output))
}

fn unsearchable(root: &AllowedPath, error: &io::Error, ctx: &ToolContext) -> String {
    let name = display_path(root, ctx);
    if error.kind() == io::ErrorKind::NotADirectory {
        format!("{name} is a file; give a folder")
    } else if error.kind() == io::ErrorKind::NotFound {
        missing_file_message(root, ctx)
    } else {
        explain(&name, error)
    }
}

/// Returns the message for a search without hits, with an ignored file that matches, if there is one.
fn nothing(
    root: &Path,
    withheld: &WithheldFiles,
    matches: impl FnMut(&DirEntry) -> bool,
    ctx: &ToolContext,
) -> String {
    let stop = SearchDeadline::new(ctx.cancellation.clone(), HINT_LIMIT);
    match first_ignored_match(root, withheld, &stop, matches) {
        Some(path) => format!(
            "No files match, except ignored ones such as {}; begin the pattern with their folder to find them.",
            display_path(&path, ctx)
        ),
        None => match display_path(root, ctx).as_str() {
            "." => "No files match.".to_owned(),
            root => format!("No files below {root} match."),
        },
    }
}
