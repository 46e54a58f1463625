//! What handle and agent share.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crow_core::{
    event::{AgentEvent, AgentState, ParentCall},
    ids::{RunId, SessionId},
    message::ReplyContent,
    usage::TokenUsage,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{AgentEnd, AgentHandle};
use crate::{SessionMetadata, events::Recorder, outside::CallDesk, tree::Tree};

/// What handle and agent share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) id: SessionId,
    pub(super) parent: Option<ParentCall>,
    pub(super) torn_bytes: usize,
    /// How many agents stand above this one.
    pub(super) depth: usize,
    pub(crate) tree: Arc<Tree>,
    /// The agent whose function drives this one, if it has no task of its own.
    pub(super) driver: Option<Arc<Self>>,
    /// Gone when the agent has ended: the session is free then.
    pub(super) recorder: Weak<Recorder>,
    pub(super) calls: Arc<CallDesk>,
    pub(super) state: watch::Sender<AgentState>,
    pub(super) end: watch::Sender<Option<Arc<AgentEnd>>>,
    pub(super) metadata: Mutex<SessionMetadata>,
    /// Cancelled by shutdown, and with whatever owns the agent.
    pub(super) session_token: CancellationToken,
    /// Cancelled when the agent did not end by itself. Cancels those of the agents below.
    pub(super) abort_token: CancellationToken,
    pub(super) runs: Mutex<Runs>,
    /// The agents that this one started; those of a driven one are with its driver, whose task ends them.
    children: Mutex<Vec<AgentHandle>>,
    pub(super) outcome: Mutex<Outcome>,
}

/// The tokens of runs: the one under way, and those that wait in the queue. An interrupt cancels them all.
#[derive(Debug)]
pub(super) struct Runs {
    /// Absent for an agent that is driven and began no run of its own: it takes part in its driver's.
    pub(super) current: Option<CancellationToken>,
    pub(super) waiting: Vec<(RunId, CancellationToken)>,
}

/// What came of the agent so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) text: String,
    pub(super) files_modified: Vec<PathBuf>,
    pub(super) usage: TokenUsage,
}

/// What is known of an agent before it runs.
pub(super) struct Parts {
    pub metadata: SessionMetadata,
    pub torn_bytes: usize,
    pub depth: usize,
    pub tree: Arc<Tree>,
    pub driver: Option<Arc<Shared>>,
    pub recorder: Weak<Recorder>,
    pub session_token: CancellationToken,
    pub abort_token: CancellationToken,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            metadata,
            torn_bytes,
            depth,
            tree,
            driver,
            recorder,
            session_token,
            abort_token,
        } = parts;
        let current = driver.is_none().then(|| session_token.child_token());
        Self {
            id: metadata.session_id.clone(),
            parent: metadata.parent(),
            torn_bytes,
            depth,
            tree,
            driver,
            recorder,
            calls: Arc::default(),
            state: watch::Sender::new(AgentState::Idle),
            end: watch::Sender::new(None),
            metadata: Mutex::new(metadata),
            session_token,
            abort_token,
            runs: Mutex::new(Runs { current, waiting: Vec::new() }),
            children: Mutex::default(),
            outcome: Mutex::default(),
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

    pub(super) fn runs(&self) -> MutexGuard<'_, Runs> {
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
        let token =
            place.map_or_else(|| base.child_token(), |place| runs.waiting.swap_remove(place).1);
        runs.current = Some(token.clone());
        token
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

    pub(super) fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps count of what comes of the agent.
    pub(super) fn on_event(&self, event: &AgentEvent) {
        self.calls.on_event(event);
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
        if let AgentEvent::TaskComplete { summary, .. } = event {
            self.outcome().text.clone_from(summary);
        }
        if let AgentEvent::Usage { usage, .. } = event {
            self.outcome().usage += *usage;
        }
        if let AgentEvent::FilesChanged { files, .. } = event {
            let known = &mut self.outcome().files_modified;
            for file in files {
                if !known.contains(file) {
                    known.push(file.clone());
                }
            }
        }
    }
}
