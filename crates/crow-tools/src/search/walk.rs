//! The files that a search goes through: the walk that all tools share, patterns for names, the files that are left out, and
//! the limits that end a search early.

use std::{
    io::{self, Read},
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use crow_core::{
    permission::{WithheldReads, is_secret_file_in},
    tool::ToolContext,
    workspace::Workspace,
};
use crow_fs::{Directory, EntryMetadata, EntryName};
use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

/// Most files that are examined to find out if only ignored ones match.
const MAX_IGNORED: usize = 20_000;

/// The files that a walk returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoreMode {
    /// Files that no ignore file excludes.
    Skip,
    /// All files outside of `.git`, ignored ones included.
    Include,
}

/// The root of a walk, with its open descriptor. The walk itself goes by path, so that a folder that is exchanged in
/// between can lead it elsewhere; everything that it finds is looked up beneath this descriptor, without following a
/// link.
#[derive(Debug)]
pub(super) struct OpenRoot {
    path: PathBuf,
    directory: Directory,
    /// The folder of the last file, since a walk goes through folder after folder.
    last: Option<(PathBuf, Directory)>,
}

impl OpenRoot {
    pub(super) fn new(path: &Path, directory: Directory) -> Self {
        Self { path: path.to_owned(), directory, last: None }
    }

    /// Returns the metadata of a path that the walk found.
    pub(super) fn metadata(&mut self, path: &Path) -> io::Result<EntryMetadata> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let name = EntryName::new(name)?;
        if let Some((folder, directory)) = &self.last
            && folder == parent
        {
            return directory.metadata(&name);
        }
        let relative = parent.strip_prefix(&self.path).map_err(io::Error::other)?;
        let directory = self.directory.open_beneath(&Path::new(".").join(relative))?;
        let metadata = directory.metadata(&name)?;
        self.last = Some((parent.to_owned(), directory));
        Ok(metadata)
    }
}

/// Prepares a walk, always in the same order. It includes hidden files and excludes ignored ones (with or without
/// git). It never enters `.git`, symbolic links, folders that are hidden from commands, or folders whose ignore files are named
/// pipes. A root that is ignored is walked all the same; if its own ignore file is a named pipe, without any rules.
pub(crate) fn walker(root: &Path, withheld: &WithheldFiles) -> WalkBuilder {
    let mut walker = WalkBuilder::new(root);
    let withheld = withheld.clone();
    walker
        .hidden(false)
        .require_git(false)
        // The user's own ignore file is in the home directory, which tools do not read.
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            entry.depth() == 0
                || entry.file_name() != ".git"
                    && !withheld.is_hidden(entry.path())
                    && !has_odd_ignore_file(entry)
        });
    if !root.ancestors().all(crow_fs::has_readable_ignore_files) {
        walk_without_rules(&mut walker);
    }
    walker
}

/// Returns true if an entry is a folder in which reading the rules would wait.
fn has_odd_ignore_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
        && !crow_fs::has_readable_ignore_files(entry.path())
}

fn walk_without_rules(walker: &mut WalkBuilder) {
    walker.ignore(false).git_ignore(false).git_exclude(false).parents(false);
}

/// Walks through the files below `root` until the search must stop.
pub(super) fn files<'a>(
    root: &Path,
    withheld: &WithheldFiles,
    ignored: IgnoreMode,
    stop: &'a SearchDeadline,
) -> impl Iterator<Item = DirEntry> + use<'a> {
    let mut walker = walker(root, withheld);
    if ignored == IgnoreMode::Include {
        walk_without_rules(&mut walker);
    }
    walker
        .build()
        .take_while(|_| !stop.is_due())
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()))
}

/// Finds the first ignored file that matches, for a search that found nothing else.
pub(super) fn first_ignored_match(
    root: &Path,
    withheld: &WithheldFiles,
    stop: &SearchDeadline,
    mut matches: impl FnMut(&DirEntry) -> bool,
) -> Option<PathBuf> {
    // Both walks have the same order, so a file that only the wider one finds is ignored.
    let mut visible = files(root, withheld, IgnoreMode::Skip, stop).peekable();
    files(root, withheld, IgnoreMode::Include, stop)
        .filter(|entry| visible.next_if(|other| other.path() == entry.path()).is_none())
        .take(MAX_IGNORED)
        .find(|entry| matches(entry))
        .map(DirEntry::into_path)
}

/// A glob pattern, and the folder in which its search begins.
///
/// The fixed folders at the beginning of a pattern are taken out of it: `src/**/*.rs` walks only `src`, and a pattern
/// that begins with the name of an ignored folder searches that.
#[derive(Debug)]
pub(crate) struct GlobPattern {
    /// The fixed beginning, which may be absolute or empty.
    pub(super) base: PathBuf,
    matcher: GlobMatcher,
    /// True if only the file name is matched, at any depth.
    is_name: bool,
}

impl GlobPattern {
    /// Parses a pattern. A pattern without a slash matches file names at any depth.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        if pattern.trim().is_empty() {
            return Err("the pattern is empty; give one such as **/*.rs".to_owned());
        }
        let (base, rest) = split_base(pattern);
        // A folder means everything in it.
        let rest = if rest.is_empty() { "**" } else { rest };
        let matcher = GlobBuilder::new(rest)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| format!("the pattern is not a glob: {}", error.kind()))?
            .compile_matcher();
        Ok(Self { is_name: !pattern.contains('/'), base, matcher })
    }

    /// Returns true if a path relative to the base matches.
    pub(super) fn matches(&self, relative: &Path) -> bool {
        if self.is_name {
            relative.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(relative)
        }
    }
}

/// Splits a pattern at the last slash before anything that is not a plain name.
fn split_base(pattern: &str) -> (PathBuf, &str) {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let plain = &pattern[..special];
    let Some(slash) = plain.rfind('/') else { return (PathBuf::new(), pattern) };
    let (base, rest) = pattern.split_at(slash + 1);
    (PathBuf::from(base), rest)
}

/// A filter of file names, in the form in which tools of other vendors take it: `!` precedes patterns to leave out.
#[derive(Debug, Default)]
pub(super) struct NameFilter {
    included: Vec<GlobPattern>,
    excluded: Vec<GlobPattern>,
}

impl NameFilter {
    /// Parses one pattern, or several separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for part in split_commas(text) {
            let (part, list) = match part.strip_prefix('!') {
                Some(part) => (part, &mut filter.excluded),
                None => (part, &mut filter.included),
            };
            list.push(GlobPattern::parse(part.trim_start_matches("./"))?);
        }
        Ok(filter)
    }

    /// Returns true if a path relative to the root of the search passes.
    pub(super) fn passes(&self, relative: &Path) -> bool {
        let any =
            |patterns: &[GlobPattern]| patterns.iter().any(|pattern| below(pattern, relative));
        (self.included.is_empty() || any(&self.included)) && !any(&self.excluded)
    }
}

/// Returns true if a path is below the base of the pattern and the rest of it matches.
fn below(pattern: &GlobPattern, relative: &Path) -> bool {
    let base = pattern.base.components().filter(|part| matches!(part, Component::Normal(_)));
    relative.strip_prefix(base.collect::<PathBuf>()).is_ok_and(|rest| pattern.matches(rest))
}

/// Splits at commas that are not inside braces.
fn split_commas(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|char| {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        char == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

/// Cancellation and time limit of a search, which are checked often.
#[derive(Debug, Clone)]
pub(super) struct SearchDeadline {
    cancellation: CancellationToken,
    deadline: Instant,
}

impl SearchDeadline {
    pub(super) fn new(cancellation: CancellationToken, limit: Duration) -> Self {
        Self { cancellation, deadline: Instant::now() + limit }
    }

    /// Returns true if the search must stop.
    pub(super) fn is_due(&self) -> bool {
        self.is_cancelled() || self.is_late()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// A reader that fails once the search must stop, because one file can be large.
#[derive(Debug)]
pub(super) struct StoppableReader<'a, R> {
    pub(super) reader: R,
    pub(super) stop: &'a SearchDeadline,
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_due() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.reader.read(buffer)
    }
}

/// The files that a search below a folder leaves out: those that the sandbox hides from commands, those whose names
/// suggest keys, and those that rules keep from being read. A call that names one of them is asked about or denied,
/// so a call that names the folder around it must not reach it.
#[derive(Debug, Clone)]
pub(crate) struct WithheldFiles {
    workspace: Workspace,
    /// The hidden paths in the folder.
    hidden: Vec<PathBuf>,
    /// True if the name of the folder itself suggests keys: then the user was asked about everything in it.
    is_approved: bool,
    /// Files that rules of the user keep from being read.
    rules: WithheldReads,
}

impl WithheldFiles {
    /// Determines the files that are left out below `root`.
    pub(crate) fn for_root(root: &Path, ctx: &ToolContext) -> Self {
        let is_inside = |path: &&PathBuf| path.starts_with(root) && path.as_path() != root;
        Self {
            workspace: ctx.workspace.clone(),
            hidden: ctx.sandbox_paths.get().hidden.iter().filter(is_inside).cloned().collect(),
            is_approved: is_secret_file_in(root, &ctx.workspace),
            rules: ctx.withheld_reads.below(root, &ctx.workspace),
        }
    }

    /// Returns true if a rule keeps a folder below the root from being read: its content is not listed.
    pub(crate) fn is_unlisted(&self, folder: &Path) -> bool {
        self.rules.contains(folder, &self.workspace)
    }

    /// Returns true if a file or folder is hidden from commands. A root of the workspace within a hidden path is not.
    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|entry| {
            path.starts_with(entry)
                && !self
                    .workspace
                    .roots()
                    .iter()
                    .any(|root| root != entry && root.starts_with(entry) && path.starts_with(root))
        })
    }

    /// Returns true if the content of a file is not searched.
    pub(super) fn is_secret(&self, path: &Path) -> bool {
        !self.is_approved && is_secret_file_in(path, &self.workspace)
            || self.rules.contains(path, &self.workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_beginning_of_a_pattern_is_where_the_search_begins() {
        for (pattern, base, rest) in [
            ("**/*.rs", "", "**/*.rs"),
            ("src/**/*.rs", "src/", "**/*.rs"),
            ("/a/b/c*.rs", "/a/b/", "c*.rs"),
            ("../x/y.rs", "../x/", "y.rs"),
            ("{a,b}/c", "", "{a,b}/c"),
            ("a.rs", "", "a.rs"),
        ] {
            assert_eq!(split_base(pattern), (PathBuf::from(base), rest));
        }
    }

    #[test]
    fn a_pattern_without_a_slash_matches_names_at_any_depth() {
        for (pattern, path, matches) in [
            ("*.rs", "a/b/c.rs", true),
            ("**/*.rs", "c.rs", true),
            ("src/*.rs", "c.rs", true),
            ("src/*.rs", "deep/c.rs", false),
            ("src/", "deep/c.rs", true),
            ("*.{ts,tsx}", "a/b.tsx", true),
            (".env*", "a/.env.local", true),
        ] {
            assert_eq!(
                GlobPattern::parse(pattern).unwrap().matches(Path::new(path)),
                matches,
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_filter_takes_several_patterns_and_exceptions() {
        for (filter, path, passes) in [
            ("*.rs, *.toml", "a/Cargo.toml", true),
            ("*.{rs,md}", "a.md", true),
            ("*.rs,!*_test.rs", "a_test.rs", false),
            ("!vendor/**", "vendor/a/b.rs", false),
            ("!vendor/**", "src/b.rs", true),
            ("src/**/*.rs", "src/a/b.rs", true),
            ("./src/*.rs", "src/b.rs", true),
            ("src/**", "lib/b.rs", false),
        ] {
            assert_eq!(
                NameFilter::parse(filter).unwrap().passes(Path::new(path)),
                passes,
                "{filter}"
            );
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        assert!(GlobPattern::parse("a{b").unwrap_err().contains("not a glob"));
        assert!(NameFilter::parse("*.rs,[").is_err());
    }
}
