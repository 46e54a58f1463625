//! Turns the events of one agent into lines of its log and items of the streams.

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

use crate::{
    agent_tree::AgentTree,
    config::RuntimeConfig,
    events::EventSlot,
    session::{SessionError, SessionLog, SessionMetadata},
};

/// Wraps an agent's events in envelopes, writes the durable ones to its log and delivers all of them, in one order for
/// all agents of the tree.
///
/// Invariant: no known secret passes through here, neither into the log nor to a listener.
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

/// An event from which known secrets were removed. Only a recorder creates it.
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

    /// Removes known secrets from an event.
    pub(crate) fn redacted(&self, mut event: AgentEvent) -> RedactedEvent {
        self.redactor.redact_event(&mut event);
        RedactedEvent(event)
    }

    /// Writes an event to the log if it is durable, and delivers it. First waits for a slot in the main stream
    /// ([`Outlet::reserve_slot`](crate::events::Outlet::reserve_slot)), but only briefly after a cancel.
    pub(crate) async fn record(
        &self,
        event: RedactedEvent,
        cancel: &CancellationToken,
    ) -> Result<Arc<Envelope>, SessionError> {
        let RedactedEvent(event) = event;
        // Yields now and then: an agent whose model and tools never wait would otherwise monopolize its thread.
        tokio::task::consume_budget().await;
        if !event.is_durable() {
            let envelope = Arc::new(self.envelope(None, event));
            if self.tree.outlet.push_if_free(&envelope).is_err() {
                let room = self.tree.outlet.reserve_slot(cancel).await;
                self.tree.outlet.push(room, &envelope);
            }
            return Ok(envelope);
        }
        let room = self.tree.outlet.reserve_slot(cancel).await;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // The number is consumed only if the line is written, so a failed write leaves no gap. The counter lock is held
        // until the event is delivered, so no event of another agent comes in between.
        self.tree.root.with_next_seq(|seq| {
            let envelope = self.envelope(Some(seq), event);
            log.append(&envelope)?;
            let envelope = Arc::new(envelope);
            self.tree.outlet.push(room, &envelope);
            Ok(envelope)
        })
    }

    /// Delivers an event that could not be written to the log, so that listeners at least see it.
    pub(crate) async fn emit_unlogged(&self, event: AgentEvent, cancel: &CancellationToken) {
        let room = self.tree.outlet.reserve_slot(cancel).await;
        self.emit(room, event);
    }

    /// Delivers an event without waiting; a main stream that is full misses it.
    pub(crate) fn try_emit_unlogged(&self, event: AgentEvent) {
        self.emit(self.tree.outlet.try_reserve_slot(), event);
    }

    fn emit(&self, room: EventSlot, event: AgentEvent) -> Arc<Envelope> {
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

    /// Writes the session header.
    pub(crate) fn save_metadata(&self, metadata: &SessionMetadata) -> Result<(), SessionError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).save_metadata(metadata)
    }

    /// Returns a blocking job that flushes the log to disk, or `None` if the store needs none.
    pub(crate) fn sync(&self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).sync()
    }

    /// Attributes all later events to another agent.
    pub(crate) fn set_agent(&self, name: &str) {
        self.agent.set(name);
    }

    pub(crate) fn round(&self) -> u32 {
        self.round.load(Ordering::Relaxed)
    }

    pub(crate) fn set_round(&self, round: u32) {
        self.round.store(round, Ordering::Relaxed);
    }
}

impl Drop for Recorder {
    /// Marks the session as ended in the tree.
    fn drop(&mut self) {
        self.tree.end_session(&self.session_id);
    }
}
