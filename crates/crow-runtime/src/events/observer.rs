//! Watching an agent without holding it up.

use std::{collections::VecDeque, sync::Arc};

use crow_core::{event::Envelope, ids::SessionId};
use tokio::sync::broadcast::{self, error::RecvError};

use super::OpenReply;
use crate::{SessionError, SessionStore, tree::Tree};

/// What an observer sees.
#[derive(Debug)]
pub enum Observed {
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

/// Watches an agent and those that it starts, without holding any of them up.
///
/// What it yields is the order of the logs: durable events come with rising numbers and none is left out, unless
/// [`Observed::Lost`] says so. Other events are left out where [`Observed::Lagged`] says so. An observer keeps the events
/// of the agents coming, not the agents alive.
#[derive(Debug)]
pub struct Observer {
    ring: broadcast::Receiver<Arc<Envelope>>,
    tree: Arc<Tree>,
    store: Arc<dyn SessionStore>,
    /// The session whose events are wanted, or all of the tree.
    only: Option<SessionId>,
    last_seq: u64,
    pending: VecDeque<Observed>,
    /// The number from which on the logs are to be read first.
    reread: Option<u64>,
}

impl Observer {
    pub(crate) fn new(
        tree: Arc<Tree>,
        store: Arc<dyn SessionStore>,
        only: Option<SessionId>,
        from: ObserveFrom,
    ) -> Self {
        let ((ring, open), now) = observe(&tree);
        let (last_seq, reread) = match from {
            ObserveFrom::Now => (now, None),
            ObserveFrom::After(seq) => (seq, Some(seq)),
        };
        let mut observer =
            Self { ring, tree, store, only, last_seq, pending: VecDeque::new(), reread };
        if reread.is_none() {
            observer.push_open(open);
        }
        observer
    }

    /// Waits for what comes next, or returns none when nothing will come any more. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Observed> {
        loop {
            if let Some(after) = self.reread {
                self.catch_up(after).await;
                self.reread = None;
            }
            if let Some(observed) = self.pending.pop_front() {
                return Some(observed);
            }
            match self.ring.recv().await {
                Ok(envelope) => {
                    if self.wants(&envelope) {
                        return Some(Observed::Event(envelope));
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    self.reread = Some(self.last_seq);
                    return Some(Observed::Lagged { missed });
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Reads the durable events after a number from the logs, and goes on with what comes from now on.
    async fn catch_up(&mut self, after: u64) {
        // What is written from here on comes through the ring.
        let ((ring, open), now) = observe(&self.tree);
        let (store, sessions) = (Arc::clone(&self.store), self.tree.sessions());
        let read = move || read_between(store.as_ref(), &sessions, (after, now));
        let read = tokio::task::spawn_blocking(read).await;
        self.ring = ring;
        match read {
            Ok(Ok(events)) => {
                for envelope in events {
                    if self.wants(&envelope) {
                        self.pending.push_back(Observed::Event(Arc::new(envelope)));
                    }
                }
            }
            Ok(Err(error)) => self.pending.push_back(Observed::Lost(error)),
            Err(error) => self.pending.push_back(Observed::Lost(SessionError::Read {
                path: std::path::PathBuf::new(),
                source: std::io::Error::other(error),
            })),
        }
        self.last_seq = self.last_seq.max(now);
        self.push_open(open);
    }

    fn push_open(&mut self, open: Vec<OpenReply>) {
        let wanted = open
            .into_iter()
            .filter(|reply| self.only.as_ref().is_none_or(|id| *id == reply.session_id));
        self.pending.extend(wanted.map(Observed::OpenReply));
    }

    /// Whether an event is for this observer and was not seen yet.
    fn wants(&mut self, envelope: &Envelope) -> bool {
        if let Some(seq) = envelope.seq {
            if seq <= self.last_seq {
                return false;
            }
            self.last_seq = seq;
        }
        self.only.as_ref().is_none_or(|id| *id == envelope.session_id)
    }
}

/// Where an observer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObserveFrom {
    Now,
    After(u64),
}

type Watched = (broadcast::Receiver<Arc<Envelope>>, Vec<OpenReply>);

/// Takes a place in the ring and what is open, and the number of the last durable event that came before both.
fn observe(tree: &Tree) -> (Watched, u64) {
    tree.root.between(|now| (tree.outlet.observe(), now))
}

/// Reads the durable events after the first number up to the second from several logs, in their order. Blocks.
fn read_between(
    store: &dyn SessionStore,
    sessions: &[SessionId],
    (after, last): (u64, u64),
) -> Result<Vec<Envelope>, SessionError> {
    let mut events = Vec::new();
    for id in sessions {
        let stored = store.read(id)?;
        let wanted = |event: &Envelope| event.seq > Some(after) && event.seq <= Some(last);
        events.extend(stored.events.into_iter().filter(wanted));
    }
    events.sort_by_key(|event| event.seq);
    Ok(events)
}
