//! Follows the log of a session that no agent of this process runs: another program may write it.

use std::{
    collections::VecDeque,
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
}

/// The events of a session and its descendants, in the order of their numbers, as they appear in the logs.
#[derive(Debug)]
pub(crate) struct StoredLog {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    redactor: Redactor,
    last_seq: u64,
    /// When the session was last updated, as read with its log.
    updated: Option<Timestamp>,
    has_caught_up: bool,
    pending: VecDeque<StoredItem>,
    reading: Option<JoinHandle<LogReading>>,
    pause: Pin<Box<Sleep>>,
}

#[derive(Debug)]
struct LogReading {
    record: Result<Option<SessionRecord>, SessionError>,
    duration: Duration,
}

impl StoredLog {
    pub(crate) fn new(store: Arc<dyn SessionStore>, id: SessionId, redactor: Redactor) -> Self {
        Self {
            store,
            id,
            redactor,
            last_seq: 0,
            updated: None,
            has_caught_up: false,
            pending: VecDeque::new(),
            reading: None,
            pause: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// Waits for the next item. Cancel-safe.
    pub(crate) async fn next(&mut self) -> StoredItem {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return item;
            }
            tokio::select! {
                Some(read) = OptionFuture::from(self.reading.as_mut()) => self.finish_reading(read.ok()),
                () = &mut self.pause, if self.reading.is_none() => self.begin_reading(),
            }
        }
    }

    fn begin_reading(&mut self) {
        let (store, id, redactor) = (Arc::clone(&self.store), self.id.clone(), self.redactor.clone());
        let known = self.updated;
        self.reading = Some(spawn_blocking(move || {
            let started = Instant::now();
            // Without a writer nothing is added, but one may have come and gone since the last look.
            let has_writer = || store.is_in_use(&id).unwrap_or(true);
            let is_updated =
                || store.header(&id).map_or(true, |header| Some(header.updated_at) != known);
            let record = if known.is_none() || has_writer() || is_updated() {
                SessionRecord::read(store.as_ref(), &id, &redactor).map(Some)
            } else {
                Ok(None)
            };
            LogReading { record, duration: started.elapsed() }
        }));
    }

    fn finish_reading(&mut self, read: Option<LogReading>) {
        self.reading = None;
        let Some(LogReading { record, duration }) = read else { return };
        self.pause = Box::pin(sleep(PAUSE.max(duration * PAUSE_FACTOR)));
        match record {
            Ok(Some(record)) => {
                self.updated = Some(record.metadata.updated_at);
                for event in record.events {
                    // Events without a number stand in the place of damaged lines. They are shown once.
                    let is_new = event.seq.map_or(!self.has_caught_up, |seq| seq > self.last_seq);
                    if is_new {
                        self.last_seq = event.seq.unwrap_or(self.last_seq);
                        self.pending.push_back(StoredItem::Event(Box::new(event)));
                    }
                }
            }
            Ok(None) => {}
            Err(error) => self.pending.push_back(StoredItem::Unreadable(error)),
        }
        if !self.has_caught_up {
            self.has_caught_up = true;
            self.pending.push_back(StoredItem::CaughtUp);
        }
    }
}
