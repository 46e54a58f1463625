//! What all agents of one root session share while they run.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, atomic::AtomicBool};

use crow_core::{
    capability::{PermissionRequest, PutAside, QuestionRequest},
    event::{AgentEvent, Envelope},
    ids::{SessionId, SnapshotId},
    model::ModelRef,
    permission::PermissionPolicy,
    tool::ToolSource,
    usage::TokenUsage,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::{
    Sandbox,
    events::Outlet,
    pending_questions::Answers,
    session::{ModelUsage, RootSession, RootSessionState, model_of},
};

/// What all agents of one root session share while they run: the order of events, the way out for them, the questions
/// that are open, and what is permitted.
#[derive(Debug)]
pub(crate) struct AgentTree {
    pub(crate) root: RootSession,
    pub(crate) outlet: Outlet,
    pub(crate) answers: Answers<PermissionRequest>,
    /// What agents ask the user.
    pub(crate) questions: Answers<QuestionRequest>,
    /// Woken when something was undone of which the root's agent does not know.
    pub(crate) undone: Notify,
    /// What holds the processes of its agents.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// Whether the user was told what holds processes.
    pub(crate) told_of_sandbox: AtomicBool,
    /// Whether was looked for what killed sessions left.
    pub(crate) has_recovered: AtomicBool,
    /// Where its agents take tools from beside their own.
    pub(crate) tool_source: OnceLock<Arc<dyn ToolSource>>,
    /// What was moved aside, and the user was not asked about.
    unasked: Mutex<Vec<PutAside>>,
    policy: RwLock<PermissionPolicy>,
    spent: Mutex<UsageByModel>,
    snapshots: Mutex<TreeSnapshots>,
    /// The sessions of all its agents, those of earlier processes included.
    sessions: Mutex<Vec<KnownSession>>,
    /// The places of spawned agents below the root. Who waits for one gets it in its turn.
    seats: Arc<Semaphore>,
}

/// What each model was asked for. There are a few of them at most.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageByModel(Vec<(ModelRef, TokenUsage)>);

/// The states of the files that all agents of a tree work on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TreeSnapshots {
    /// Before the first call that could change them.
    pub(crate) initial: Option<SnapshotId>,
    /// After the last one.
    pub(crate) current: Option<SnapshotId>,
}

impl UsageByModel {
    /// Counts what the model of a log was asked for.
    pub(crate) fn add_log(&mut self, events: &[Envelope]) {
        let mut model = None;
        for event in events {
            // The usage of a reply stands right behind it.
            if let AgentEvent::Reply { origin, .. } = &event.event {
                model = Some(model_of(origin));
            }
            if let AgentEvent::Usage { usage, .. } = &event.event
                && let Some(model) = model.take()
            {
                self.add(model, *usage);
            }
        }
    }

    /// Returns it for a header.
    pub(crate) fn to_header(&self) -> Vec<ModelUsage> {
        let spent = self.0.iter().cloned();
        spent.map(|(model, usage)| ModelUsage { model, usage }).collect()
    }

    pub(crate) fn add(&mut self, model: ModelRef, usage: TokenUsage) {
        match self.0.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += usage,
            None => self.0.push((model, usage)),
        }
    }
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
pub(crate) struct AgentSlot(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl AgentTree {
    pub(crate) fn new(
        root: RootSession,
        policy: PermissionPolicy,
        sandbox: Option<Arc<Sandbox>>,
        seats: usize,
        family: &RootSessionState,
    ) -> Self {
        Self {
            root,
            outlet: Outlet::new(),
            answers: Answers::default(),
            questions: Answers::default(),
            undone: Notify::new(),
            sandbox,
            told_of_sandbox: AtomicBool::new(false),
            has_recovered: AtomicBool::new(false),
            tool_source: OnceLock::new(),
            unasked: Mutex::default(),
            policy: RwLock::new(policy),
            spent: Mutex::new(family.spent.clone()),
            snapshots: Mutex::new(family.snapshots.clone()),
            sessions: Mutex::default(),
            seats: Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Keeps what was moved aside until the user can be asked about it.
    pub(crate) fn ask_later(&self, moved: PutAside) {
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one that was moved from a path is what the user would want back.
        unasked.retain(|known| known.path != moved.path);
        unasked.push(moved);
    }

    /// Takes the first of what the user was not asked about.
    pub(crate) fn take_unasked(&self, most: usize) -> Vec<PutAside> {
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = unasked.len().min(most);
        unasked.drain(..count).collect()
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

    /// Notes that an agent runs again in a session of an earlier process.
    pub(crate) fn reopen_session(&self, id: &SessionId) {
        let mut known = self.known();
        match known.iter_mut().find(|known| known.id == *id) {
            Some(session) => session.ended_at = None,
            None => known.push(KnownSession { id: id.clone(), ended_at: None }),
        }
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

    /// Notes between which states of the files a call ended.
    pub(crate) fn on_snapshots(&self, before: Option<&SnapshotId>, after: Option<&SnapshotId>) {
        let mut known = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        known.initial = known.initial.take().or_else(|| before.cloned());
        known.current = after.cloned().or_else(|| known.current.take());
    }

    /// Returns the first and the last state of the files.
    pub(crate) fn snapshots(&self) -> TreeSnapshots {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts what a model was asked for.
    pub(crate) fn spend(&self, model: ModelRef, usage: TokenUsage) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(model, usage);
    }

    /// Returns what each model was asked for.
    pub(crate) fn spent(&self) -> Vec<(ModelRef, TokenUsage)> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns what each model was asked for, for the header of the root.
    pub(crate) fn spent_for_header(&self) -> Vec<ModelUsage> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).to_header()
    }

    /// Counts a spawned agent in, unless as many run as may.
    pub(crate) fn begin_child(&self) -> Option<AgentSlot> {
        Arc::clone(&self.seats).try_acquire_owned().ok().map(AgentSlot)
    }

    /// Waits until a spawned agent may be counted in.
    pub(crate) async fn child_in_turn(&self) -> Option<AgentSlot> {
        // The places are never closed.
        Arc::clone(&self.seats).acquire_owned().await.ok().map(AgentSlot)
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
