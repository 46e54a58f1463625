//! An index of the files below a folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use ignore::{DirEntry, Walk, WalkBuilder};
use thiserror::Error;

use super::{
    path_search::{FileMatch, MatchedEntries, search},
    path_table::{PathTable, ROOT},
};

/// The reason why there is no index.
#[derive(Debug, Error)]
pub(crate) enum FileIndexError {
    #[error("list the files of {}", path.display())]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("start a thread that lists files")]
    Thread(#[source] io::Error),
    #[error("list files: cancelled")]
    Cancelled,
}

/// The paths of the files and directories below a folder.
///
/// An index takes about 33 bytes a path, and less than 120 for names of up to 96 bytes.
#[derive(Debug)]
pub(crate) struct FileIndex {
    table: PathTable,
    last: Option<MatchedEntries>,
}

impl FileIndex {
    /// Lists what is below `root`: hidden files too, but not `.git`, and not what the ignore files of the project, of the
    /// folders above it and of the user exclude, nor what cannot be read or written in a prompt. Symbolic links are not
    /// followed. Blocks until all is listed, until there are `most_paths` paths, or until `cancel` is set.
    ///
    /// # Errors
    /// Fails if the root cannot be listed, and if it was cancelled.
    pub(crate) fn build(
        root: &Path,
        most_paths: usize,
        cancel: &AtomicBool,
    ) -> Result<Self, FileIndexError> {
        let unusable = |source| FileIndexError::Root { path: root.to_owned(), source };
        drop(fs::read_dir(root).map_err(unusable)?);
        let mut table = PathTable::default();
        add_all(&mut table, walk(root), most_paths, cancel)?;
        table.shrink();
        Ok(Self { table, last: None })
    }

    /// Returns at most `limit` paths that have the characters of the query in their order, the best first: by a score
    /// that prefers characters in a row, at the beginning of words and in the name of the file, then shorter ones, then
    /// in the order of the names. Case counts if the query has capitals. The empty query, and one that ends with a slash,
    /// lists what is in the directory first. Of more than 4096 matches, those with the best names are scored.
    ///
    /// Returns `None` if `cancel` was set meanwhile. A query that begins with the last one goes through its matches only.
    pub(crate) fn search(
        &mut self,
        query: &str,
        limit: usize,
        cancel: &AtomicBool,
    ) -> Option<Vec<FileMatch>> {
        search(&self.table, &mut self.last, query, limit, cancel)
    }
}

/// Adds what a walk lists to a table.
fn add_all(
    table: &mut PathTable,
    walk: Walk,
    most_paths: usize,
    cancel: &AtomicBool,
) -> Result<(), FileIndexError> {
    // The directories that lead to the current entry.
    let mut directories = vec![ROOT];
    for entry in walk {
        if cancel.load(Ordering::Relaxed) {
            return Err(FileIndexError::Cancelled);
        }
        let Ok(entry) = entry else { continue };
        if entry.depth() == 0 {
            continue;
        }
        directories.truncate(entry.depth());
        let (Some(name), Some(parent)) = (usable_name(&entry), directories.last()) else {
            continue;
        };
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let has_room = table.len() < most_paths
            && if is_directory {
                let number = table.push_directory(*parent, name);
                directories.extend(number);
                number.is_some()
            } else {
                table.push_file(*parent, name)
            };
        if !has_room {
            break;
        }
    }
    Ok(())
}

/// Returns the name of an entry if it can be written in a prompt.
fn usable_name(entry: &DirEntry) -> Option<&str> {
    entry.file_name().to_str().filter(|name| !name.contains(char::is_control))
}

/// Returns a walk that lists a directory before what is in it, in the order of the names.
/// A directory is left out if reading its ignore files would wait for a writer; so are the rules of the project if that holds
/// for the root or a directory above it.
fn walk(root: &Path) -> Walk {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            entry.depth() == 0
                || usable_name(entry).is_some_and(|name| name != ".git")
                    && !has_odd_ignore_file(entry)
        });
    if !root.ancestors().all(crow_fs::has_readable_ignore_files) {
        walk.ignore(false).git_ignore(false).git_exclude(false).parents(false);
    }
    walk.build()
}

/// Returns true if an entry is a directory with an ignore file that is a named pipe or a device.
fn has_odd_ignore_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
        && !crow_fs::has_readable_ignore_files(entry.path())
}

#[cfg(test)]
impl FileIndex {
    /// Returns the number of paths.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of bytes that the index takes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.table.memory()
            + self.last.as_ref().map_or(0, MatchedEntries::memory)
    }

    /// Makes an index of paths in the order of a walk; those of directories end with a slash.
    pub(super) fn of_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = PathTable::default();
        let mut directories: Vec<(String, u32)> = vec![(String::new(), ROOT)];
        for path in paths {
            while !path.starts_with(&directories.last().unwrap().0) {
                directories.pop();
            }
            let (parent, number) = directories.last().unwrap();
            let name = &path[parent.len()..];
            if let Some(name) = name.strip_suffix('/') {
                let number = table.push_directory(*number, name).unwrap();
                directories.push((path.to_owned(), number));
            } else {
                assert!(table.push_file(*number, name));
            }
        }
        table.shrink();
        Self { table, last: None }
    }
}
