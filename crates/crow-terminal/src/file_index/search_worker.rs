//! Search of files in threads of their own: one searches, and another lists the files when that is due.
//!
//! The state is under one lock, which is never held during a search or a walk. A newer query replaces the one that waits,
//! and cancels the one that is searched for.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    index::{FileIndex, FileIndexError},
    path_search::FileMatch,
};

/// Maximum time to wait at the end for a walk. It ends at the next file, unless the file system does not answer.
const WALK_END: Duration = Duration::from_millis(100);

/// What a worker searches in, and within which limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSearchOptions {
    /// The folder that paths are relative to.
    pub(crate) root: PathBuf,
    /// Maximum number of paths of the index.
    pub(crate) most_paths: usize,
    /// Maximum number of matches of a query.
    pub(crate) most_matches: usize,
    /// Age of the index at which a query has the files listed again.
    pub(crate) most_age: Duration,
}

/// What was found for a query.
#[derive(Debug)]
pub(crate) struct FileSearchResults {
    pub(crate) query: String,
    /// The matches, the best first.
    pub(crate) matches: Result<Vec<FileMatch>, FileIndexError>,
}

/// A function that is called by the worker's thread when there are results. It must not wait for anything.
pub(crate) type FileSearchNotifier = Arc<dyn Fn() + Send + Sync>;

/// A thread that searches for files. The first query has them listed, in a second thread. The worker ends when it is
/// dropped, which takes a moment at most.
pub(crate) struct FileSearchWorker {
    shared: Arc<SharedSearch>,
    thread: Option<JoinHandle<()>>,
}

impl FileSearchWorker {
    /// Starts the thread. It calls `notify` when there are results.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(crate) fn start(
        options: FileSearchOptions,
        notify: FileSearchNotifier,
    ) -> Result<Self, FileIndexError> {
        let shared = Arc::new(SharedSearch::default());
        let searcher = Searcher {
            shared: Arc::clone(&shared),
            options,
            notify,
            index: None,
            last: None,
            walk: None,
        };
        let thread = thread::Builder::new()
            .name("file-search".to_owned())
            .spawn(move || searcher.run())
            .map_err(FileIndexError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Asks for the matches of a query, instead of those of an earlier one. Never blocks for longer than a moment.
    pub(crate) fn request(&self, query: &str) {
        let mut state = self.shared.lock();
        state.query = Some(query.to_owned());
        self.shared.cancel_search.store(true, Ordering::Relaxed);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Takes the newest results, if there are some that were not taken yet. A query has results once more when the files
    /// were listed again meanwhile.
    pub(crate) fn try_results(&self) -> Option<FileSearchResults> {
        self.shared.lock().results.take()
    }
}

impl Drop for FileSearchWorker {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.cancel_search.store(true, Ordering::Relaxed);
        self.shared.cancel_walk.store(true, Ordering::Relaxed);
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its hook, and has no other consequence here.
            drop(thread.join());
        }
    }
}

impl fmt::Debug for FileSearchWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSearchWorker").finish_non_exhaustive()
    }
}

/// The state that the threads share.
#[derive(Debug, Default)]
struct SharedSearch {
    state: Mutex<SearchState>,
    changed: Condvar,
    cancel_search: AtomicBool,
    cancel_walk: AtomicBool,
}

#[derive(Debug, Default)]
struct SearchState {
    /// The newest query, until it is searched for.
    query: Option<String>,
    /// The outcome of a walk, until it is used.
    built: Option<Result<FileIndex, FileIndexError>>,
    results: Option<FileSearchResults>,
    is_ending: bool,
}

impl SharedSearch {
    fn lock(&self) -> MutexGuard<'_, SearchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the searching thread does next: at least one of both.
#[derive(Debug)]
struct SearchTask {
    built: Option<Result<FileIndex, FileIndexError>>,
    query: Option<String>,
}

/// An index, and when it was made.
#[derive(Debug)]
struct DatedIndex {
    index: FileIndex,
    built: Instant,
}

/// The searching thread.
struct Searcher {
    shared: Arc<SharedSearch>,
    options: FileSearchOptions,
    notify: FileSearchNotifier,
    index: Option<DatedIndex>,
    /// The last query.
    last: Option<String>,
    /// The thread that lists files.
    walk: Option<JoinHandle<()>>,
}

impl Searcher {
    fn run(mut self) {
        while let Some(SearchTask { built, query }) = self.next_task() {
            let is_asked = query.is_some();
            self.last = query.or(self.last.take());
            if built.is_some() {
                self.walk = None;
            }
            match built {
                Some(Ok(index)) => {
                    self.index = Some(DatedIndex { index, built: Instant::now() });
                    self.search();
                }
                Some(Err(error)) => self.fail(error),
                None => self.search(),
            }
            if is_asked && self.is_due() {
                self.start_walk();
            }
        }
        self.end_walk();
    }

    /// Waits for something to do. `None` if the worker ends.
    fn next_task(&self) -> Option<SearchTask> {
        let is_idle = |state: &mut SearchState| {
            !state.is_ending && state.query.is_none() && state.built.is_none()
        };
        let state = self.shared.changed.wait_while(self.shared.lock(), is_idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_ending {
            return None;
        }
        self.shared.cancel_search.store(false, Ordering::Relaxed);
        Some(SearchTask { built: state.built.take(), query: state.query.take() })
    }

    /// Searches for the last query, and reports the matches unless there is a newer one.
    fn search(&mut self) {
        let (Some(index), Some(query)) = (&mut self.index, &self.last) else { return };
        let index = &mut index.index;
        let cancel = &self.shared.cancel_search;
        if let Some(matches) = index.search(query, self.options.most_matches, cancel) {
            self.report(FileSearchResults { query: query.clone(), matches: Ok(matches) });
        }
    }

    fn fail(&self, error: FileIndexError) {
        if let Some(query) = self.last.clone() {
            self.report(FileSearchResults { query, matches: Err(error) });
        }
    }

    fn report(&self, results: FileSearchResults) {
        self.shared.lock().results = Some(results);
        (self.notify)();
    }

    /// Returns true if there is no index, or an old one, and no walk.
    fn is_due(&self) -> bool {
        let is_current = |index: &DatedIndex| index.built.elapsed() < self.options.most_age;
        // A walk that panicked has ended without an outcome.
        let goes_on =
            |walk: &JoinHandle<()>| !walk.is_finished() || self.shared.lock().built.is_some();
        !self.index.as_ref().is_some_and(is_current) && !self.walk.as_ref().is_some_and(goes_on)
    }

    fn start_walk(&mut self) {
        let (shared, options) = (Arc::clone(&self.shared), self.options.clone());
        let walk = thread::Builder::new().name("file-index".to_owned()).spawn(move || {
            let built = FileIndex::build(&options.root, options.most_paths, &shared.cancel_walk);
            shared.lock().built = Some(built);
            shared.changed.notify_all();
        });
        match walk {
            Ok(walk) => self.walk = Some(walk),
            Err(error) => self.fail(FileIndexError::Thread(error)),
        }
    }

    /// Waits for a walk that was cancelled, but not for a file system that does not answer.
    fn end_walk(&mut self) {
        let Some(walk) = self.walk.take() else { return };
        let is_walking = |state: &mut SearchState| state.built.is_none();
        let waited =
            self.shared.changed.wait_timeout_while(self.shared.lock(), WALK_END, is_walking);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        if !timeout.timed_out() {
            drop(walk.join());
        }
    }
}
