//! The one place where the events of a tree of agents come out, in one order.

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

/// How many events may wait in the main stream.
const STREAM: usize = 1024;
/// How many events an observer may be behind before it is told of a lag.
const RING: usize = 1024;
/// How long an event may wait for a listener that does not read, once the agent is being cancelled.
const PATIENCE_WHEN_CANCELLED: Duration = Duration::from_millis(200);

/// The one place where the events of a tree of agents come out: its main stream and its observers.
#[derive(Debug)]
pub(crate) struct Outlet {
    waiting: Mutex<Option<mpsc::Receiver<Arc<Envelope>>>>,
    /// Whether somebody took the stream.
    is_taken: AtomicBool,
    /// Whether an agent that was cancelled gave the listener up. Others that are cancelled do not wait either, until it
    /// reads.
    is_stalled: AtomicBool,
    /// How many events the stream does not hold because its queue was full.
    missed: Arc<AtomicU64>,
    live: Mutex<LiveStreams>,
}

#[derive(Debug)]
struct LiveStreams {
    /// Absent when nothing comes any more.
    stream: Option<mpsc::Sender<Arc<Envelope>>>,
    /// Made for the first observer: most agents have none.
    ring: Option<broadcast::Sender<Arc<Envelope>>>,
    open: OpenReplies,
}

/// A place for one event in the main stream.
#[derive(Debug)]
pub(crate) enum EventSlot {
    Free(mpsc::OwnedPermit<Arc<Envelope>>),
    /// The queue is full and is not waited for.
    Full,
    /// Nobody listens any more.
    Closed,
}

/// The main stream is full.
#[derive(Debug)]
pub(super) struct IsFull;

impl Outlet {
    pub(crate) fn new() -> Self {
        let (stream, waiting) = mpsc::channel(STREAM);
        Self {
            waiting: Mutex::new(Some(waiting)),
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

    /// Gives out the main stream, once.
    pub(crate) fn take_stream(&self) -> Option<EventStream> {
        let events = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.is_taken.store(true, Ordering::Relaxed);
        Some(EventStream::new(events, Arc::clone(&self.missed)))
    }

    /// Begins to observe: what comes from here on, and the replies that are open at this moment.
    pub(super) fn observe(&self) -> (broadcast::Receiver<Arc<Envelope>>, Vec<OpenReply>) {
        let mut live = self.live();
        if live.stream.is_none() {
            // The receiver of a sender that is gone: nothing comes.
            return (broadcast::Sender::new(1).subscribe(), Vec::new());
        }
        let ring = live.ring.get_or_insert_with(|| broadcast::Sender::new(RING));
        (ring.subscribe(), live.open.to_vec())
    }

    /// Ends the streams: nothing comes any more.
    pub(crate) fn close(&self) {
        let mut live = self.live();
        live.ring = None;
        live.stream = None;
    }

    /// Forgets what an agent that is gone left open.
    pub(crate) fn forget_reply(&self, session: &SessionId) {
        self.live().open.forget(session);
    }

    /// Waits for a place in the main stream, but not on past a cancel. Nobody is waited for before the stream is taken.
    pub(crate) async fn room(&self, cancel: &CancellationToken) -> EventSlot {
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

    /// Takes a place in the main stream if there is one.
    pub(super) fn try_room(&self) -> EventSlot {
        self.try_reserve().unwrap_or(EventSlot::Full)
    }

    /// Takes a place, or gives back the full stream.
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

    /// Puts an event out at once, unless the main stream is full. Most events go this way: it is the cheaper one.
    pub(super) fn push_if_free(&self, envelope: &Arc<Envelope>) -> Result<(), IsFull> {
        let mut live = self.live();
        let LiveStreams { stream: Some(stream), ring, open } = &mut *live else { return Ok(()) };
        let permit = match stream.try_reserve() {
            Ok(permit) => Some(permit),
            Err(mpsc::error::TrySendError::Closed(())) => None,
            Err(mpsc::error::TrySendError::Full(())) => return Err(IsFull),
        };
        observed(ring.as_ref(), open, envelope);
        if let Some(permit) = permit {
            self.is_stalled.store(false, Ordering::Relaxed);
            permit.send(Arc::clone(envelope));
        }
        Ok(())
    }

    /// Puts an event out.
    pub(crate) fn push(&self, room: EventSlot, envelope: &Arc<Envelope>) {
        {
            let mut live = self.live();
            let LiveStreams { ring, open, .. } = &mut *live;
            observed(ring.as_ref(), open, envelope);
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

/// Shows an event to observers, and keeps count of what is open.
fn observed(
    ring: Option<&broadcast::Sender<Arc<Envelope>>>,
    open: &mut OpenReplies,
    envelope: &Arc<Envelope>,
) {
    open.apply(envelope);
    if let Some(ring) = ring {
        // An error means that nobody observes at the moment.
        drop(ring.send(Arc::clone(envelope)));
    }
}
