//! State shared between an agent's task and its handles.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use crow_core::{
    ending::SharedWorkRecord,
    event::{AgentEvent, AgentState, RunOutcome},
    ids::{IdSource, RunId, SessionId},
    message::{Block, ReplyContent},
    turn::{Budget, BudgetLimits},
    usage::TokenUsage,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::recorder::Recorder;
use super::{AgentAccess, AgentEnd, AgentHandle, SessionHeader, handle::INPUT_QUEUE};
use crate::{
    agent_tree::AgentTree,
    delegated_calls::DelegatedResults,
    session::{Damage, SessionMetadata},
};

/// State shared between an agent's task and its handles.
#[derive(Debug)]
pub(crate) struct AgentShared {
    pub(super) id: SessionId,
    pub(super) torn_bytes: usize,
    pub(super) damage: Damage,
    /// Number of ancestors.
    pub(super) depth: usize,
    /// Number of spawned agents among its ancestors and itself; driven ones do not count.
    pub(super) spawned: usize,
    /// The access that the agent is limited to.
    pub(crate) access: AgentAccess,
    pub(crate) tree: Arc<AgentTree>,
    /// The agent whose function drives this one, if it has no task of its own.
    pub(super) driver: Option<Arc<Self>>,
    /// What the calls of the agent did; a driven agent shares the record of its driver.
    pub(crate) work: SharedWorkRecord,
    /// Dangling once the agent has ended: the session is free then.
    pub(super) recorder: Weak<Recorder>,
    pub(crate) calls: Arc<DelegatedResults>,
    pub(super) state: watch::Sender<AgentState>,
    pub(super) end: watch::Sender<Option<Arc<AgentEnd>>>,
    pub(super) header: SessionHeader,
    /// Cancelled by shutdown, and together with the owner of the agent.
    pub(super) session_token: CancellationToken,
    /// Cancelled to end the agent by force. Parent of the tokens of its children.
    pub(super) abort_token: CancellationToken,
    runs: Mutex<RunTracker>,
    /// Notified when steering arrives that may start a run.
    steered: Notify,
    /// The children of this agent. Those of a driven agent are stored with its driver, whose task ends them.
    children: Mutex<Vec<AgentHandle>>,
    pub(super) outcome: Mutex<AgentOutcome>,
    budget: Mutex<AgentBudgets>,
}

/// The budget of an agent.
#[derive(Debug)]
struct AgentBudgets {
    /// The budget it was given; `None` for a driven agent, which uses its driver's.
    given: Option<Budget>,
    /// The limit of the run under way within `given`, if there is one.
    current: Option<Budget>,
}

/// Tracks the runs of an agent: the one under way, and those waiting to begin. An interrupt cancels the tokens of all.
#[derive(Debug)]
pub(super) struct RunTracker {
    /// `None` for a driven agent that began no run of its own: it uses its driver's.
    current: Option<CancellationToken>,
    /// The run that the current token belongs to.
    current_id: Option<RunId>,
    /// True if a run began and has not ended.
    is_under_way: bool,
    /// Requested runs that have not begun, oldest first. At most [`INPUT_QUEUE`] of them are in the queue; as many that
    /// the agent received already may still begin, and older ones are dropped.
    waiting: VecDeque<(RunId, CancellationToken)>,
    /// Unread messages sent in the middle of runs.
    steering: VecDeque<Vec<Block>>,
    /// Number of messages at the front of `steering` that an interrupt found unread: they start no run.
    interrupted: usize,
}

/// Error: the queue of steering messages is full.
#[derive(Debug)]
pub(super) struct SteeringFull;

impl RunTracker {
    /// Registers a requested run and its token.
    pub(super) fn register(&mut self, id: RunId, token: CancellationToken) {
        if self.waiting.len() == 2 * INPUT_QUEUE {
            self.waiting.pop_front();
        }
        self.waiting.push_back((id, token));
    }

    /// Cancels all runs. Steering that is unread now waits for the next run instead of starting one.
    pub(super) fn interrupt(&mut self) {
        self.current.iter().for_each(CancellationToken::cancel);
        self.waiting.iter().for_each(|(_, token)| token.cancel());
        self.interrupted = self.steering.len();
    }

    /// Cancels one run. Returns whether it is under way, or `None` if it is neither under way nor requested.
    pub(super) fn cancel(&self, id: &RunId) -> Option<bool> {
        if self.is_under_way
            && self.current_id.as_ref() == Some(id)
            && let Some(token) = &self.current
        {
            token.cancel();
            return Some(true);
        }
        let (_, token) = self.waiting.iter().find(|(run, _)| run == id)?;
        token.cancel();
        Some(false)
    }

    /// Returns true if no run is under way or requested.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_under_way && self.waiting.is_empty()
    }

    /// Takes all unread steering messages.
    pub(super) fn take_steering(&mut self) -> Vec<Vec<Block>> {
        self.interrupted = 0;
        self.steering.drain(..).collect()
    }

    /// Puts a steering message back as the oldest unread one, which starts no run.
    pub(super) fn return_steering(&mut self, content: Vec<Block>) {
        self.steering.push_front(content);
        self.interrupted += 1;
    }

    /// Takes the oldest unread steering message.
    pub(super) fn next_steering(&mut self) -> Option<Vec<Block>> {
        self.interrupted = self.interrupted.saturating_sub(1);
        self.steering.pop_front()
    }
}

/// The results of an agent so far.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentOutcome {
    pub(super) text: String,
    pub(super) files_modified: Vec<PathBuf>,
    pub(super) usage: TokenUsage,
    /// Input tokens of the last request to its own model.
    pub(super) context_tokens: u64,
    /// Outcome of its last run.
    pub(super) run: Option<RunOutcome>,
}

/// Parts of a new [`AgentShared`].
pub(super) struct SharedParts {
    pub metadata: SessionMetadata,
    pub torn_bytes: usize,
    pub damage: Damage,
    pub context_tokens: u64,
    pub depth: usize,
    pub spawned: usize,
    pub access: AgentAccess,
    pub budget: Option<Budget>,
    pub tree: Arc<AgentTree>,
    pub driver: Option<Arc<AgentShared>>,
    pub work: SharedWorkRecord,
    pub recorder: Weak<Recorder>,
    pub session_token: CancellationToken,
    pub abort_token: CancellationToken,
}

impl AgentShared {
    pub(super) fn new(parts: SharedParts) -> Self {
        let SharedParts {
            metadata,
            torn_bytes,
            damage,
            context_tokens,
            depth,
            spawned,
            access: reach,
            budget,
            tree,
            driver,
            work,
            recorder,
            session_token,
            abort_token,
        } = parts;
        let budget = AgentBudgets { given: budget, current: None };
        let current = driver.is_none().then(|| session_token.child_token());
        Self {
            id: metadata.session_id.clone(),
            torn_bytes,
            damage,
            depth,
            spawned,
            access: reach,
            tree,
            driver,
            work,
            header: SessionHeader::new(metadata, recorder.clone()),
            recorder,
            calls: Arc::default(),
            state: watch::Sender::new(AgentState::Idle),
            end: watch::Sender::new(None),
            session_token,
            abort_token,
            runs: Mutex::new(RunTracker {
                current,
                current_id: None,
                is_under_way: false,
                waiting: VecDeque::new(),
                steering: VecDeque::new(),
                interrupted: 0,
            }),
            steered: Notify::new(),
            children: Mutex::default(),
            outcome: Mutex::new(AgentOutcome { context_tokens, ..AgentOutcome::default() }),
            budget: Mutex::new(budget),
        }
    }

    /// Returns this agent and its descendants that have tasks and have not ended.
    pub(super) fn running_subtree(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut family = vec![Arc::clone(self)];
        let children = self.children().clone();
        family.extend(children.iter().flat_map(|child| child.shared.running_subtree()));
        family.retain(|agent| agent.end.borrow().is_none());
        family
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, RunTracker> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run_token(&self) -> CancellationToken {
        let current = self.runs().current.clone();
        current.unwrap_or_else(|| self.base_token())
    }

    /// Returns the token that a run without one of its own uses.
    fn base_token(&self) -> CancellationToken {
        self.driver.as_ref().map_or_else(|| self.session_token.clone(), |driver| driver.run_token())
    }

    /// Begins a run and returns its token: the one registered when it was requested, or a new one.
    pub(super) fn begin_run(&self, id: &RunId) -> CancellationToken {
        // Taken before `runs` is locked: it may lock the runs of the driver.
        let base = self.base_token();
        let mut runs = self.runs();
        let index = runs.waiting.iter().position(|(run, _)| run == id);
        let token = index
            .and_then(|index| runs.waiting.remove(index))
            .map_or_else(|| base.child_token(), |(_, token)| token);
        (runs.current, runs.current_id) = (Some(token.clone()), Some(id.clone()));
        runs.is_under_way = true;
        token
    }

    /// Queues a steering message until the agent reads it.
    pub(super) fn steer(&self, content: Vec<Block>) -> Result<(), SteeringFull> {
        let mut runs = self.runs();
        if runs.steering.len() == INPUT_QUEUE {
            return Err(SteeringFull);
        }
        runs.steering.push_back(content);
        self.steered.notify_one();
        Ok(())
    }

    /// Waits for a steering message that starts a run, and registers the run, which can be interrupted from then on.
    /// Cancel-safe.
    pub(super) async fn next_steering_run(&self, ids: &dyn IdSource) -> (RunId, Vec<Block>) {
        loop {
            {
                let mut runs = self.runs();
                // Messages that an interrupt found unread stay in front and start no run.
                let first_new = runs.interrupted;
                if let Some(content) = runs.steering.remove(first_new) {
                    let id = RunId::new(ids.next_id());
                    runs.register(id.clone(), self.session_token.child_token());
                    return (id, content);
                }
            }
            self.steered.notified().await;
        }
    }

    pub(super) fn metadata(&self) -> MutexGuard<'_, SessionMetadata> {
        self.header.lock()
    }

    pub(super) fn children(&self) -> MutexGuard<'_, Vec<AgentHandle>> {
        match &self.driver {
            Some(driver) => driver.children(),
            None => self.children.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Adds a running child and drops those that have ended, which need no owner.
    pub(super) fn add_child(&self, child: AgentHandle) {
        let mut children = self.children();
        children.retain(|child| !child.has_ended());
        children.push(child);
    }

    /// Returns the budget of the run under way.
    pub(super) fn budget(&self) -> Budget {
        let current = self.budgets().current.clone();
        current.unwrap_or_else(|| self.given_budget())
    }

    /// Limits the run under way, within the budget of the agent.
    pub(super) fn set_budget(&self, limits: BudgetLimits, now: Duration) {
        let current = self.given_budget().within(limits, now);
        self.budgets().current = Some(current);
    }

    fn given_budget(&self) -> Budget {
        let given = self.budgets().given.clone();
        given.unwrap_or_else(|| {
            self.driver.as_ref().map_or_else(Budget::default, |driver| driver.budget())
        })
    }

    fn budgets(&self) -> MutexGuard<'_, AgentBudgets> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn outcome(&self) -> MutexGuard<'_, AgentOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates snapshots, results and run state from an event.
    pub(super) fn on_event(&self, event: &AgentEvent) {
        self.calls.on_event(event);
        if let AgentEvent::CallEnd { result, .. } = event {
            let metadata = &result.metadata;
            let (before, after) = (&metadata.snapshot_before, &metadata.snapshot_after);
            self.tree.on_snapshots(before.as_ref(), after.as_ref());
        }
        if let AgentEvent::Reply { blocks, .. } = event {
            let text: String = blocks
                .iter()
                .filter_map(|block| match &block.content {
                    ReplyContent::Text { text } => Some(text.as_str()),
                    ReplyContent::Thinking { .. }
                    | ReplyContent::Call(_)
                    | ReplyContent::Opaque => None,
                })
                .collect();
            if !text.is_empty() {
                self.outcome().text = text;
            }
        }
        if let AgentEvent::Usage { usage, .. } = event {
            self.outcome().context_tokens = usage.input_tokens;
        }
        if let AgentEvent::RunEnd { result, .. } = event {
            self.runs().is_under_way = false;
            self.outcome().run = Some(result.clone());
        }
        if let AgentEvent::TaskComplete { summary, .. } = event {
            self.outcome().text.clone_from(summary);
        }
        self.count(event);
    }

    /// Adds the usage and changed files of an event to this agent and all its drivers.
    fn count(&self, event: &AgentEvent) {
        if let AgentEvent::Usage { usage, .. } = event {
            self.outcome().usage += *usage;
        }
        if let AgentEvent::FilesChanged { files, .. } | AgentEvent::JobChanges { files, .. } = event
        {
            let modified = &mut self.outcome().files_modified;
            for file in files {
                if !modified.contains(file) {
                    modified.push(file.clone());
                }
            }
        }
        if let Some(driver) = &self.driver {
            driver.count(event);
        }
    }
}
