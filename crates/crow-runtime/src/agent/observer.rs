//! Observers: they watch a tree of agents without slowing it down.
//!
//! An observer subscribes to a bounded broadcast ring ([`Outlet`](crate::events::Outlet)). Where the ring cannot supply events
//! (the observer starts in the past, or it lagged) it re-reads the durable ones from the session logs in a blocking
//! task
//! and then continues with the ring. Subscription, snapshot of the open replies and number of the last durable event
//! are
//! taken under the lock of the event counter, so log and ring neither overlap nor leave a gap.
//!
//! Invariant: `last_seq` only grows, and an event with a number up to it is dropped as already delivered.

use std::{collections::VecDeque, sync::Arc};

use crow_core::{event::Envelope, ids::SessionId};
use tokio::{
    sync::{
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
        watch,
    },
    task::JoinHandle,
};

use super::AgentEnd;
use crate::{
    agent_tree::AgentTree,
    events::OpenReply,
    session::{SessionError, SessionStore},
};

/// One item that an observer yields.
#[derive(Debug)]
pub enum ObserverItem {
    /// An event.
    Event(Arc<Envelope>),
    /// Events were missed. The durable ones among them follow from the logs, then the open replies.
    Lagged {
        /// Number of missed events.
        missed: u64,
    },
    /// The content so far of a reply that is still being received.
    OpenReply(OpenReply),
    /// The logs cannot be read, so durable events that were missed are not delivered.
    Lost(SessionError),
}

/// Capacity that the queue of pending items keeps once it is empty; a large one was needed for a re-read of the logs.
const PENDING: usize = 64;

/// Watches an agent and its descendants without slowing any of them down.
///
/// Durable events arrive in log order with rising numbers, and none is skipped unless [`ObserverItem::Lost`] reports
/// it.
/// Other events are skipped only where [`ObserverItem::Lagged`] reports it. An observer keeps the event ring alive, not
/// the agents.
#[derive(Debug)]
pub struct Observer {
    ring: broadcast::Receiver<Arc<Envelope>>,
    tree: Arc<AgentTree>,
    store: Arc<dyn SessionStore>,
    /// The agent whose events are delivered; `None` delivers those of the whole tree.
    only: Option<OneAgent>,
    last_seq: u64,
    pending: VecDeque<ObserverItem>,
    /// Durable events to read from the logs before the next event is taken from the ring.
    reread: Option<MissedEvents>,
}

/// A descendant of the root that is observed alone.
#[derive(Debug)]
pub(crate) struct OneAgent {
    id: SessionId,
    end: watch::Receiver<Option<Arc<AgentEnd>>>,
}

/// Durable events to read from the logs (`after < seq <= until`), and the replies that were open at `until`.
#[derive(Debug)]
struct MissedEvents {
    after: u64,
    until: u64,
    open: Vec<OpenReply>,
    /// The blocking read. Stored here so that it survives a dropped [`Observer::next`] future.
    reading: Option<JoinHandle<LogReadResult>>,
}

/// The events that were read, and the last error if some log could not be read.
#[derive(Debug)]
struct LogReadResult {
    events: Vec<Envelope>,
    failed: Option<SessionError>,
}

impl OneAgent {
    pub(crate) fn new(id: SessionId, end: watch::Receiver<Option<Arc<AgentEnd>>>) -> Self {
        Self { id, end }
    }
}

impl Observer {
    pub(crate) fn new(
        tree: Arc<AgentTree>,
        store: Arc<dyn SessionStore>,
        only: Option<OneAgent>,
        from: ObserveFrom,
    ) -> Self {
        let ((ring, open), now) = observe(&tree);
        let last_seq = match from {
            ObserveFrom::Now => now,
            ObserveFrom::After(seq) => seq,
        };
        let mut observer =
            Self { ring, tree, store, only, last_seq, pending: VecDeque::new(), reread: None };
        observer.go_on_from(now, open);
        observer
    }

    /// Returns the next item, or `None` when the tree has ended. Cancel-safe: dropping the future loses no item and
    /// repeats
    /// no work. Needs a tokio runtime when it reads logs.
    pub async fn next(&mut self) -> Option<ObserverItem> {
        loop {
            // 1) Catch up from the logs.
            if let Some(reread) = &mut self.reread {
                let read = reread.read(&self.store, &self.tree).await;
                self.catch_up(read);
            }
            // 2) Items that were read or snapshotted before the ring continues.
            if let Some(observed) = self.pending.pop_front() {
                if self.pending.is_empty() {
                    self.pending.shrink_to(PENDING);
                }
                return Some(observed);
            }
            // 3) Live events.
            match self.receive().await {
                Ok(envelope) => {
                    if self.wants(&envelope) {
                        return Some(ObserverItem::Event(envelope));
                    }
                }
                Err(RecvError::Lagged(missed)) => return Some(self.lag(missed)),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Receives the next event of the ring. If one agent is observed and has ended, only drains what is still in the
    /// ring.
    async fn receive(&mut self) -> Result<Arc<Envelope>, RecvError> {
        if let Some(OneAgent { end, .. }) = &mut self.only {
            tokio::select! {
                biased;
                received = self.ring.recv() => return received,
                // An error means the sender is gone: the agent has ended as well.
                _ = end.wait_for(Option::is_some) => {}
            }
            return self.ring.try_recv().map_err(|error| match error {
                TryRecvError::Empty | TryRecvError::Closed => RecvError::Closed,
                TryRecvError::Lagged(missed) => RecvError::Lagged(missed),
            });
        }
        self.ring.recv().await
    }

    /// Resubscribes and discards what is left in the old ring: the logs cover it, or it is out of date by then.
    fn lag(&mut self, missed: u64) -> ObserverItem {
        let ((ring, open), now) = observe(&self.tree);
        let unread = std::mem::replace(&mut self.ring, ring);
        self.go_on_from(now, open);
        ObserverItem::Lagged { missed: missed + unread.len() as u64 }
    }

    /// Schedules the delivery of everything up to event number `now`, then of the `open` replies; later events come
    /// from the ring.
    fn go_on_from(&mut self, now: u64, open: Vec<OpenReply>) {
        let open = open.into_iter().filter(|reply| self.is_wanted(&reply.session_id)).collect();
        if self.last_seq < now {
            let after = self.last_seq;
            self.reread = Some(MissedEvents { after, until: now, open, reading: None });
        } else {
            self.pending.extend(open.into_iter().map(ObserverItem::OpenReply));
        }
    }

    fn catch_up(&mut self, read: LogReadResult) {
        let Some(MissedEvents { until, open, .. }) = self.reread.take() else { return };
        self.pending.extend(read.failed.map(ObserverItem::Lost));
        for envelope in read.events {
            if self.wants(&envelope) {
                self.pending.push_back(ObserverItem::Event(Arc::new(envelope)));
            }
        }
        self.last_seq = self.last_seq.max(until);
        self.pending.extend(open.into_iter().map(ObserverItem::OpenReply));
    }

    /// Returns true if the event is for this observer and has not been delivered yet. Advances `last_seq`.
    fn wants(&mut self, envelope: &Envelope) -> bool {
        if let Some(seq) = envelope.seq {
            if seq <= self.last_seq {
                return false;
            }
            self.last_seq = seq;
        }
        self.is_wanted(&envelope.session_id)
    }

    fn is_wanted(&self, session: &SessionId) -> bool {
        self.only.as_ref().is_none_or(|only| only.id == *session)
    }
}

impl MissedEvents {
    async fn read(&mut self, store: &Arc<dyn SessionStore>, tree: &AgentTree) -> LogReadResult {
        let reading = self.reading.get_or_insert_with(|| {
            let (store, sessions) = (Arc::clone(store), tree.sessions_after(self.after));
            let range = (self.after, self.until);
            tokio::task::spawn_blocking(move || read_between(store.as_ref(), &sessions, range))
        });
        match reading.await {
            Ok(read) => read,
            Err(error) => {
                let (path, source) = (std::path::PathBuf::new(), std::io::Error::other(error));
                LogReadResult {
                    events: Vec::new(),
                    failed: Some(SessionError::Read { path, source }),
                }
            }
        }
    }
}

/// The starting point of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObserveFrom {
    Now,
    After(u64),
}

type ObserverSubscription = (broadcast::Receiver<Arc<Envelope>>, Vec<OpenReply>);

/// Subscribes to the ring and returns the open replies and the number of the last durable event before both,
/// atomically.
fn observe(tree: &AgentTree) -> (ObserverSubscription, u64) {
    tree.root.with_last_seq(|now| (tree.outlet.observe(), now))
}

/// Reads the durable events with `after < seq <= until` from several logs and sorts them by number. A log that cannot
/// be
/// read is reported and does not stop the others. Blocks.
fn read_between(
    store: &dyn SessionStore,
    sessions: &[SessionId],
    (after, until): (u64, u64),
) -> LogReadResult {
    let mut read = LogReadResult { events: Vec::new(), failed: None };
    for id in sessions {
        // Events without a number are not in this range: `None` is less than `Some`.
        let wanted = |event: &Envelope| event.seq > Some(after) && event.seq <= Some(until);
        match store.read(id) {
            Ok(stored) => read.events.extend(stored.events.into_iter().filter(wanted)),
            Err(error) => read.failed = Some(error),
        }
    }
    read.events.sort_by_key(|event| event.seq);
    read
}
