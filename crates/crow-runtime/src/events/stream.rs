//! The one main stream of an agent.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use crow_core::event::Envelope;
use futures_util::Stream;
use tokio::sync::mpsc;

/// The events of an agent in order. While it is held, the agent waits when its queue is full; when it is dropped, the
/// agent goes on without it.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::Receiver<Arc<Envelope>>,
    missed: Arc<AtomicU64>,
}

impl EventStream {
    pub(super) fn new(events: mpsc::Receiver<Arc<Envelope>>, missed: Arc<AtomicU64>) -> Self {
        Self { events, missed }
    }

    /// Returns how many events are missing because the queue was full: before the stream was taken, or after a cancel
    /// that a reader who did not read may not hold up. The durable ones stand in the log.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns an event that is there already.
    pub fn try_next(&mut self) -> Option<Arc<Envelope>> {
        self.events.try_recv().ok()
    }
}

impl Stream for EventStream {
    type Item = Arc<Envelope>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(cx)
    }
}
