//! The tool `grep`, and the text form of its hits.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use async_trait::async_trait;
use crow_core::tool::{
    Access, CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
};
use crow_fs::Directory;
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::walk::{NameFilter, SearchDeadline, WithheldFiles, first_ignored_match},
    search::{
        CollectMode, FileHits, GrepOptions, GrepQuery, GrepResults, SearchScope, has_match, search,
    },
};
use crate::{
    blocking::blocking_until_cancelled,
    file::{LoadError, open},
    paths::{self, AllowedPath, display_path, here, missing_file_message, open_folder},
};

/// Lines that are shown if the call has no limit.
const DEFAULT_LINES: usize = 250;
/// Files that are named if the call has no limit.
const DEFAULT_FILES: usize = 100;
/// Most lines or files that can be shown.
const MAX_LIMIT: usize = 2000;
/// Most lines or files that can be skipped: all of them are held in memory.
const MAX_OFFSET: usize = 10_000;
/// Most lines around a match that can be shown.
const MAX_CONTEXT: usize = 50;
/// Most files that are named as not searched.
const MAX_WITHHELD: usize = 5;
/// Time limit of a search.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// Time limit of the search for ignored files that match.
const HINT_LIMIT: Duration = Duration::from_secs(1);

/// Finds lines by regular expression.
#[derive(Debug)]
pub(crate) struct Grep;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepInput {
    /// Regular expression (Rust syntax).
    #[serde(alias = "query", alias = "regex")]
    pattern: String,
    /// File or folder. Default: the working directory.
    #[serde(
        default = "here",
        alias = "dir",
        alias = "directory",
        alias = "dir_path",
        alias = "file_path",
        alias = "filePath"
    )]
    path: String,
    /// Only files like *.rs or src/**/*.{ts,tsx}; ! before those to leave out.
    #[serde(default, alias = "include", alias = "include_pattern")]
    glob: Option<String>,
    /// Only files of this type: rust, py, js.
    #[serde(default, rename = "type", alias = "file_type")]
    kind: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    #[serde(default, alias = "-i", alias = "ignoreCase", alias = "case_insensitive")]
    ignore_case: bool,
    #[serde(default, alias = "-B")]
    #[schemars(skip)]
    before: Option<usize>,
    #[serde(default, alias = "-A")]
    #[schemars(skip)]
    after: Option<usize>,
    /// Lines around each match.
    #[serde(default, alias = "-C")]
    context: Option<usize>,
    /// Matches may span lines.
    #[serde(default)]
    multiline: bool,
    /// Lines or files to skip.
    #[serde(default)]
    offset: Option<usize>,
    /// Lines (default 250) or files (default 100).
    #[serde(default, alias = "head_limit", alias = "max_results")]
    limit: Option<usize>,
    /// Line numbers are always shown.
    #[serde(default, rename = "-n")]
    #[schemars(skip)]
    _numbers: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

impl GrepInput {
    fn query(&self) -> Result<GrepQuery, ToolError> {
        let around = |own: Option<usize>| own.or(self.context).unwrap_or_default().min(MAX_CONTEXT);
        let options = GrepOptions {
            ignore_case: self.ignore_case,
            multiline: self.multiline,
            before: around(self.before),
            after: around(self.after),
        };
        GrepQuery::compile(&self.pattern, options).map_err(ToolError::Model)
    }

    fn names(&self) -> Result<NameFilter, ToolError> {
        let filter = self.glob.as_deref().map(NameFilter::parse).transpose();
        Ok(filter.map_err(|error| ToolError::Model(format!("glob: {error}")))?.unwrap_or_default())
    }

    fn types(&self) -> Result<Option<Types>, ToolError> {
        let Some(kind) = &self.kind else { return Ok(None) };
        let mut types = TypesBuilder::new();
        types.add_defaults();
        types.select(kind);
        types.build().map(Some).map_err(|_| {
            ToolError::Model(format!(
                "type {} is unknown; use glob, such as *.{}",
                paths::escape(kind),
                paths::escape(kind)
            ))
        })
    }

    fn page(&self) -> HitPage {
        let default = match self.output_mode {
            OutputMode::Content => DEFAULT_LINES,
            OutputMode::FilesWithMatches | OutputMode::Count => DEFAULT_FILES,
        };
        HitPage {
            offset: self.offset.unwrap_or_default().min(MAX_OFFSET),
            limit: self.limit.unwrap_or(default).clamp(1, MAX_LIMIT),
        }
    }
}

#[async_trait]
impl TypedTool for Grep {
    type Input = GrepInput;
    const NAME: &'static str = "grep";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Searches files for a regular expression, in order of path and line, up to 250 lines or 100 files at once. context \
         adds the lines around each match. Leaves out binary files and what .gitignore names."
    }

    async fn plan(&self, input: &GrepInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        input.query()?;
        input.names()?;
        input.types()?;
        if input.offset.is_some_and(|offset| offset > MAX_OFFSET) {
            return Err(ToolError::Model(format!(
                "offset is at most {MAX_OFFSET}; narrow the search with path, glob or type"
            )));
        }
        let plan = paths::plan("in", &input.path, Access::Read, ctx).await?;
        let pattern: String = paths::escape(&input.pattern).chars().take(80).collect();
        Ok(CallPlan { title: format!("grep {pattern} {}", plan.title), ..plan })
    }

    async fn execute(&self, input: GrepInput, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        grep_planned(input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn grep_planned(
    input: GrepInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let root = paths::resolve_planned(&input.path, plan, ctx).await?;
    let withheld = WithheldFiles::for_root(&root, ctx);
    let (names, types) = (input.names()?, input.types()?);
    let session = ctx.clone();
    let work = move || {
        let folder = open_root(&root, &session)?;
        grep(&input, &SearchScope { root, folder, names, types, withheld }, &session)
    };
    blocking_until_cancelled(ctx, work).await?
}

fn grep(
    input: &GrepInput,
    scope: &SearchScope,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let (query, page) = (input.query()?, input.page());
    let stop = SearchDeadline::new(ctx.cancellation.clone(), TIME_LIMIT);
    let needed = page.needed();
    let results = match input.output_mode {
        OutputMode::Content => search(scope, &query, CollectMode::Lines(needed), &stop, |hits| {
            hits.iter().map(|file| file.lines.len()).sum::<usize>() >= needed
        }),
        OutputMode::FilesWithMatches => {
            search(scope, &query, CollectMode::AnyMatch, &stop, |hits| hits.len() >= needed)
        }
        OutputMode::Count => search(scope, &query, CollectMode::Count, &stop, |_| false),
    };
    if stop.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let found = match input.output_mode {
        _ if results.hits.is_empty() => nothing(scope, &query, &results, &stop, ctx),
        OutputMode::Content => lines(&results.hits, page, ctx),
        OutputMode::FilesWithMatches => names(&results.hits, page, ctx),
        OutputMode::Count => counts(&results.hits, page, ctx),
    };
    let mut notes = String::new();
    if stop.is_late() {
        let seconds = TIME_LIMIT.as_secs();
        let _ = writeln!(
            notes,
            "[stopped after {seconds} s: not everything was searched; give a smaller folder]"
        );
    }
    if !results.withheld.is_empty() {
        let _ = writeln!(notes, "{}", not_searched(&results.withheld, ctx));
    }
    if results.unreadable > 0 {
        let _ = writeln!(notes, "[{} files could not be searched]", results.unreadable);
    }
    if let Some(note) = &query.note {
        let _ = writeln!(notes, "[{note}]");
    }
    // Before matches, what is missing comes first: whoever reads the beginning must know that it is not all.
    let text = if results.hits.is_empty() {
        found + &notes
    } else if found.is_empty() {
        format!("No more results after offset {}.\n{notes}", page.offset)
    } else {
        notes + &found
    };
    Ok(ToolResult::success(text))
}

/// Names files that were not searched because of their names or a rule, and says how to search them.
fn not_searched(withheld: &[PathBuf], ctx: &ToolContext) -> String {
    let mut names: Vec<String> =
        withheld.iter().take(MAX_WITHHELD).map(|path| display_path(path, ctx)).collect();
    if withheld.len() > names.len() {
        names.push(format!("{} more", withheld.len() - names.len()));
    }
    format!(
        "[not searched, because their names suggest keys, or a rule of the user says so: {}; give one as `path` to search it, which may be asked about or denied]",
        names.join(", ")
    )
}

/// Opens the folder to search. Returns `None` if it is a file.
fn open_root(root: &AllowedPath, ctx: &ToolContext) -> Result<Option<Directory>, ToolError> {
    let name = display_path(root, ctx);
    match open(root) {
        Ok(_) => Ok(None),
        Err(LoadError::Folder) => match open_folder(root) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) => Err(ToolError::Model(paths::explain(&name, &error))),
        },
        Err(LoadError::Missing) => Err(ToolError::Model(missing_file_message(root, ctx))),
        Err(LoadError::Io(error)) => Err(ToolError::Model(paths::explain(&name, &error))),
        Err(error @ (LoadError::Special(_) | LoadError::TooLarge)) => {
            Err(ToolError::Model(format!("{name} {error} and is not searched")))
        }
    }
}

/// Returns the message for a search without matches, with possible reasons.
fn nothing(
    scope: &SearchScope,
    query: &GrepQuery,
    results: &GrepResults,
    stop: &SearchDeadline,
    ctx: &ToolContext,
) -> String {
    let mut text = match display_path(&scope.root, ctx).as_str() {
        "." => "No matches.".to_owned(),
        root => format!("No matches in {root}."),
    };
    if results.binary > 0 {
        let _ = write!(text, " {} binary files were left out.", results.binary);
    }
    let hint = SearchDeadline::new(ctx.cancellation.clone(), HINT_LIMIT);
    let ignored = (!stop.is_due() && scope.folder.is_some()).then(|| {
        first_ignored_match(&scope.root, &scope.withheld, &hint, |entry| {
            entry.file_type().is_some_and(|kind| kind.is_file())
                && scope.includes(entry.path())
                && !scope.withheld.is_secret(entry.path())
                && has_match(scope, entry.path(), query, &hint)
        })
    });
    if let Some(Some(path)) = ignored {
        let _ = write!(
            text,
            " Ignored files do match, such as {}; give their folder as path to search them.",
            display_path(&path, ctx)
        );
    }
    text.push('\n');
    text
}

/// Most bytes that are shown, whatever the number of lines.
const MAX_BYTES: usize = 50 * 1024;

/// The part of the hits that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HitPage {
    offset: usize,
    limit: usize,
}

impl HitPage {
    /// Returns the number of hits that fill the page and show if there are more.
    fn needed(self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }
}

/// Writes lines under the name of their file: `12:text` if it matches, `12-text` if it is context.
fn lines(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let mut text = String::new();
    let mut last: Option<(usize, u64)> = None;
    let mut position = 0;
    for (index, file) in hits.iter().enumerate() {
        for line in &file.lines {
            position += 1;
            if position <= page.offset {
                continue;
            }
            if position > page.offset.saturating_add(page.limit) || text.len() > MAX_BYTES {
                let next = position - 1;
                return format!("[there are more lines: go on with offset {next}]\n{text}");
            }
            match last {
                Some((file, number)) if file == index && number + 1 == line.number => {}
                Some((file, _)) if file == index => {
                    // Without context lines the matches need no separators.
                    if hits.iter().any(|file| file.lines.iter().any(|line| !line.is_match)) {
                        text.push_str("--\n");
                    }
                }
                Some(_) => {
                    let _ = writeln!(text, "\n{}", display_path(&file.path, ctx));
                }
                None => {
                    let _ = writeln!(text, "{}", display_path(&file.path, ctx));
                }
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _ = writeln!(text, "{}{mark}{}", line.number, line.text);
            last = Some((index, line.number));
        }
    }
    text
}

/// Writes the names of files.
fn names(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let lines = hits.iter().map(|file| display_path(&file.path, ctx));
    list(lines, hits.len(), page)
}

/// Writes the number of matching lines in each file and in all.
fn counts(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let lines =
        hits.iter().map(|file| format!("{}:{}", display_path(&file.path, ctx), file.matches));
    let total: u64 = hits.iter().map(|file| file.matches).sum();
    format!("[{total} matching lines in {} files]\n{}", hits.len(), list(lines, hits.len(), page))
}

fn list(lines: impl Iterator<Item = String>, total: usize, page: HitPage) -> String {
    let mut text = String::new();
    let next = page.offset.saturating_add(page.limit);
    if total > next {
        let _ = writeln!(text, "[there are more files: go on with offset {next}]");
    }
    for line in lines.skip(page.offset).take(page.limit) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
