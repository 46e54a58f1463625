//! The one way in which tools walk through folders.

use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use super::stop::Stop;

/// How many files are looked at to find out whether only ignored ones match.
const MAX_IGNORED: usize = 20_000;

/// Which files a walk finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    /// Those that no ignore file names.
    Left,
    /// All but `.git`.
    Found,
}

/// Prepares a walk: hidden files too, ignored ones not (with or without git), never into `.git`, never through
/// symbolic links, always in the same order. A folder that is named itself is walked even if it is ignored.
pub(crate) fn walker(root: &Path) -> WalkBuilder {
    let mut walker = WalkBuilder::new(root);
    walker
        .hidden(false)
        .require_git(false)
        // The user's own ignore file lies at home, which is not ours to read.
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    walker
}

/// Walks through the files below `root`, until it is time to stop.
pub(super) fn files<'a>(
    root: &Path,
    ignored: Ignored,
    stop: &'a Stop,
) -> impl Iterator<Item = DirEntry> + 'a {
    let mut walker = walker(root);
    if ignored == Ignored::Found {
        walker.ignore(false).git_ignore(false).git_exclude(false).parents(false);
    }
    walker
        .build()
        .take_while(|_| !stop.is_due())
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()))
}

/// Finds the first ignored file that matches, for a search that found nothing else.
pub(super) fn first_ignored(
    root: &Path,
    stop: &Stop,
    mut matches: impl FnMut(&DirEntry) -> bool,
) -> Option<PathBuf> {
    // Both walks have the same order, so what only the wider one comes across is ignored.
    let mut left = files(root, Ignored::Left, stop).peekable();
    files(root, Ignored::Found, stop)
        .filter(|entry| left.next_if(|other| other.path() == entry.path()).is_none())
        .take(MAX_IGNORED)
        .find(|entry| matches(entry))
        .map(DirEntry::into_path)
}
