//! Search of many files: in the order of their paths, several at a time, no further than needed.
//!
//! The walk is divided into chunks. Threads take the files of a chunk one by one, and the outcomes are sorted by
//! index. After each chunk the search ends if there are enough hits.

use std::{
    cell::RefCell,
    io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crow_fs::Directory;
use grep_searcher::Searcher;
use ignore::types::Types;

use super::{
    super::{
        files::NameFilter,
        search_deadline::{SearchDeadline, StoppableReader},
        walk::{IgnoreMode, files},
        withheld_files::WithheldFiles,
    },
    collect::{CollectMode, FileHits, HitCollector},
    query::GrepQuery,
};
use crate::{
    file::{LoadError, OpenFile, open, open_entry},
    paths::AllowedPath,
};

/// Fewest and most files of a chunk, after which the search may end. The more lines each file may have, the smaller
/// is the chunk.
const CHUNKS: (usize, usize) = (16, 256);
/// Most lines that the files of a chunk should have.
const LINES_OF_CHUNK: usize = 64_000;
/// Number of files for which another thread is worth its cost.
const WORTH_A_THREAD: usize = 16;
const MAX_THREADS: usize = 8;

/// The files to search.
#[derive(Debug)]
pub(super) struct SearchScope {
    /// A folder, or one file.
    pub(super) root: AllowedPath,
    /// The folder, unless the root is a file. The walk through it goes by path; its files are opened beneath this
    /// descriptor.
    pub(super) folder: Option<Directory>,
    pub(super) names: NameFilter,
    pub(super) types: Option<Types>,
    pub(super) withheld: WithheldFiles,
}

impl SearchScope {
    /// Opens a file that the walk found.
    fn open(&self, path: &Path) -> Result<OpenFile, LoadError> {
        let relative = path.strip_prefix(&self.root).map_err(io::Error::other)?;
        match &self.folder {
            Some(folder) if !relative.as_os_str().is_empty() => {
                let (directory, name) = folder.open_parent_beneath(relative)?;
                open_entry(&directory, &name)
            }
            Some(_) | None => open(&self.root),
        }
    }

    /// Returns true if a file below the root is searched.
    pub(super) fn includes(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        // A file that is the root itself is searched whatever its name is.
        relative.as_os_str().is_empty()
            || (self.names.passes(relative)
                && self
                    .types
                    .as_ref()
                    .is_none_or(|types| types.matched(path, false).is_whitelist()))
    }
}

/// The results of a search.
#[derive(Debug, Default)]
pub(super) struct GrepResults {
    /// Files with hits, in the order of their paths.
    pub(super) hits: Vec<FileHits>,
    pub(super) binary: usize,
    pub(super) unreadable: usize,
    /// Files that were not searched, because their names suggest keys or a rule of the user withholds them.
    pub(super) withheld: Vec<PathBuf>,
}

/// The outcome of the search of one file.
enum FileSearchOutcome {
    Hits(FileHits),
    Nothing,
    Binary,
    Unreadable,
}

/// Searches file after file until `is_enough` returns true or the search must stop.
pub(super) fn search(
    scope: &SearchScope,
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
    is_enough: impl Fn(&[FileHits]) -> bool,
) -> GrepResults {
    let mut results = GrepResults::default();
    let withheld = RefCell::new(Vec::new());
    let mut paths = files(&scope.root, &scope.withheld, IgnoreMode::Skip, stop)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(ignore::DirEntry::into_path)
        .filter(|path| scope.includes(path))
        .filter(|path| {
            let is_secret = scope.withheld.is_secret(path);
            if is_secret {
                withheld.borrow_mut().push(path.clone());
            }
            !is_secret
        });
    let size = chunk_size(mode);
    loop {
        // One chunk at a time, so that the walk goes no further than needed.
        let chunk: Vec<PathBuf> = paths.by_ref().take(size).collect();
        for outcome in search_chunk(scope, &chunk, query, mode, stop) {
            match outcome {
                FileSearchOutcome::Hits(hits) => results.hits.push(hits),
                FileSearchOutcome::Binary => results.binary += 1,
                FileSearchOutcome::Unreadable => results.unreadable += 1,
                FileSearchOutcome::Nothing => {}
            }
        }
        if chunk.len() < size || is_enough(&results.hits) || stop.is_due() {
            results.withheld = withheld.take();
            return results;
        }
    }
}

fn chunk_size(mode: CollectMode) -> usize {
    let (least, most) = CHUNKS;
    match mode {
        CollectMode::Lines(count) => (LINES_OF_CHUNK / count.max(1)).clamp(least, most),
        CollectMode::AnyMatch | CollectMode::Count => most,
    }
}

/// Returns true if a file has a match.
pub(super) fn has_match(
    scope: &SearchScope,
    path: &Path,
    query: &GrepQuery,
    stop: &SearchDeadline,
) -> bool {
    let outcome =
        search_file(&mut query.searcher(), scope, path, query, CollectMode::AnyMatch, stop);
    matches!(outcome, FileSearchOutcome::Hits(_))
}

/// Searches the files of a chunk in parallel. Returns their outcomes in order.
fn search_chunk(
    scope: &SearchScope,
    chunk: &[PathBuf],
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
) -> Vec<FileSearchOutcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(chunk.len()));
    let work = || {
        let mut searcher = query.searcher();
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = chunk.get(index) else { break };
            own.push((index, search_file(&mut searcher, scope, path, query, mode, stop)));
        }
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(MAX_THREADS).min(chunk.len() / WORTH_A_THREAD);
    thread::scope(|threads_of_chunk| {
        for _ in 1..threads {
            threads_of_chunk.spawn(work);
        }
        work();
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn search_file(
    searcher: &mut Searcher,
    scope: &SearchScope,
    path: &Path,
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
) -> FileSearchOutcome {
    let Ok(OpenFile { file: reader, .. }) = scope.open(path) else {
        return FileSearchOutcome::Unreadable;
    };
    let mut collector = HitCollector::new(&query.matcher, mode);
    let reader = StoppableReader { reader, stop };
    if searcher.search_reader(&query.matcher, reader, &mut collector).is_err() {
        return if stop.is_due() {
            FileSearchOutcome::Nothing
        } else {
            FileSearchOutcome::Unreadable
        };
    }
    if collector.is_binary {
        return FileSearchOutcome::Binary;
    }
    if collector.matches == 0 {
        return FileSearchOutcome::Nothing;
    }
    FileSearchOutcome::Hits(FileHits {
        path: path.to_owned(),
        lines: collector.lines,
        matches: collector.matches,
    })
}
