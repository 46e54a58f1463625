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
    /// Gone when the agent has ended: the session is free then.
    pub(super) recorder: Weak<Recorder>,
    pub(super) calls: Arc<CallDesk>,
    pub(super) state: watch::Sender<AgentState>,
    pub(super) end: watch::Sender<Option<Arc<AgentEnd>>>,
    pub(super) metadata: Mutex<SessionMetadata>,
    /// Cancelled by shutdown, and with whatever owns the agent.
    pub(super) session_token: CancellationToken,
    /// Cancelled when the agent did not end by itself.
    pub(super) abort_token: CancellationToken,
    pub(super) runs: Mutex<Runs>,
    /// The agents that this one started.
    pub(super) children: Mutex<Vec<AgentHandle>>,
    pub(super) outcome: Mutex<Outcome>,
}

/// The tokens of runs: the one under way, and those that wait in the queue. An interrupt cancels them all.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) current: CancellationToken,
    pub(super) waiting: Vec<(RunId, CancellationToken)>,
}

/// What came of the agent so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) text: String,
    pub(super) files_modified: Vec<PathBuf>,
    pub(super) usage: TokenUsage,
}

impl Shared {
    pub(super) fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run_token(&self) -> CancellationToken {
        self.runs().current.clone()
    }

    /// Takes the token that the run got when it was asked for.
    pub(super) fn begin_run(&self, id: &RunId) -> CancellationToken {
        let mut runs = self.runs();
        let place = runs.waiting.iter().position(|(run, _)| run == id);
        let token = place.map_or_else(
            || self.session_token.child_token(),
            |place| runs.waiting.swap_remove(place).1,
        );
        runs.current = token.clone();
        token
    }

    pub(super) fn metadata(&self) -> MutexGuard<'_, SessionMetadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn children(&self) -> MutexGuard<'_, Vec<AgentHandle>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a child that runs; those that have ended need no owner any more.
    pub(super) fn add_child(&self, child: AgentHandle) {
        let mut children = self.children();
        children.retain(|child| !child.state().is_end());
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
