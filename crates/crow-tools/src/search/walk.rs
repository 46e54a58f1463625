//! The walk through folders that all tools share.

use std::{
    io,
    path::{Path, PathBuf},
};

use crow_fs::{Directory, EntryMetadata, EntryName};
use ignore::{DirEntry, WalkBuilder};

use super::{search_deadline::SearchDeadline, withheld_files::WithheldFiles};

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
/// git). It never enters `.git`, symbolic links, or folders that are hidden from commands. A root that is ignored is
/// walked all the same.
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
            entry.depth() == 0 || entry.file_name() != ".git" && !withheld.is_hidden(entry.path())
        });
    walker
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
        walker.ignore(false).git_ignore(false).git_exclude(false).parents(false);
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
