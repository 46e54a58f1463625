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
        stop::{Stop, StoppableReader},
        walk::{Ignored, files},
        withheld::WithheldFiles,
    },
    collect::{Collector, Hits, Wanted},
    query::Query,
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
pub(super) struct Scope {
    /// A folder, or one file.
    pub(super) root: AllowedPath,
    /// The folder. The walk through it goes by path; what it finds is opened beneath this descriptor.
    pub(super) folder: Option<Directory>,
    pub(super) names: NameFilter,
    pub(super) types: Option<Types>,
    pub(super) withheld: WithheldFiles,
}

impl Scope {
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
pub(super) struct Found {
    /// In the order of the paths.
    pub(super) hits: Vec<Hits>,
    pub(super) binary: usize,
    pub(super) unreadable: usize,
    /// Files that were not searched, because their names say that they hold keys.
    pub(super) withheld: Vec<PathBuf>,
}

/// What came of one file.
enum Outcome {
    Hits(Hits),
    Nothing,
    Binary,
    Unreadable,
}

/// Searches file after file until `is_enough` or it is time to stop.
pub(super) fn search(
    scope: &Scope,
    query: &Query,
    wanted: Wanted,
    stop: &Stop,
    is_enough: impl Fn(&[Hits]) -> bool,
) -> Found {
    let mut found = Found::default();
    let withheld = RefCell::new(Vec::new());
    let mut paths = files(&scope.root, &scope.withheld, Ignored::Left, stop)
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
                Outcome::Hits(hits) => found.hits.push(hits),
                Outcome::Binary => found.binary += 1,
                Outcome::Unreadable => found.unreadable += 1,
                Outcome::Nothing => {}
            }
        }
        if chunk.len() < size || is_enough(&found.hits) || stop.is_due() {
            found.withheld = withheld.take();
            return found;
        }
    }
}

fn chunk_size(wanted: Wanted) -> usize {
    let (least, most) = CHUNKS;
    match wanted {
        Wanted::Lines(count) => (LINES_OF_CHUNK / count.max(1)).clamp(least, most),
        Wanted::Whether | Wanted::Number => most,
    }
}

/// Returns whether a file has a match.
pub(super) fn has_match(scope: &Scope, path: &Path, query: &Query, stop: &Stop) -> bool {
    let outcome = search_file(&mut query.searcher(), scope, path, query, Wanted::Whether, stop);
    matches!(outcome, Outcome::Hits(_))
}

fn search_chunk(
    scope: &Scope,
    chunk: &[PathBuf],
    query: &Query,
    wanted: Wanted,
    stop: &Stop,
) -> Vec<Outcome> {
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
    scope: &Scope,
    path: &Path,
    query: &Query,
    wanted: Wanted,
    stop: &Stop,
) -> Outcome {
    let Ok(OpenFile { file: reader, .. }) = scope.open(path) else { return Outcome::Unreadable };
    let mut collector = Collector::new(&query.matcher, wanted);
    let reader = StoppableReader { reader, stop };
    if searcher.search_reader(&query.matcher, reader, &mut collector).is_err() {
        return if stop.is_due() { Outcome::Nothing } else { Outcome::Unreadable };
    }
    if collector.is_binary {
        return Outcome::Binary;
    }
    if collector.matches == 0 {
        return Outcome::Nothing;
    }
    Outcome::Hits(Hits {
        path: path.to_owned(),
        lines: collector.lines,
        matches: collector.matches,
    })
}
