//! An index of the files below a folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ignore::{DirEntry, Walk, WalkBuilder};
use thiserror::Error;

use super::{
    path_search::{FileMatch, MatchedEntries, search},
    path_table::{PathTable, ROOT},
};

/// The reason why there is no index.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileIndexError {
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
pub struct FileIndex {
    table: PathTable,
    last: Option<MatchedEntries>,
    is_cut: bool,
    skipped: usize,
    unreadable: usize,
}

impl FileIndex {
    /// Lists what is below `root`: hidden files too, but not `.git`, and not what the ignore files of the project, of the
    /// folders above it and of the user exclude. Symbolic links are not followed. Blocks until all is listed, until there
    /// are `most_paths` paths, or until `cancel` is set.
    ///
    /// # Errors
    /// Fails if the root cannot be listed, and if it was cancelled.
    pub fn build(
        root: &Path,
        most_paths: usize,
        cancel: &AtomicBool,
    ) -> Result<Self, FileIndexError> {
        let unusable = |source| FileIndexError::Root { path: root.to_owned(), source };
        drop(fs::read_dir(root).map_err(unusable)?);
        let skipped = Arc::new(AtomicUsize::new(0));
        let mut index = Self {
            table: PathTable::default(),
            last: None,
            is_cut: false,
            skipped: 0,
            unreadable: 0,
        };
        index.add_all(walk(root, &skipped), most_paths, cancel)?;
        index.skipped = skipped.load(Ordering::Relaxed);
        index.table.shrink();
        Ok(index)
    }

    fn add_all(
        &mut self,
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
            let Ok(entry) = entry else {
                self.unreadable += 1;
                continue;
            };
            if entry.depth() == 0 {
                continue;
            }
            directories.truncate(entry.depth());
            let (Some(name), Some(parent)) = (usable_name(&entry), directories.last()) else {
                continue;
            };
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let has_room = self.table.len() < most_paths
                && if is_directory {
                    let number = self.table.push_directory(*parent, name);
                    directories.extend(number);
                    number.is_some()
                } else {
                    self.table.push_file(*parent, name)
                };
            if !has_room {
                self.is_cut = true;
                break;
            }
        }
        Ok(())
    }

    /// Returns at most `limit` paths that have the characters of the query in their order, the best first: by a score
    /// that prefers characters in a row, at the beginning of words and in the name of the file, then shorter ones, then
    /// in the order of the names. Case counts if the query has capitals. The empty query, and one that ends with a slash,
    /// lists what is in the directory first. Of more than 4096 matches, those with the best names are scored.
    ///
    /// Returns `None` if `cancel` was set meanwhile. A query that begins with the last one goes through its matches only.
    pub fn search(
        &mut self,
        query: &str,
        limit: usize,
        cancel: &AtomicBool,
    ) -> Option<Vec<FileMatch>> {
        search(&self.table, &mut self.last, query, limit, cancel)
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns true if there are no paths.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if there are more paths than the index was to have.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns how many entries were left out since their names are not UTF-8 or have control characters. What is in such
    /// directories is not counted.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns how many entries could not be read.
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Returns the number of bytes that the index takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.table.memory()
            + self.last.as_ref().map_or(0, MatchedEntries::memory)
    }
}

/// Returns the name of an entry if it can be written in a prompt.
fn usable_name(entry: &DirEntry) -> Option<&str> {
    entry.file_name().to_str().filter(|name| !name.contains(char::is_control))
}

/// Returns a walk that lists a directory before what is in it, in the order of the names.
fn walk(root: &Path, skipped: &Arc<AtomicUsize>) -> Walk {
    let skipped = Arc::clone(skipped);
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            if entry.depth() == 0 {
                return true;
            }
            let is_usable = usable_name(entry).is_some();
            skipped.fetch_add(usize::from(!is_usable), Ordering::Relaxed);
            is_usable && entry.file_name() != ".git"
        })
        .build()
}

#[cfg(test)]
impl FileIndex {
    /// Makes an index of paths in the order of a walk; those of directories end with a slash.
    pub(crate) fn of_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
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
        Self { table, last: None, is_cut: false, skipped: 0, unreadable: 0 }
    }
}
