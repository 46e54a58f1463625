//! The list of sessions: one reader of the stored ones for all pages, and the changes that each page is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::ids::SessionId;
use crow_runtime::{SessionFilter, SessionMetadata, SessionStore, UnusedSessions};
use crow_text::{neutralise, shorten};
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    hosted::HostedSessions,
    message::{LiveMessage, SessionActivity, SessionEntry},
};

/// Number of stored sessions that are listed.
const MAX_STORED: usize = 60;
/// Shortest time between two readings of the stored sessions.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// A reading that took long is followed by a pause that is this many times as long.
const READ_PAUSE_FACTOR: u32 = 20;
/// Shortest time between two messages to a page, so that 50 busy sessions do not redraw the list at every event.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(40);
/// Maximum length of a text in the list, in bytes.
const MAX_TEXT: usize = 300;

/// The stored sessions, read again and again while a page looks at them.
#[derive(Debug)]
pub(crate) struct StoredSessions {
    store: Arc<dyn SessionStore>,
    entries: watch::Sender<Arc<Vec<SessionEntry>>>,
    /// A page wants to see the list, or a session was left by its agent.
    wanted: Notify,
}

impl StoredSessions {
    pub(crate) fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store, entries: watch::Sender::default(), wanted: Notify::new() }
    }

    fn subscribe(&self) -> watch::Receiver<Arc<Vec<SessionEntry>>> {
        let entries = self.entries.subscribe();
        self.wanted.notify_one();
        entries
    }

    /// Reads the list until `ended`, while there are pages.
    pub(crate) async fn keep_reading(&self, ended: CancellationToken) {
        let reading = async {
            loop {
                if self.entries.receiver_count() == 0 {
                    self.wanted.notified().await;
                }
                let store = Arc::clone(&self.store);
                let started = Instant::now();
                if let Ok(entries) = spawn_blocking(move || read_stored(store.as_ref())).await {
                    self.entries.send_if_modified(|known| {
                        let is_new = **known != entries;
                        if is_new {
                            *known = Arc::new(entries);
                        }
                        is_new
                    });
                }
                let pause = READ_INTERVAL.max(started.elapsed() * READ_PAUSE_FACTOR);
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.wanted.notified() => {}
                }
            }
        };
        ended.run_until_cancelled(reading).await;
    }
}

/// Follows the list of sessions for one page.
#[derive(Debug)]
pub(crate) struct OverviewFeed {
    hosted: Arc<HostedSessions>,
    stored: Arc<StoredSessions>,
    hosted_changes: watch::Receiver<u64>,
    stored_entries: watch::Receiver<Arc<Vec<SessionEntry>>>,
    shown: BTreeMap<SessionId, SessionEntry>,
    /// The sessions that had an agent here at the last message.
    hosted_ids: BTreeSet<SessionId>,
    /// Sessions that their agents left since the stored ones were read.
    left: BTreeSet<SessionId>,
    pause: Pin<Box<Sleep>>,
    has_news: bool,
}

impl OverviewFeed {
    pub(crate) fn new(hosted: Arc<HostedSessions>, stored: Arc<StoredSessions>) -> Self {
        Self {
            hosted_changes: hosted.changes(),
            stored_entries: stored.subscribe(),
            hosted,
            stored,
            shown: BTreeMap::new(),
            hosted_ids: BTreeSet::new(),
            left: BTreeSet::new(),
            pause: Box::pin(sleep(Duration::ZERO)),
            has_news: true,
        }
    }

    /// Waits for changes of the list and returns them. Cancel-safe.
    pub(crate) async fn next(&mut self) -> LiveMessage {
        loop {
            tokio::select! {
                changed = self.hosted_changes.changed() => self.has_news |= changed.is_ok(),
                changed = self.stored_entries.changed() => {
                    self.left.clear();
                    self.has_news |= changed.is_ok();
                }
                () = &mut self.pause, if self.has_news => {
                    if let Some(message) = self.news() {
                        return message;
                    }
                }
            }
        }
    }

    /// Returns what changed since the last message, if anything did.
    fn news(&mut self) -> Option<LiveMessage> {
        self.has_news = false;
        self.pause = Box::pin(sleep(MESSAGE_INTERVAL));
        let hosted = self.hosted.entries();
        let hosted_ids: BTreeSet<SessionId> = hosted.iter().map(|entry| entry.id.clone()).collect();
        let known = self.left.len();
        self.left.extend(self.hosted_ids.difference(&hosted_ids).cloned());
        if self.left.len() > known {
            self.stored.wanted.notify_one();
        }
        self.hosted_ids = hosted_ids;
        let stored = self.stored_entries.borrow().iter().cloned().collect::<Vec<_>>();
        let stored = stored.into_iter().map(|mut entry| {
            // It was in use when it was read: by the agent that left it.
            if self.left.contains(&entry.id) && entry.state == SessionActivity::Elsewhere {
                entry.state = SessionActivity::Stored;
            }
            entry
        });
        let now: BTreeMap<SessionId, SessionEntry> =
            stored.chain(hosted).map(|entry| (entry.id.clone(), entry)).collect();
        let is_new = |entry: &&SessionEntry| self.shown.get(&entry.id) != Some(*entry);
        let changed: Vec<SessionEntry> = now.values().filter(is_new).cloned().collect();
        let removed: Vec<SessionId> =
            self.shown.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
        self.shown = now;
        let is_news = !changed.is_empty() || !removed.is_empty();
        is_news.then_some(LiveMessage::Sessions { changed, removed })
    }
}

impl SessionEntry {
    pub(crate) fn new(metadata: &SessionMetadata, state: SessionActivity) -> Self {
        let crow = metadata.crow();
        let text = |text: &str| shorten(&neutralise(text), MAX_TEXT);
        Self {
            id: metadata.session_id.clone(),
            title: text(&crow.title),
            cwd: text(&crow.cwd.display().to_string()),
            agent: text(&metadata.agent_type),
            model: text(&metadata.model_ref().to_string()),
            state,
            updated: metadata.updated_at,
        }
    }
}

/// Reads the list of stored sessions. Blocks.
fn read_stored(store: &dyn SessionStore) -> Vec<SessionEntry> {
    let filter = SessionFilter {
        limit: Some(MAX_STORED),
        unused: UnusedSessions::LeftOut,
        ..SessionFilter::default()
    };
    let sessions = store.list(&filter).unwrap_or_else(|error| {
        tracing::warn!(%error, "the stored sessions cannot be listed");
        Vec::new()
    });
    let entry = |metadata: SessionMetadata| {
        let is_in_use = store.is_in_use(&metadata.session_id).unwrap_or(false);
        let state = if is_in_use { SessionActivity::Elsewhere } else { SessionActivity::Stored };
        SessionEntry::new(&metadata, state)
    };
    sessions.into_iter().map(entry).collect()
}
