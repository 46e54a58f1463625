//! Searching many files: in the order of their paths, several at a time, no further than needed.

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

/// How many files are searched before it is asked whether there is enough: at least and at most this many, and fewer
/// the more lines each of them may have.
const CHUNKS: (usize, usize) = (16, 256);
/// How many lines the files of a chunk should have at most.
const LINES_OF_CHUNK: usize = 64_000;
/// Fewer files are not worth a thread.
const WORTH_A_THREAD: usize = 16;
const MAX_THREADS: usize = 8;

/// Which files are searched.
#[derive(Debug)]
pub(super) struct SearchScope {
    /// A folder, or one file.
    pub(super) root: AllowedPath,
    /// The folder. The walk through it goes by path; what it finds is opened beneath this descriptor.
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

    /// Returns whether a file below the root is searched.
    pub(super) fn includes(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        // A file that is named itself is searched whatever its name is.
        relative.as_os_str().is_empty()
            || (self.names.passes(relative)
                && self
                    .types
                    .as_ref()
                    .is_none_or(|types| types.matched(path, false).is_whitelist()))
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct GrepResults {
    /// In the order of the paths.
    pub(super) hits: Vec<FileHits>,
    pub(super) binary: usize,
    pub(super) unreadable: usize,
    /// Files that were not searched, because their names say that they hold keys.
    pub(super) withheld: Vec<PathBuf>,
}

/// What came of one file.
enum FileSearchOutcome {
    Hits(FileHits),
    Nothing,
    Binary,
    Unreadable,
}

/// Searches file after file until `is_enough` or it is time to stop.
pub(super) fn search(
    scope: &SearchScope,
    query: &GrepQuery,
    wanted: CollectMode,
    stop: &SearchDeadline,
    is_enough: impl Fn(&[FileHits]) -> bool,
) -> GrepResults {
    let mut found = GrepResults::default();
    let withheld = RefCell::new(Vec::new());
    let mut paths = files(&scope.root, &scope.withheld, IgnoreMode::Left, stop)
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
    let size = chunk_size(wanted);
    loop {
        let chunk: Vec<PathBuf> = paths.by_ref().take(size).collect();
        for outcome in search_chunk(scope, &chunk, query, wanted, stop) {
            match outcome {
                FileSearchOutcome::Hits(hits) => found.hits.push(hits),
                FileSearchOutcome::Binary => found.binary += 1,
                FileSearchOutcome::Unreadable => found.unreadable += 1,
                FileSearchOutcome::Nothing => {}
            }
        }
        if chunk.len() < size || is_enough(&found.hits) || stop.is_due() {
            found.withheld = withheld.take();
            return found;
        }
    }
}

fn chunk_size(wanted: CollectMode) -> usize {
    let (least, most) = CHUNKS;
    match wanted {
        CollectMode::Lines(count) => (LINES_OF_CHUNK / count.max(1)).clamp(least, most),
        CollectMode::Whether | CollectMode::Number => most,
    }
}

/// Returns whether a file has a match.
pub(super) fn has_match(
    scope: &SearchScope,
    path: &Path,
    query: &GrepQuery,
    stop: &SearchDeadline,
) -> bool {
    let outcome =
        search_file(&mut query.searcher(), scope, path, query, CollectMode::Whether, stop);
    matches!(outcome, FileSearchOutcome::Hits(_))
}

fn search_chunk(
    scope: &SearchScope,
    chunk: &[PathBuf],
    query: &GrepQuery,
    wanted: CollectMode,
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
            own.push((index, search_file(&mut searcher, scope, path, query, wanted, stop)));
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
    wanted: CollectMode,
    stop: &SearchDeadline,
) -> FileSearchOutcome {
    let Ok(OpenFile { file: reader, .. }) = scope.open(path) else {
        return FileSearchOutcome::Unreadable;
    };
    let mut collector = HitCollector::new(&query.matcher, wanted);
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
