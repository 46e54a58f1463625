//! What all agents of one root session share while they run.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crow_core::{ids::SessionId, permission::PermissionPolicy};
use tokio::sync::Notify;

use crate::{RootSession, Sandbox, answers::Answers, events::Outlet};

/// What all agents of one root session share while they run: the order of events, the way out for them, the questions
/// that are open, and what is permitted.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: RootSession,
    pub(crate) outlet: Outlet,
    pub(crate) answers: Answers,
    /// Woken when something was undone of which the root's agent does not know.
    pub(crate) undone: Notify,
    /// What holds the processes of its agents.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// Whether the user was told what holds processes.
    pub(crate) told_of_sandbox: AtomicBool,
    policy: RwLock<PermissionPolicy>,
    /// The sessions of all its agents, those of earlier processes included.
    sessions: Mutex<Vec<KnownSession>>,
    /// How many spawned agents run below the root.
    running: AtomicUsize,
}

/// A session of the tree.
#[derive(Debug)]
struct KnownSession {
    id: SessionId,
    /// No durable event of the session has a number above this one. None while events may come.
    ended_at: Option<u64>,
}

/// What a spawned agent holds while it runs. Whoever drops it counts the agent out.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Tree>);

impl Tree {
    pub(crate) fn new(
        root: RootSession,
        policy: PermissionPolicy,
        sandbox: Option<Arc<Sandbox>>,
    ) -> Self {
        Self {
            root,
            outlet: Outlet::new(),
            answers: Answers::default(),
            undone: Notify::new(),
            sandbox,
            told_of_sandbox: AtomicBool::new(false),
            policy: RwLock::new(policy),
            sessions: Mutex::default(),
            running: AtomicUsize::new(0),
        }
    }

    /// Returns the sessions that may hold durable events with a number above `seq`.
    pub(crate) fn sessions_after(&self, seq: u64) -> Vec<SessionId> {
        let sessions = self.known();
        let may_hold = |known: &&KnownSession| known.ended_at.is_none_or(|last| last > seq);
        sessions.iter().filter(may_hold).map(|known| known.id.clone()).collect()
    }

    /// Adds a session whose agent runs.
    pub(crate) fn add_session(&self, id: &SessionId) {
        self.known().push(KnownSession { id: id.clone(), ended_at: None });
    }

    /// Adds a session of an earlier process.
    pub(crate) fn add_ended_session(&self, id: &SessionId) {
        let ended_at = Some(self.root.between(|now| now));
        self.known().push(KnownSession { id: id.clone(), ended_at });
    }

    /// Notes that a session gets no more events.
    pub(crate) fn end_session(&self, id: &SessionId) {
        let now = self.root.between(|now| now);
        if let Some(known) = self.known().iter_mut().find(|known| known.id == *id) {
            known.ended_at = Some(now);
        }
        self.outlet.forget_reply(id);
    }

    fn known(&self) -> MutexGuard<'_, Vec<KnownSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a spawned agent in, unless `limit` of them run already.
    pub(crate) fn begin_child(self: &Arc<Self>, limit: usize) -> Option<Seat> {
        let more = |running: usize| (running < limit).then_some(running + 1);
        let counted = self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Seat(Arc::clone(self)))
    }

    /// Uses the policy as it is at this moment.
    pub(crate) fn with_policy<T>(&self, read: impl FnOnce(&PermissionPolicy) -> T) -> T {
        read(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the policy for all agents of the tree, from their next call on.
    pub(crate) fn change_policy<T>(&self, change: impl FnOnce(&mut PermissionPolicy) -> T) -> T {
        change(&mut self.policy.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
