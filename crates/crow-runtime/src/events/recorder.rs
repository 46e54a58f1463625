//! From what an agent says to lines of its log and items of the streams.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use crow_core::{
    capability::Clock,
    event::{AgentEvent, AgentRole, Envelope, ParentCall},
    ids::SessionId,
    redact::Redactor,
    tool::CurrentText,
};
use tokio_util::sync::CancellationToken;

use super::outlet::EventSlot;
use crate::{
    agent_tree::AgentTree,
    config::RuntimeConfig,
    session::{SessionError, SessionLog, SessionMetadata},
};

/// Gives an agent's events their envelope, writes the durable ones to its log, and passes all on, in one order for all
/// agents of the tree.
///
/// Invariant: no known secret passes here, neither into the log nor to a listener.
#[derive(Debug)]
pub(crate) struct Recorder {
    session_id: SessionId,
    agent: CurrentText,
    role: AgentRole,
    parent: Option<ParentCall>,
    round: AtomicU32,
    tree: Arc<AgentTree>,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    log: Mutex<Box<dyn SessionLog>>,
}

/// An event without known secrets. Only a recorder makes it.
#[derive(Debug, Clone)]
pub(crate) struct RedactedEvent(AgentEvent);

impl RedactedEvent {
    /// Returns the event.
    pub(crate) fn event(&self) -> &AgentEvent {
        &self.0
    }
}

impl Recorder {
    pub(crate) fn new(
        metadata: &SessionMetadata,
        tree: Arc<AgentTree>,
        config: &RuntimeConfig,
        log: Box<dyn SessionLog>,
    ) -> Self {
        Self {
            session_id: metadata.session_id.clone(),
            agent: metadata.agent_type.as_str().into(),
            role: metadata.crow().role,
            parent: metadata.parent(),
            round: AtomicU32::new(0),
            tree,
            clock: Arc::clone(&config.clock),
            redactor: config.redactor.clone(),
            log: Mutex::new(log),
        }
    }

    /// Takes known secrets out of an event.
    pub(crate) fn redacted(&self, mut event: AgentEvent) -> RedactedEvent {
        self.redactor.redact_event(&mut event);
        RedactedEvent(event)
    }

    /// Writes an event to the log if it is durable, and passes it on. Waits first while the main stream is held and full,
    /// but not on past a cancel.
    pub(crate) async fn record(
        &self,
        event: RedactedEvent,
        cancel: &CancellationToken,
    ) -> Result<Arc<Envelope>, SessionError> {
        let RedactedEvent(event) = event;
        // An agent whose model and tools never make it wait would keep its thread for itself.
        tokio::task::consume_budget().await;
        if !event.is_durable() {
            let envelope = Arc::new(self.envelope(None, event));
            if self.tree.outlet.push_if_free(&envelope).is_err() {
                let room = self.tree.outlet.room(cancel).await;
                self.tree.outlet.push(room, &envelope);
            }
            return Ok(envelope);
        }
        let room = self.tree.outlet.room(cancel).await;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A number is taken only when its line is written: a failed write leaves no gap. Nothing of another agent comes
        // between the line and its way out.
        self.tree.root.number(|seq| {
            let envelope = self.envelope(Some(seq), event);
            log.append(&envelope)?;
            let envelope = Arc::new(envelope);
            self.tree.outlet.push(room, &envelope);
            Ok(envelope)
        })
    }

    /// Passes an event on that the log could not take, so that listeners at least learn of it.
    pub(crate) async fn tell(&self, event: AgentEvent, cancel: &CancellationToken) {
        let room = self.tree.outlet.room(cancel).await;
        self.put_out(room, event);
    }

    /// Passes an event on at once, or not to a main stream that is full.
    pub(crate) fn tell_now(&self, event: AgentEvent) {
        self.put_out(self.tree.outlet.try_room(), event);
    }

    fn put_out(&self, room: EventSlot, event: AgentEvent) -> Arc<Envelope> {
        let RedactedEvent(event) = self.redacted(event);
        let envelope = Arc::new(self.envelope(None, event));
        self.tree.outlet.push(room, &envelope);
        envelope
    }

    fn envelope(&self, seq: Option<u64>, event: AgentEvent) -> Envelope {
        Envelope {
            seq,
            time: self.clock.now(),
            session_id: self.session_id.clone(),
            root_id: self.tree.root.id().clone(),
            agent: self.agent.get().to_string(),
            role: self.role,
            parent: self.parent.clone(),
            round: self.round(),
            event,
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

    /// Gives events from here on to another agent.
    pub(crate) fn set_agent(&self, name: &str) {
        self.agent.set(name);
    }

    pub(crate) fn next_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn round(&self) -> u32 {
        self.round.load(Ordering::Relaxed)
    }

    pub(crate) fn set_round(&self, round: u32) {
        self.round.store(round, Ordering::Relaxed);
    }

    pub(crate) fn reset_rounds(&self) {
        self.set_round(0);
    }
}

impl Drop for Recorder {
    /// The session of this agent gets no more events.
    fn drop(&mut self) {
        self.tree.end_session(&self.session_id);
    }
}
