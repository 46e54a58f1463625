//! `list_directory`: a folder as a tree, as much of it as fits.

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use crow_core::tool::{
    Access, CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
};
use crow_fs::{Directory, EntryKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    blocking::blocking_until_cancelled,
    paths::{
        self, AllowedPath, display_path, escape, explain, here, missing_file_message, open_folder,
    },
    search::{WithheldFiles, walker},
};

/// Levels that are shown if the call does not say.
const DEFAULT_DEPTH: usize = 2;
/// Most levels that can be shown.
const MAX_DEPTH: usize = 10;

/// Shows the tree below a folder.
#[derive(Debug)]
pub(crate) struct ListDirectory;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDirectoryInput {
    /// Default: the working directory.
    #[serde(
        default = "here",
        alias = "dir",
        alias = "directory",
        alias = "dir_path",
        alias = "file_path",
        alias = "relative_workspace_path"
    )]
    path: String,
    /// Levels to show, default 2.
    #[serde(default)]
    depth: Option<usize>,
}

#[async_trait]
impl TypedTool for ListDirectory {
    type Input = ListDirectoryInput;
    const NAME: &'static str = "list_directory";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Shows a folder as a tree, up to 200 entries; ignored folders are named but not opened."
    }

    async fn plan(
        &self,
        input: &ListDirectoryInput,
        ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        paths::plan("list", &input.path, Access::Read, ctx).await
    }

    async fn execute(
        &self,
        input: ListDirectoryInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        show(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn show(
    input: &ListDirectoryInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let path = paths::resolve_planned(&input.path, plan, ctx).await?;
    let depth = input.depth.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH);
    let session = ctx.clone();
    blocking_until_cancelled(ctx, move || list(&path, depth, &session)).await
}

/// Most entries that are shown.
const MAX_ENTRIES: usize = 200;
/// Most entries of one folder that are read.
const MAX_LOOKED_AT: usize = 10_000;

/// The kind of an entry.
#[derive(Debug, PartialEq, Eq)]
enum ListingKind {
    Folder,
    File,
    Link(PathBuf),
    Special,
}

#[derive(Debug)]
struct ListingEntry {
    name: OsString,
    kind: ListingKind,
    is_ignored: bool,
}

/// A folder with the entries that are shown.
#[derive(Debug)]
struct ListingFolder {
    /// Path relative to the folder that is listed.
    path: PathBuf,
    depth: usize,
    /// Number of its entries, or the error of reading it.
    total: Result<usize, String>,
    shown: Vec<ListingRow>,
}

#[derive(Debug)]
struct ListingRow {
    entry: ListingEntry,
    /// Index of the folder in the tree, if the entry is one that is opened.
    folder: Option<usize>,
}

/// Lists the folder that a call may read.
pub(crate) fn list(path: &AllowedPath, depth: usize, ctx: &ToolContext) -> ToolResult {
    let name = display_path(path, ctx);
    let root = match open_folder(path) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return ToolResult::failure(format!("{name} is a file; use read_file"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ToolResult::failure(missing_file_message(path, ctx));
        }
        Err(error) => return ToolResult::failure(explain(&name, &error)),
    };
    match tree(&root, path, depth, ctx) {
        Some(folders) => {
            let mut output = String::new();
            let shown: usize = folders.iter().map(|folder| folder.shown.len()).sum();
            let is_cut = |folder: &ListingFolder| {
                folder.depth <= depth
                    && folder.total.as_ref().is_ok_and(|total| *total > folder.shown.len())
            };
            if shown == MAX_ENTRIES && folders.iter().any(is_cut) {
                let _ = writeln!(
                    output,
                    "[cut at {MAX_ENTRIES} entries; give a folder as path to see more of it]"
                );
            }
            if let Some(root) = folders.first() {
                let _ = writeln!(output, "{name}/{}", count(root));
            }
            write_folder(&mut output, &folders, 0, 1);
            ToolResult::success(output)
        }
        None => ToolResult::cancelled(),
    }
}

/// Opens folders level by level until the limit of entries is reached. Returns `None` if the call is cancelled.
fn tree(
    root: &Directory,
    path: &Path,
    depth: usize,
    ctx: &ToolContext,
) -> Option<Vec<ListingFolder>> {
    let folder =
        |path: PathBuf, depth| ListingFolder { path, depth, total: Ok(0), shown: Vec::new() };
    let mut folders = vec![folder(PathBuf::from("."), 1)];
    let withheld = WithheldFiles::for_root(path, ctx);
    let mut queue = VecDeque::from([0]);
    let mut remaining = MAX_ENTRIES;
    while let Some(index) = queue.pop_front() {
        if ctx.should_abort() {
            return None;
        }
        let next = folders.len();
        let Some(current) = folders.get_mut(index) else { break };
        let dir = root.open_beneath(&current.path);
        // Beyond the depth or the limit a folder is only counted.
        if current.depth > depth || remaining == 0 {
            let entries = dir.and_then(|dir| dir.entries(MAX_LOOKED_AT));
            current.total = entries.map(|entries| entries.len()).map_err(|e| explain("it", &e));
            continue;
        }
        let entries = dir.and_then(|dir| entries(&dir, &path.join(&current.path), &withheld));
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                current.total = Err(explain("it", &error));
                continue;
            }
        };
        current.total = Ok(entries.len());
        let mut opened = Vec::new();
        for entry in entries.into_iter().take(remaining) {
            let opens = entry.kind == ListingKind::Folder && !entry.is_ignored;
            let child = opens.then(|| next + opened.len());
            if opens {
                opened.push(folder(current.path.join(&entry.name), current.depth + 1));
            }
            current.shown.push(ListingRow { entry, folder: child });
        }
        remaining -= current.shown.len();
        queue.extend(next..next + opened.len());
        folders.extend(opened);
    }
    Some(folders)
}

/// Returns the entries of a folder, folders first, each kind sorted by name. The path serves only to find out which
/// entries are ignored.
fn entries(
    folder: &Directory,
    path: &Path,
    withheld: &WithheldFiles,
) -> io::Result<Vec<ListingEntry>> {
    if withheld.is_unlisted(path) {
        return Ok(Vec::new());
    }
    let visible: HashSet<OsString> = walker(path, withheld)
        .max_depth(Some(1))
        .build()
        .filter_map(Result::ok)
        .take(MAX_LOOKED_AT + 1)
        .map(|entry| entry.file_name().to_owned())
        .collect();
    let mut entries = Vec::new();
    for (name, kind) in folder.entries(MAX_LOOKED_AT)? {
        let kind = match kind {
            EntryKind::Directory => ListingKind::Folder,
            EntryKind::File => ListingKind::File,
            EntryKind::Special => ListingKind::Special,
            EntryKind::Symlink => match folder.read_link(&name) {
                Ok(target) => ListingKind::Link(target),
                // It was removed in between.
                Err(_) => continue,
            },
        };
        let name = name.as_os_str().to_owned();
        entries.push(ListingEntry { is_ignored: !visible.contains(&name), name, kind });
    }
    let rank = |entry: &ListingEntry| entry.kind != ListingKind::Folder;
    entries
        .sort_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| one.name.cmp(&other.name)));
    Ok(entries)
}

fn write_folder(output: &mut String, folders: &[ListingFolder], index: usize, indent: usize) {
    let Some(folder) = folders.get(index) else { return };
    let margin = "  ".repeat(indent);
    for ListingRow { entry, folder: opened } in &folder.shown {
        let name = escape(&entry.name.to_string_lossy());
        let ignored = if entry.is_ignored { " (ignored)" } else { "" };
        let _ = match &entry.kind {
            ListingKind::Folder => {
                let opened = opened.and_then(|index| folders.get(index));
                let note = opened.map_or_else(|| " (ignored)".to_owned(), count);
                writeln!(output, "{margin}{name}/{note}")
            }
            ListingKind::File => writeln!(output, "{margin}{name}{ignored}"),
            ListingKind::Link(target) => {
                let target = escape(&target.to_string_lossy());
                writeln!(output, "{margin}{name} -> {target}{ignored}")
            }
            ListingKind::Special => writeln!(output, "{margin}{name} (special file){ignored}"),
        };
        if let Some(index) = opened {
            write_folder(output, folders, *index, indent + 1);
        }
    }
}

/// Describes the number of entries of a folder.
fn count(folder: &ListingFolder) -> String {
    match &folder.total {
        Ok(0) => " (empty)".to_owned(),
        Ok(1) => " (1 entry)".to_owned(),
        Ok(total) => {
            let more = if *total >= MAX_LOOKED_AT { "more than " } else { "" };
            let shown = folder.shown.len();
            let part = if (1..*total).contains(&shown) {
                format!(", the first {shown} below")
            } else {
                String::new()
            };
            format!(" ({more}{total} entries{part})")
        }
        Err(error) => format!(" ({error})"),
    }
}
