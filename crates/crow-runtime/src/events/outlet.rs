//! The single exit of the events of a tree of agents, in one order.
//!
//! Two kinds of listeners: one main stream (a bounded queue with backpressure: the agent waits while it is full) and
//! any
//! number of observers (a broadcast ring that never makes the agent wait). A sender first reserves an [`EventSlot`] of
//! the
//! main stream, so the wait happens before an event is numbered and logged, never between its log line and its
//! delivery.
//!
//! A full main stream is not waited for if it was never taken, or once an agent that is being cancelled waited
//! [`PATIENCE_WHEN_CANCELLED`] for it (`is_stalled`); its events are then dropped and counted. A closed one is skipped.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crow_core::{event::Envelope, ids::SessionId};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::{EventStream, OpenReply, open_reply::OpenReplies};

/// Capacity of the main stream, in events.
const STREAM: usize = 1024;
/// Number of events that an observer may be behind before it gets a lag report.
const RING: usize = 1024;
/// Time that an event waits for a main stream that is not read, once the agent is being cancelled.
const PATIENCE_WHEN_CANCELLED: Duration = Duration::from_millis(200);

/// The single exit of the events of a tree of agents: its main stream and its observers.
#[derive(Debug)]
pub(crate) struct Outlet {
    receiver: Mutex<Option<mpsc::Receiver<Arc<Envelope>>>>,
    /// True once the main stream was taken.
    is_taken: AtomicBool,
    /// True if a cancelled agent timed out waiting for the main stream. Other cancelled agents then do not wait either,
    /// until the stream is read again.
    is_stalled: AtomicBool,
    /// Number of events missing from the stream because its queue was full.
    missed: Arc<AtomicU64>,
    live: Mutex<LiveStreams>,
}

#[derive(Debug)]
struct LiveStreams {
    /// `None` once the outlet is closed.
    stream: Option<mpsc::Sender<Arc<Envelope>>>,
    /// Created for the first observer: most agents have none.
    ring: Option<broadcast::Sender<Arc<Envelope>>>,
    open: OpenReplies,
}

/// A reserved slot for one event in the main stream.
#[derive(Debug)]
pub(crate) enum EventSlot {
    Free(mpsc::OwnedPermit<Arc<Envelope>>),
    /// The queue is full and is not waited for: the event is dropped and counted.
    Full,
    /// The receiver is gone.
    Closed,
}

/// Error: the main stream is full.
#[derive(Debug)]
pub(crate) struct StreamFull;

impl Outlet {
    pub(crate) fn new() -> Self {
        let (stream, receiver) = mpsc::channel(STREAM);
        Self {
            receiver: Mutex::new(Some(receiver)),
            is_taken: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            missed: Arc::default(),
            live: Mutex::new(LiveStreams {
                stream: Some(stream),
                ring: None,
                open: OpenReplies::default(),
            }),
        }
    }

    /// Hands out the main stream; `None` after the first time.
    pub(crate) fn take_stream(&self) -> Option<EventStream> {
        let events = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.is_taken.store(true, Ordering::Relaxed);
        Some(EventStream::new(events, Arc::clone(&self.missed)))
    }

    /// Subscribes an observer: returns the receiver of all later events and the replies that are open at this moment.
    pub(crate) fn observe(&self) -> (broadcast::Receiver<Arc<Envelope>>, Vec<OpenReply>) {
        let mut live = self.live();
        if live.stream.is_none() {
            // A receiver without a sender: it yields nothing.
            return (broadcast::Sender::new(1).subscribe(), Vec::new());
        }
        let ring = live.ring.get_or_insert_with(|| broadcast::Sender::new(RING));
        (ring.subscribe(), live.open.to_vec())
    }

    /// Closes the main stream and the ring: no more events are delivered.
    pub(crate) fn close(&self) {
        let mut live = self.live();
        live.ring = None;
        live.stream = None;
    }

    /// Discards the open reply of an agent that has ended.
    pub(crate) fn forget_reply(&self, session: &SessionId) {
        self.live().open.forget(session);
    }

    /// Waits for a slot in the main stream, at most [`PATIENCE_WHEN_CANCELLED`] after `cancel`. Does not wait before
    /// the
    /// stream is taken.
    pub(crate) async fn reserve_slot(&self, cancel: &CancellationToken) -> EventSlot {
        let stream = match self.try_reserve() {
            Ok(room) => return room,
            Err(stream) => stream,
        };
        let is_given_up = self.is_stalled.load(Ordering::Relaxed) && cancel.is_cancelled();
        if is_given_up || !self.is_taken.load(Ordering::Relaxed) {
            return EventSlot::Full;
        }
        let patience = async {
            cancel.cancelled().await;
            tokio::time::sleep(PATIENCE_WHEN_CANCELLED).await;
        };
        tokio::select! {
            biased;
            permit = stream.reserve_owned() => permit.map_or(EventSlot::Closed, EventSlot::Free),
            () = patience => {
                self.is_stalled.store(true, Ordering::Relaxed);
                tracing::debug!("a listener that does not read misses events");
                EventSlot::Full
            }
        }
    }

    /// Reserves a slot in the main stream if there is one.
    pub(crate) fn try_reserve_slot(&self) -> EventSlot {
        self.try_reserve().unwrap_or(EventSlot::Full)
    }

    /// Reserves a slot, or returns the full stream.
    fn try_reserve(&self) -> Result<EventSlot, mpsc::Sender<Arc<Envelope>>> {
        let Some(stream) = self.live().stream.clone() else { return Ok(EventSlot::Closed) };
        match stream.try_reserve_owned() {
            Ok(permit) => {
                self.is_stalled.store(false, Ordering::Relaxed);
                Ok(EventSlot::Free(permit))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Ok(EventSlot::Closed),
            Err(mpsc::error::TrySendError::Full(stream)) => Err(stream),
        }
    }

    /// Delivers an event at once, unless the main stream is full. The cheap path that most events take.
    pub(crate) fn push_if_free(&self, envelope: &Arc<Envelope>) -> Result<(), StreamFull> {
        let mut live = self.live();
        let LiveStreams { stream: Some(stream), ring, open } = &mut *live else { return Ok(()) };
        let permit = match stream.try_reserve() {
            Ok(permit) => Some(permit),
            Err(mpsc::error::TrySendError::Closed(())) => None,
            Err(mpsc::error::TrySendError::Full(())) => return Err(StreamFull),
        };
        publish(ring.as_ref(), open, envelope);
        if let Some(permit) = permit {
            self.is_stalled.store(false, Ordering::Relaxed);
            permit.send(Arc::clone(envelope));
        }
        Ok(())
    }

    /// Delivers an event into a reserved slot and to the observers.
    pub(crate) fn push(&self, room: EventSlot, envelope: &Arc<Envelope>) {
        {
            let mut live = self.live();
            let LiveStreams { ring, open, .. } = &mut *live;
            publish(ring.as_ref(), open, envelope);
        }
        match room {
            EventSlot::Free(permit) => drop(permit.send(Arc::clone(envelope))),
            EventSlot::Full => {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
            EventSlot::Closed => {}
        }
    }

    fn live(&self) -> MutexGuard<'_, LiveStreams> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends an event to the observers and updates the open replies.
fn publish(
    ring: Option<&broadcast::Sender<Arc<Envelope>>>,
    open: &mut OpenReplies,
    envelope: &Arc<Envelope>,
) {
    open.apply(envelope);
    if let Some(ring) = ring {
        // An error means that there is no observer at the moment.
        drop(ring.send(Arc::clone(envelope)));
    }
}
