//! What handle and agent share.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentState, ParentCall, RunOutcome},
    ids::{IdSource, RunId, SessionId},
    message::{Block, ReplyContent},
    turn::{Budget, BudgetLimits},
    usage::TokenUsage,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{AgentAccess, AgentEnd, AgentHandle, handle::INPUT_QUEUE};
use crate::{
    agent_tree::AgentTree,
    events::Recorder,
    outside_calls::CallDesk,
    session::{Damage, SessionMetadata},
};

/// What handle and agent share.
#[derive(Debug)]
pub(crate) struct AgentShared {
    pub(super) id: SessionId,
    pub(super) parent: Option<ParentCall>,
    pub(super) torn_bytes: usize,
    pub(super) damage: Damage,
    /// How many agents stand above this one.
    pub(super) depth: usize,
    /// How many of those, and of it and them, were spawned by another one.
    pub(super) spawned: usize,
    /// How far it may go.
    pub(crate) reach: AgentAccess,
    pub(crate) tree: Arc<AgentTree>,
    /// The agent whose function drives this one, if it has no task of its own.
    pub(super) driver: Option<Arc<Self>>,
    /// Gone when the agent has ended: the session is free then.
    pub(super) recorder: Weak<Recorder>,
    pub(crate) calls: Arc<CallDesk>,
    pub(super) state: watch::Sender<AgentState>,
    pub(super) end: watch::Sender<Option<Arc<AgentEnd>>>,
    pub(super) metadata: Mutex<SessionMetadata>,
    /// Cancelled by shutdown, and with whatever owns the agent.
    pub(super) session_token: CancellationToken,
    /// Cancelled when the agent did not end by itself. Cancels those of the agents below.
    pub(super) abort_token: CancellationToken,
    runs: Mutex<RunTracker>,
    /// Woken when words come that may start a run.
    steered: Notify,
    /// The agents that this one started; those of a driven one are with its driver, whose task ends them.
    children: Mutex<Vec<AgentHandle>>,
    pub(super) outcome: Mutex<AgentOutcome>,
    budget: Mutex<AgentBudgets>,
}

/// What an agent may use.
#[derive(Debug)]
struct AgentBudgets {
    /// What it was given; none for one that is driven: it uses its driver's.
    given: Option<Budget>,
    /// What the run under way may use of it, if that was bounded.
    current: Option<Budget>,
}

/// The tokens of runs: the one under way, and those that wait to begin. An interrupt cancels them all.
#[derive(Debug)]
pub(super) struct RunTracker {
    /// Absent for an agent that is driven and began no run of its own: it takes part in its driver's.
    current: Option<CancellationToken>,
    /// The run whose token that is.
    current_id: Option<RunId>,
    /// A run began and has not ended.
    is_under_way: bool,
    /// Runs that were asked for and did not begin, the oldest first. At most [`INPUT_QUEUE`] of them are in the queue; as
    /// many that the agent received may still begin, and older ones are forgotten.
    waiting: VecDeque<(RunId, CancellationToken)>,
    /// What was said in the middle of runs and is unread.
    steering: VecDeque<Vec<Block>>,
    /// How many of the first of them an interrupt found unread: they start no run.
    held: usize,
}

/// The queue for words in the middle of runs is full.
#[derive(Debug)]
pub(super) struct SteeringFull;

impl RunTracker {
    /// Makes the token of a run that is asked for.
    pub(super) fn ask_for(&mut self, id: RunId, token: CancellationToken) {
        if self.waiting.len() == 2 * INPUT_QUEUE {
            self.waiting.pop_front();
        }
        self.waiting.push_back((id, token));
    }

    /// Cancels all runs. What is unread from here on waits for the next one.
    pub(super) fn interrupt(&mut self) {
        self.current.iter().for_each(CancellationToken::cancel);
        self.waiting.iter().for_each(|(_, token)| token.cancel());
        self.held = self.steering.len();
    }

    /// Cancels one run. Returns whether it is under way; none where it is neither that nor asked for.
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

    /// Returns whether no run is under way and none is asked for.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_under_way && self.waiting.is_empty()
    }

    /// Takes all that is unread.
    pub(super) fn take_steering(&mut self) -> Vec<Vec<Block>> {
        self.held = 0;
        self.steering.drain(..).collect()
    }

    /// Takes the oldest words that are unread.
    pub(super) fn next_steering(&mut self) -> Option<Vec<Block>> {
        self.held = self.held.saturating_sub(1);
        self.steering.pop_front()
    }
}

/// What came of the agent so far.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentOutcome {
    pub(super) text: String,
    pub(super) files_modified: Vec<PathBuf>,
    pub(super) usage: TokenUsage,
    /// What its own model was sent last.
    pub(super) context_tokens: u64,
    /// How its last run ended.
    pub(super) run: Option<RunOutcome>,
}

/// What is known of an agent before it runs.
pub(super) struct SharedParts {
    pub metadata: SessionMetadata,
    pub torn_bytes: usize,
    pub damage: Damage,
    pub context_tokens: u64,
    pub depth: usize,
    pub spawned: usize,
    pub reach: AgentAccess,
    pub budget: Option<Budget>,
    pub tree: Arc<AgentTree>,
    pub driver: Option<Arc<AgentShared>>,
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
            reach,
            budget,
            tree,
            driver,
            recorder,
            session_token,
            abort_token,
        } = parts;
        let budget = AgentBudgets { given: budget, current: None };
        let current = driver.is_none().then(|| session_token.child_token());
        Self {
            id: metadata.session_id.clone(),
            parent: metadata.parent(),
            torn_bytes,
            damage,
            depth,
            spawned,
            reach,
            tree,
            driver,
            recorder,
            calls: Arc::default(),
            state: watch::Sender::new(AgentState::Idle),
            end: watch::Sender::new(None),
            metadata: Mutex::new(metadata),
            session_token,
            abort_token,
            runs: Mutex::new(RunTracker {
                current,
                current_id: None,
                is_under_way: false,
                waiting: VecDeque::new(),
                steering: VecDeque::new(),
                held: 0,
            }),
            steered: Notify::new(),
            children: Mutex::default(),
            outcome: Mutex::new(AgentOutcome { context_tokens, ..AgentOutcome::default() }),
            budget: Mutex::new(budget),
        }
    }

    /// Returns this agent and those below it that have tasks and have not ended.
    pub(super) fn family(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut family = vec![Arc::clone(self)];
        let children = self.children().clone();
        family.extend(children.iter().flat_map(|child| child.shared.family()));
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

    /// Returns what a run without a token of its own hangs on.
    fn base_token(&self) -> CancellationToken {
        self.driver.as_ref().map_or_else(|| self.session_token.clone(), |driver| driver.run_token())
    }

    /// Takes the token that the run got when it was asked for.
    pub(super) fn begin_run(&self, id: &RunId) -> CancellationToken {
        let base = self.base_token();
        let mut runs = self.runs();
        let place = runs.waiting.iter().position(|(run, _)| run == id);
        let token = place
            .and_then(|place| runs.waiting.remove(place))
            .map_or_else(|| base.child_token(), |(_, token)| token);
        (runs.current, runs.current_id) = (Some(token.clone()), Some(id.clone()));
        runs.is_under_way = true;
        token
    }

    /// Keeps words until the agent reads them.
    pub(super) fn steer(&self, content: Vec<Block>) -> Result<(), SteeringFull> {
        let mut runs = self.runs();
        if runs.steering.len() == INPUT_QUEUE {
            return Err(SteeringFull);
        }
        runs.steering.push_back(content);
        self.steered.notify_one();
        Ok(())
    }

    /// Waits for words that start a run, which can be interrupted from here on. Nothing is lost if it is dropped while it
    /// waits.
    pub(super) async fn steered(&self, ids: &dyn IdSource) -> (RunId, Vec<Block>) {
        loop {
            {
                let mut runs = self.runs();
                let first_new = runs.held;
                if let Some(content) = runs.steering.remove(first_new) {
                    let id = RunId::new(ids.next_id());
                    runs.ask_for(id.clone(), self.session_token.child_token());
                    return (id, content);
                }
            }
            self.steered.notified().await;
        }
    }

    pub(super) fn metadata(&self) -> MutexGuard<'_, SessionMetadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn children(&self) -> MutexGuard<'_, Vec<AgentHandle>> {
        match &self.driver {
            Some(driver) => driver.children(),
            None => self.children.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Keeps a child that runs; those that have ended need no owner any more.
    pub(super) fn add_child(&self, child: AgentHandle) {
        let mut children = self.children();
        children.retain(|child| !child.has_ended());
        children.push(child);
    }

    /// Returns what the run under way may use.
    pub(super) fn budget(&self) -> Budget {
        let current = self.budgets().current.clone();
        current.unwrap_or_else(|| self.given_budget())
    }

    /// Bounds the run, within what the agent was given.
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

    /// Keeps count of what comes of the agent.
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

    /// Counts what an event says was used and changed: for the agent, and for the one that drives it.
    fn count(&self, event: &AgentEvent) {
        if let AgentEvent::Usage { usage, .. } = event {
            self.outcome().usage += *usage;
        }
        if let AgentEvent::FilesChanged { files, .. } | AgentEvent::JobChanges { files, .. } = event
        {
            let known = &mut self.outcome().files_modified;
            for file in files {
                if !known.contains(file) {
                    known.push(file.clone());
                }
            }
        }
        if let Some(driver) = &self.driver {
            driver.count(event);
        }
    }
}
