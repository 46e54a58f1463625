//! The main stream of an agent.

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

/// The events of an agent in order. While this exists, the agent waits when the queue is full; once it is dropped, the
/// agent continues without it.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::Receiver<Arc<Envelope>>,
    missed: Arc<AtomicU64>,
}

impl EventStream {
    pub(super) fn new(events: mpsc::Receiver<Arc<Envelope>>, missed: Arc<AtomicU64>) -> Self {
        Self { events, missed }
    }

    /// Returns the number of events missing because the queue was full: before the stream was taken, or after a cancel,
    /// which an idle reader must not block. The durable ones are in the log.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the next event if one is queued already.
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
