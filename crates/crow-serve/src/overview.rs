//! The list of sessions, as changes since the page saw it last.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::ids::SessionId;
use crow_runtime::{SessionFilter, SessionMetadata, SessionStore, UnusedSessions};
use crow_text::neutralise;
use futures_util::future::OptionFuture;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Sleep, sleep},
};

use crate::{
    hosted::HostedSessions,
    message::{LiveMessage, SessionEntry, SessionState},
};

/// Number of stored sessions that are listed.
const STORED: usize = 60;
/// Shortest time between two readings of the stored sessions.
const REREAD: Duration = Duration::from_secs(2);
/// A reading that took long is followed by a pause that is this many times as long.
const REREAD_PAUSE: u32 = 20;
/// Shortest time between two messages, so that 50 busy sessions do not redraw the list at every event.
const PAUSE: Duration = Duration::from_millis(40);

/// Follows the list of sessions for one page.
#[derive(Debug)]
pub(crate) struct OverviewFeed {
    hosted: Arc<HostedSessions>,
    store: Arc<dyn SessionStore>,
    changes: watch::Receiver<u64>,
    stored: Vec<SessionEntry>,
    shown: BTreeMap<SessionId, SessionEntry>,
    reading: Option<JoinHandle<ListReading>>,
    reread: Pin<Box<Sleep>>,
    pause: Pin<Box<Sleep>>,
    has_news: bool,
}

#[derive(Debug)]
struct ListReading {
    entries: Vec<SessionEntry>,
    duration: Duration,
}

impl OverviewFeed {
    pub(crate) fn new(hosted: Arc<HostedSessions>, store: Arc<dyn SessionStore>) -> Self {
        Self {
            changes: hosted.changes(),
            hosted,
            store,
            stored: Vec::new(),
            shown: BTreeMap::new(),
            reading: None,
            reread: Box::pin(sleep(Duration::ZERO)),
            pause: Box::pin(sleep(Duration::ZERO)),
            has_news: true,
        }
    }

    /// Waits for changes of the list and returns them. Cancel-safe.
    pub(crate) async fn next(&mut self) -> LiveMessage {
        loop {
            tokio::select! {
                Some(read) = OptionFuture::from(self.reading.as_mut()) => {
                    self.finish_reading(read.ok());
                }
                changed = self.changes.changed() => self.has_news |= changed.is_ok(),
                () = &mut self.reread, if self.reading.is_none() => {
                    let store = Arc::clone(&self.store);
                    self.reading = Some(spawn_blocking(move || read_stored(store.as_ref())));
                }
                () = &mut self.pause, if self.has_news => {
                    if let Some(message) = self.news() {
                        return message;
                    }
                }
            }
        }
    }

    fn finish_reading(&mut self, read: Option<ListReading>) {
        self.reading = None;
        let mut pause = REREAD;
        if let Some(ListReading { entries, duration }) = read {
            pause = pause.max(duration * REREAD_PAUSE);
            self.has_news |= entries != self.stored;
            self.stored = entries;
        }
        self.reread = Box::pin(sleep(pause));
    }

    /// Returns what changed since the last message, if anything did.
    fn news(&mut self) -> Option<LiveMessage> {
        self.has_news = false;
        self.pause = Box::pin(sleep(PAUSE));
        let mut now: BTreeMap<SessionId, SessionEntry> =
            self.stored.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        now.extend(self.hosted.entries().into_iter().map(|entry| (entry.id.clone(), entry)));
        let changed: Vec<SessionEntry> =
            now.values().filter(|entry| self.shown.get(&entry.id) != Some(entry)).cloned().collect();
        let removed: Vec<SessionId> =
            self.shown.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
        self.shown = now;
        let is_news = !changed.is_empty() || !removed.is_empty();
        is_news.then_some(LiveMessage::Sessions { changed, removed })
    }
}

impl SessionEntry {
    pub(crate) fn new(metadata: &SessionMetadata, state: SessionState) -> Self {
        let crow = metadata.crow();
        Self {
            id: metadata.session_id.clone(),
            title: neutralise(&crow.title),
            cwd: neutralise(&crow.cwd.display().to_string()),
            agent: neutralise(&metadata.agent_type),
            model: metadata.model_ref().to_string(),
            state,
            updated: metadata.updated_at,
        }
    }
}

/// Reads the list of stored sessions. Blocks.
fn read_stored(store: &dyn SessionStore) -> ListReading {
    let started = Instant::now();
    let filter = SessionFilter {
        limit: Some(STORED),
        unused: UnusedSessions::LeftOut,
        ..SessionFilter::default()
    };
    let sessions = store.list(&filter).unwrap_or_else(|error| {
        tracing::warn!(%error, "the stored sessions cannot be listed");
        Vec::new()
    });
    let entry = |metadata: SessionMetadata| {
        let is_in_use = store.is_in_use(&metadata.session_id).unwrap_or(false);
        let state = if is_in_use { SessionState::Elsewhere } else { SessionState::Stored };
        SessionEntry::new(&metadata, state)
    };
    let entries = sessions.into_iter().map(entry).collect();
    ListReading { entries, duration: started.elapsed() }
}
