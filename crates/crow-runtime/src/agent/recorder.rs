//! Where events go: the log first, the stream after.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use crow_core::{
    capability::Clock,
    event::{AgentEvent, AgentRole, Envelope, ParentCall},
    ids::SessionId,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{SessionError, SessionLog, SessionMetadata, session::RootSession};

/// How long an event may wait for a listener that does not read, once the agent is being cancelled.
const PATIENCE_WHEN_CANCELLED: Duration = Duration::from_millis(200);

/// Gives events their envelope, writes the durable ones to the log, and passes all on to the stream.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) session_id: SessionId,
    pub(super) agent: String,
    pub(super) role: AgentRole,
    pub(super) parent: Option<ParentCall>,
    pub(super) round: AtomicU32,
    pub(super) root: RootSession,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) log: Mutex<Box<dyn SessionLog>>,
    pub(super) listener: mpsc::Sender<Arc<Envelope>>,
    /// Whether somebody took the stream.
    pub(super) heard: Arc<AtomicBool>,
    /// Whether the listener was given up waiting for after a cancel. It is waited for again once it reads.
    pub(super) stalled: AtomicBool,
    /// How many events the stream does not hold because its queue was full.
    pub(super) missed: Arc<AtomicU64>,
}

impl Recorder {
    /// Writes the event to the log if it is durable, and returns it in its envelope.
    pub(crate) fn write(&self, event: AgentEvent) -> Result<Arc<Envelope>, SessionError> {
        if !event.is_durable() {
            return Ok(Arc::new(self.envelope(None, event)));
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A number is taken only when its line is written: a failed write leaves no gap.
        self.root.number(|seq| {
            let envelope = self.envelope(Some(seq), event);
            log.append(&envelope)?;
            Ok(Arc::new(envelope))
        })
    }

    /// Puts an event that the log could not take into an envelope, so that listeners at least learn of it.
    pub(crate) fn unlogged(&self, event: AgentEvent) -> Arc<Envelope> {
        Arc::new(self.envelope(None, event))
    }

    fn envelope(&self, seq: Option<u64>, event: AgentEvent) -> Envelope {
        Envelope {
            seq,
            time: self.clock.now(),
            session_id: self.session_id.clone(),
            root_id: self.root.id().clone(),
            agent: self.agent.clone(),
            role: self.role,
            parent: self.parent.clone(),
            round: self.round.load(Ordering::Relaxed),
            event,
        }
    }

    /// Passes an event on. Waits while the stream is held and full, but not on past a cancel. What nobody took yet waits
    /// in the queue as far as it has room.
    pub(crate) async fn send(&self, envelope: Arc<Envelope>, cancel: &CancellationToken) {
        let envelope = match self.listener.try_send(envelope) {
            Ok(()) => return self.stalled.store(false, Ordering::Relaxed),
            Err(mpsc::error::TrySendError::Closed(_)) => return,
            Err(mpsc::error::TrySendError::Full(envelope)) => envelope,
        };
        if !self.heard.load(Ordering::Relaxed) || self.stalled.load(Ordering::Relaxed) {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let patience = async {
            cancel.cancelled().await;
            tokio::time::sleep(PATIENCE_WHEN_CANCELLED).await;
        };
        tokio::select! {
            biased;
            // A closed stream is as good as a sent event: nobody listens any more.
            _ = self.listener.send(envelope) => {}
            () = patience => {
                self.stalled.store(true, Ordering::Relaxed);
                self.missed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(session = %self.session_id, "a listener that does not read misses events");
            }
        }
    }

    /// Writes the header.
    pub(crate) fn save_metadata(&self, metadata: &SessionMetadata) -> Result<(), SessionError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).save_metadata(metadata)
    }

    /// Returns work that makes the log outlive a power cut.
    pub(crate) fn sync(&self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).sync()
    }

    pub(super) fn next_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reset_rounds(&self) {
        self.round.store(0, Ordering::Relaxed);
    }
}
