//! The files that complete what is typed behind `@`: a search in threads of its own, started when it is first needed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::chat_loop::ChatLoop;
use crate::file_index::{FileSearchNotifier, FileSearchOptions, FileSearchWorker};

/// Maximum number of paths that are searched.
const MOST_PATHS: usize = 500_000;
/// Maximum number of matches of a query.
const MOST_MATCHES: usize = 200;
/// Age from which on the files are listed again.
const MOST_AGE: Duration = Duration::from_secs(30);

/// The search for files of the prompt.
#[derive(Debug)]
pub(super) struct FileCompletion {
    worker: Option<(PathBuf, FileSearchWorker)>,
    /// The last query.
    query: Option<String>,
    changed: Arc<Notify>,
}

impl FileCompletion {
    pub(super) fn new() -> Self {
        Self { worker: None, query: None, changed: Arc::new(Notify::new()) }
    }

    /// Searches for a query in a folder, if the query is another one than before.
    pub(super) fn request(&mut self, query: Option<String>, root: impl FnOnce() -> PathBuf) {
        if self.query == query {
            return;
        }
        self.query.clone_from(&query);
        let Some(query) = query else { return };
        let root = root();
        if self.worker.as_ref().is_none_or(|(known, _)| *known != root) {
            let changed = Arc::clone(&self.changed);
            let notifier: FileSearchNotifier = Arc::new(move || changed.notify_one());
            let options = FileSearchOptions {
                root: root.clone(),
                most_paths: MOST_PATHS,
                most_matches: MOST_MATCHES,
                most_age: MOST_AGE,
            };
            // Without a thread there is no completion.
            self.worker = FileSearchWorker::start(options, notifier).ok().map(|one| (root, one));
        }
        if let Some((_, worker)) = &self.worker {
            worker.request(&query);
        }
    }

    /// Waits for matches. Safe to drop at any time.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let changed = Arc::clone(&self.changed);
        async move { changed.notified().await }
    }
}

/// Shows the matches that have arrived.
pub(super) fn on_file_matches(chat: &mut ChatLoop) {
    let Some((_, worker)) = &chat.files.worker else { return };
    if let Some(results) = worker.try_results()
        && let Some(editor) = chat.typing.editor()
    {
        // Files that cannot be listed complete nothing.
        editor.set_file_matches(&results.query, results.matches.unwrap_or_default());
        chat.show_input();
    }
}
