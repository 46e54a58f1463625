//! Follows the log of a session that no agent of this process runs: another program may write it.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_app::SessionRecord;
use crow_core::{event::Envelope, ids::SessionId, redact::Redactor};
use crow_runtime::{SessionError, SessionStore};
use futures_util::future::OptionFuture;
use jiff::Timestamp;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Sleep, sleep},
};

/// Shortest time between two looks at the log.
const PAUSE: Duration = Duration::from_millis(300);
/// A reading that took long is followed by a pause that is this many times as long: logs are read as a whole.
const PAUSE_FACTOR: u32 = 10;

/// What a followed log yields.
#[derive(Debug)]
pub(crate) enum StoredItem {
    /// A logged event.
    Event(Box<Envelope>),
    /// All events so far were yielded for the first time.
    CaughtUp,
    /// The log cannot be read; it is tried again.
    Unreadable(SessionError),
    /// The session was removed.
    Gone,
}

/// The events of a session and its descendants as they appear in the logs: in the order of their numbers as far as one
/// look at the logs shows them.
#[derive(Debug)]
pub(crate) struct StoredLog {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    redactor: Redactor,
    /// The number of the last event of each session: logs of several sessions are not read at one moment.
    last: BTreeMap<SessionId, u64>,
    /// What was found at the last look; `None` before the first one.
    last_look: Option<LastLook>,
    /// The last error, which is told once.
    told: Option<String>,
    pending: VecDeque<StoredItem>,
    reading: Option<JoinHandle<LogReading>>,
    pause: Pin<Box<Sleep>>,
}

/// Whether the log may have grown since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastLook {
    updated: Timestamp,
    has_writer: bool,
}

#[derive(Debug)]
struct LogReading {
    has_writer: bool,
    /// `None` if nothing was added.
    record: Result<Option<SessionRecord>, SessionError>,
    duration: Duration,
}

impl StoredLog {
    pub(crate) fn new(store: Arc<dyn SessionStore>, id: SessionId, redactor: Redactor) -> Self {
        Self {
            store,
            id,
            redactor,
            last: BTreeMap::new(),
            last_look: None,
            told: None,
            pending: VecDeque::new(),
            reading: None,
            pause: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// Returns true if another program had the session open at the last look.
    pub(crate) fn has_writer(&self) -> bool {
        self.last_look.is_some_and(|last| last.has_writer)
    }

    /// Waits for the next item. Cancel-safe.
    pub(crate) async fn next(&mut self) -> StoredItem {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return item;
            }
            tokio::select! {
                Some(read) = OptionFuture::from(self.reading.as_mut()) => {
                    self.reading = None;
                    self.pause = Box::pin(sleep(PAUSE));
                    // A task that panicked is tried again after the pause.
                    if let Ok(read) = read {
                        self.finish_reading(read);
                    }
                }
                () = &mut self.pause, if self.reading.is_none() => self.begin_reading(),
            }
        }
    }

    fn begin_reading(&mut self) {
        let (store, id, redactor) =
            (Arc::clone(&self.store), self.id.clone(), self.redactor.clone());
        let last_look = self.last_look;
        self.reading = Some(spawn_blocking(move || {
            let started = Instant::now();
            let has_writer = store.is_in_use(&id).unwrap_or(true);
            // What was written before a writer ended is read once more. One may also have come and gone since.
            let may_have_grown = last_look.is_none_or(|last| {
                let updated = store.header(&id).map(|header| header.updated_at);
                has_writer || last.has_writer || updated.ok() != Some(last.updated)
            });
            let record = if may_have_grown {
                SessionRecord::read(store.as_ref(), &id, &redactor).map(Some)
            } else {
                Ok(None)
            };
            LogReading { has_writer, record, duration: started.elapsed() }
        }));
    }

    fn finish_reading(&mut self, read: LogReading) {
        let LogReading { has_writer, record, duration } = read;
        self.pause = Box::pin(sleep(PAUSE.max(duration * PAUSE_FACTOR)));
        let is_first = self.last_look.is_none();
        match record {
            Ok(Some(record)) => {
                self.told = None;
                let updated = record.metadata.updated_at;
                self.last_look = Some(LastLook { updated, has_writer });
                self.take_events(record.events, is_first);
            }
            Ok(None) => {
                self.last_look = self.last_look.map(|last| LastLook { has_writer, ..last });
            }
            Err(SessionError::Unknown { .. }) => self.pending.push_back(StoredItem::Gone),
            Err(error) => {
                let words = error.to_string();
                if self.told.as_ref() != Some(&words) {
                    self.told = Some(words);
                    self.pending.push_back(StoredItem::Unreadable(error));
                }
            }
        }
        if is_first && self.last_look.is_some() {
            self.pending.push_back(StoredItem::CaughtUp);
        }
    }

    fn take_events(&mut self, events: Vec<Envelope>, is_first: bool) {
        for event in events {
            let last = self.last.entry(event.session_id.clone()).or_default();
            // Events without a number stand in the place of damaged lines. They are shown once.
            let is_new = event.seq.map_or(is_first, |seq| seq > *last);
            if is_new {
                *last = event.seq.unwrap_or(*last);
                self.pending.push_back(StoredItem::Event(Box::new(event)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_core::event::AgentEvent;
    use crow_runtime::MemoryStore;

    use super::*;

    fn event(session: &str, seq: Option<u64>) -> Envelope {
        let text = format!(
            r#"{{"seq":{},"time":"2026-01-01T00:00:00Z","session_id":"{session}","root_id":"root","agent":"builder","role":"primary","round":1,"type":"cancelled"}}"#,
            seq.map_or("null".to_owned(), |seq| seq.to_string()),
        );
        let event: Envelope = serde_json::from_str(&text).unwrap();
        assert_eq!(event.event, AgentEvent::Cancelled);
        event
    }

    fn taken(log: &mut StoredLog) -> Vec<(String, Option<u64>)> {
        let items = log.pending.drain(..).filter_map(|item| match item {
            StoredItem::Event(event) => Some((event.session_id.to_string(), event.seq)),
            _ => None,
        });
        items.collect()
    }

    #[tokio::test]
    async fn an_event_of_a_log_that_was_read_earlier_than_another_is_not_lost() {
        let store = Arc::new(MemoryStore::default());
        let mut log = StoredLog::new(store, SessionId::new("root"), Redactor::default());
        let first = vec![event("root", Some(1)), event("root", None), event("child", Some(3))];
        log.take_events(first.clone(), true);
        assert_eq!(taken(&mut log).len(), 3);
        // The root's log was read before its second event, the child's after its third.
        let mut second = first;
        second.insert(1, event("root", Some(2)));
        log.take_events(second, false);
        assert_eq!(taken(&mut log), [("root".to_owned(), Some(2))]);
    }

    #[tokio::test]
    async fn a_session_that_is_not_there_ends_the_log() {
        let store = Arc::new(MemoryStore::default());
        let mut log = StoredLog::new(store, SessionId::new("none"), Redactor::default());
        assert!(matches!(log.next().await, StoredItem::Gone));
    }
}
