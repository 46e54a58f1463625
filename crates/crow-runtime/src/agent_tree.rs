//! State shared by all running agents of one root session.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, atomic::AtomicBool};

use crow_core::{
    capability::{PermissionRequest, QuarantinedFile, QuestionRequest},
    hooks::SessionHooks,
    ids::{SessionId, SnapshotId},
    model::ModelRef,
    permission::PermissionPolicy,
    tool::ToolSource,
    trace::TracedRun,
    usage::TokenUsage,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::{
    LinkSearch, Sandbox,
    events::Outlet,
    pending_questions::QuestionRegistry,
    session::{ModelUsage, RootSession, RootSessionState, TreeSnapshots, UsageByModel},
};

/// State shared by all running agents of one root session: event order and outlet, open questions, and permissions.
#[derive(Debug)]
pub(crate) struct AgentTree {
    pub(crate) root: RootSession,
    pub(crate) outlet: Outlet,
    pub(crate) answers: QuestionRegistry<PermissionRequest>,
    /// Questions of agents to the user.
    pub(crate) questions: QuestionRegistry<QuestionRequest>,
    /// Notified when an undo was recorded that the root's agent has not seen.
    pub(crate) undo_recorded: Notify,
    /// The sandbox of its processes.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// The search for places that links of the user lead to.
    pub(crate) links: Arc<LinkSearch>,
    /// True once the user was warned of places that are not known.
    pub(crate) links_reported: AtomicBool,
    /// True once the user was notified of missing sandbox layers.
    pub(crate) sandbox_reported: AtomicBool,
    /// True once leftovers of killed sessions were recovered.
    pub(crate) has_recovered: AtomicBool,
    /// The run of the root that goes on, if programs are told of its trace.
    pub(crate) traced_run: TracedRun,
    /// The source of dynamic tools for all agents.
    pub(crate) tool_source: OnceLock<Arc<dyn ToolSource>>,
    /// The hooks of all agents.
    pub(crate) hooks: OnceLock<Arc<dyn SessionHooks>>,
    /// Files moved aside that the user has not been asked about.
    unasked: Mutex<Vec<QuarantinedFile>>,
    policy: RwLock<PermissionPolicy>,
    spent: Mutex<UsageByModel>,
    snapshots: Mutex<TreeSnapshots>,
    /// The sessions of all its agents, including those of earlier processes.
    sessions: Mutex<Vec<KnownSession>>,
    /// Slots for spawned agents below the root, handed out in FIFO order.
    seats: Arc<Semaphore>,
}

/// A session of the tree.
#[derive(Debug)]
struct KnownSession {
    id: SessionId,
    /// Upper limit of the numbers of its durable events; `None` while it may get more.
    ended_at: Option<u64>,
}

/// The slot of a running spawned agent; released when dropped.
#[derive(Debug)]
pub(crate) struct AgentSlot(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl AgentTree {
    pub(crate) fn new(
        root: RootSession,
        policy: PermissionPolicy,
        sandbox: Option<Arc<Sandbox>>,
        links: Arc<LinkSearch>,
        seats: usize,
        family: &RootSessionState,
    ) -> Self {
        Self {
            root,
            outlet: Outlet::new(),
            answers: QuestionRegistry::default(),
            questions: QuestionRegistry::default(),
            undo_recorded: Notify::new(),
            sandbox,
            links,
            links_reported: AtomicBool::new(false),
            sandbox_reported: AtomicBool::new(false),
            has_recovered: AtomicBool::new(false),
            traced_run: TracedRun::default(),
            tool_source: OnceLock::new(),
            hooks: OnceLock::new(),
            unasked: Mutex::default(),
            policy: RwLock::new(policy),
            spent: Mutex::new(family.spent.clone()),
            snapshots: Mutex::new(family.snapshots.clone()),
            sessions: Mutex::default(),
            seats: Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Queues a file moved aside until the user can be asked about it.
    pub(crate) fn queue_moved_file(&self, moved: QuarantinedFile) {
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several files moved from one path, the last is the one the user would want back.
        unasked.retain(|known| known.path != moved.path);
        unasked.push(moved);
    }

    /// Takes up to `most` files that the user has not been asked about.
    pub(crate) fn take_moved_files(&self, most: usize) -> Vec<QuarantinedFile> {
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = unasked.len().min(most);
        unasked.drain(..count).collect()
    }

    /// Returns the sessions that may have durable events with a number above `seq`.
    pub(crate) fn sessions_after(&self, seq: u64) -> Vec<SessionId> {
        let sessions = self.lock_sessions();
        let may_hold = |session: &&KnownSession| session.ended_at.is_none_or(|last| last > seq);
        sessions.iter().filter(may_hold).map(|session| session.id.clone()).collect()
    }

    /// Adds the session of a running agent.
    pub(crate) fn add_session(&self, id: &SessionId) {
        self.lock_sessions().push(KnownSession { id: id.clone(), ended_at: None });
    }

    /// Marks a session of an earlier process as having a running agent again.
    pub(crate) fn reopen_session(&self, id: &SessionId) {
        let mut known = self.lock_sessions();
        match known.iter_mut().find(|known| known.id == *id) {
            Some(session) => session.ended_at = None,
            None => known.push(KnownSession { id: id.clone(), ended_at: None }),
        }
    }

    /// Adds a session of an earlier process.
    pub(crate) fn add_ended_session(&self, id: &SessionId) {
        let ended_at = Some(self.root.with_last_seq(|now| now));
        self.lock_sessions().push(KnownSession { id: id.clone(), ended_at });
    }

    /// Marks a session as complete: it gets no more events.
    pub(crate) fn end_session(&self, id: &SessionId) {
        let now = self.root.with_last_seq(|now| now);
        if let Some(session) = self.lock_sessions().iter_mut().find(|session| session.id == *id) {
            session.ended_at = Some(now);
        }
        self.outlet.forget_reply(id);
    }

    fn lock_sessions(&self) -> MutexGuard<'_, Vec<KnownSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the tree's snapshots with those of a call that ended.
    pub(crate) fn on_snapshots(&self, before: Option<&SnapshotId>, after: Option<&SnapshotId>) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.initial = snapshots.initial.take().or_else(|| before.cloned());
        snapshots.current = after.cloned().or_else(|| snapshots.current.take());
    }

    /// Returns the first and the last snapshot.
    pub(crate) fn snapshots(&self) -> TreeSnapshots {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the usage of a model.
    pub(crate) fn spend(&self, model: ModelRef, usage: TokenUsage) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(model, usage);
    }

    /// Returns the token usage per model.
    pub(crate) fn spent(&self) -> Vec<(ModelRef, TokenUsage)> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).to_vec()
    }

    /// Returns the token usage per model for the header of the root.
    pub(crate) fn spent_for_header(&self) -> Vec<ModelUsage> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).to_header()
    }

    /// Acquires a slot for a spawned agent if one is free.
    pub(crate) fn try_acquire_slot(&self) -> Option<AgentSlot> {
        Arc::clone(&self.seats).try_acquire_owned().ok().map(AgentSlot)
    }

    /// Waits for a slot for a spawned agent.
    pub(crate) async fn acquire_slot(&self) -> Option<AgentSlot> {
        // The semaphore is never closed.
        Arc::clone(&self.seats).acquire_owned().await.ok().map(AgentSlot)
    }

    /// Reads the current policy.
    pub(crate) fn with_policy<T>(&self, read: impl FnOnce(&PermissionPolicy) -> T) -> T {
        read(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the policy for all agents of the tree, effective from their next call.
    pub(crate) fn change_policy<T>(&self, change: impl FnOnce(&mut PermissionPolicy) -> T) -> T {
        change(&mut self.policy.write().unwrap_or_else(PoisonError::into_inner))
    }
}
