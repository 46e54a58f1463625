//! Watching an agent without holding it up.

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

use super::OpenReply;
use crate::{
    agent::AgentEnd,
    agent_tree::AgentTree,
    session::{SessionError, SessionStore},
};

/// What an observer sees.
#[derive(Debug)]
pub enum ObserverItem {
    /// Something happened.
    Event(Arc<Envelope>),
    /// Events were missed. The durable ones among them follow from the logs, and the replies that are open.
    Lagged {
        /// How many.
        missed: u64,
    },
    /// What came so far of a reply that is open.
    OpenReply(OpenReply),
    /// The logs cannot be read: the durable events that were missed are missing.
    Lost(SessionError),
}

/// For so many events room is kept: a session that was read whole waited here.
const PENDING: usize = 64;

/// Watches an agent and those that it starts, without holding any of them up.
///
/// What it yields is the order of the logs: durable events come with rising numbers and none is left out, unless
/// [`ObserverItem::Lost`] says so. Other events are left out where [`ObserverItem::Lagged`] says so. An observer keeps the events
/// of the agents coming, not the agents alive.
#[derive(Debug)]
pub struct Observer {
    ring: broadcast::Receiver<Arc<Envelope>>,
    tree: Arc<AgentTree>,
    store: Arc<dyn SessionStore>,
    /// The agent whose events are wanted, or all of the tree.
    only: Option<OneAgent>,
    last_seq: u64,
    pending: VecDeque<ObserverItem>,
    /// What the logs have to say before the ring goes on.
    reread: Option<MissedEvents>,
}

/// An agent below the root that is watched alone.
#[derive(Debug)]
pub(crate) struct OneAgent {
    id: SessionId,
    end: watch::Receiver<Option<Arc<AgentEnd>>>,
}

/// Durable events that are to be read from the logs, and what was open when the last of them was written.
#[derive(Debug)]
struct MissedEvents {
    after: u64,
    until: u64,
    open: Vec<OpenReply>,
    /// Kept here, so that the reading goes on while nobody waits for it.
    reading: Option<JoinHandle<LogReadResult>>,
}

/// What was read, and why not all of it could be.
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

    /// Waits for what comes next, or returns none when nothing will come any more. May be dropped while it waits: nothing
    /// is lost and no work is done twice. Needs a tokio runtime when it reads logs.
    pub async fn next(&mut self) -> Option<ObserverItem> {
        loop {
            if let Some(reread) = &mut self.reread {
                let read = reread.read(&self.store, &self.tree).await;
                self.catch_up(read);
            }
            if let Some(observed) = self.pending.pop_front() {
                if self.pending.is_empty() {
                    self.pending.shrink_to(PENDING);
                }
                return Some(observed);
            }
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

    /// Takes the next event of the ring. After the end of the one agent that is watched only what it left there comes.
    async fn receive(&mut self) -> Result<Arc<Envelope>, RecvError> {
        if let Some(OneAgent { end, .. }) = &mut self.only {
            tokio::select! {
                biased;
                received = self.ring.recv() => return received,
                // The sender may be gone: the agent has ended too.
                _ = end.wait_for(Option::is_some) => {}
            }
            return self.ring.try_recv().map_err(|error| match error {
                TryRecvError::Empty | TryRecvError::Closed => RecvError::Closed,
                TryRecvError::Lagged(missed) => RecvError::Lagged(missed),
            });
        }
        self.ring.recv().await
    }

    /// Gives up what is left in the ring: it would come twice or be out of date after what the logs say.
    fn lag(&mut self, missed: u64) -> ObserverItem {
        let ((ring, open), now) = observe(&self.tree);
        let left = std::mem::replace(&mut self.ring, ring);
        self.go_on_from(now, open);
        ObserverItem::Lagged { missed: missed + left.len() as u64 }
    }

    /// Goes on with what came up to now, `open` at last. What comes from here on comes through the ring.
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

    /// Whether an event is for this observer and was not seen yet.
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

/// Where an observer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObserveFrom {
    Now,
    After(u64),
}

type ObserverSubscription = (broadcast::Receiver<Arc<Envelope>>, Vec<OpenReply>);

/// Takes a place in the ring and what is open, and the number of the last durable event that came before both.
fn observe(tree: &AgentTree) -> (ObserverSubscription, u64) {
    tree.root.between(|now| (tree.outlet.observe(), now))
}

/// Reads the durable events after the first number up to the second from several logs, in their order. A log that cannot
/// be read does not keep the others back. Blocks.
fn read_between(
    store: &dyn SessionStore,
    sessions: &[SessionId],
    (after, until): (u64, u64),
) -> LogReadResult {
    let mut read = LogReadResult { events: Vec::new(), failed: None };
    for id in sessions {
        let wanted = |event: &Envelope| event.seq > Some(after) && event.seq <= Some(until);
        match store.read(id) {
            Ok(stored) => read.events.extend(stored.events.into_iter().filter(wanted)),
            Err(error) => read.failed = Some(error),
        }
    }
    read.events.sort_by_key(|event| event.seq);
    read
}
