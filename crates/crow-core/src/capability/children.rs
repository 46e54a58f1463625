//! Child agents.

use std::{fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::processes::known_ids;
use crate::{
    ids::{CallId, SessionId, TaskId},
    usage::TokenUsage,
};

/// Minimum Jaro-Winkler similarity of a name to be suggested.
const ALIKE: f64 = 0.8;

/// The task of a child agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTask {
    /// The call that starts it.
    pub call_id: CallId,
    /// The agent's name.
    pub agent: String,
    /// A few words for the user.
    pub description: String,
    /// The complete task: the child gets nothing else.
    pub prompt: String,
}

/// The outcome of a child agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildEnd {
    /// It reported the task as done.
    Done {
        /// True if checks verified it.
        verified: bool,
    },
    /// It failed, or was stopped by a limit.
    Failed {
        /// The reason.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// The result of a child agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOutcome {
    /// The child's session.
    pub session_id: SessionId,
    /// The outcome.
    pub end: ChildEnd,
    /// Its last text.
    pub text: String,
    /// Files that it changed.
    pub files_modified: Vec<PathBuf>,
    /// The tokens that it used.
    pub usage: TokenUsage,
}

/// Error of starting a child agent or of querying one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no such agent.
    #[error("there is no agent named {name}{}; known are {}", .nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default(), .known.join(", "))]
    UnknownAgent {
        /// The name as given.
        name: String,
        /// The most similar name, if similar enough.
        nearest: Option<String>,
        /// The agents that may be started.
        known: Vec<String>,
    },
    /// There is no such task, or it ended long ago.
    #[error("there is no task {id}; {}", known_ids(.known))]
    UnknownTask {
        /// The id as given.
        id: TaskId,
        /// The existing tasks.
        known: Vec<TaskId>,
    },
    /// Nesting is too deep, or too many agents run at once.
    #[error("no more agents may be started here: {reason}")]
    Refused {
        /// The limit that was reached.
        reason: String,
    },
    /// It was cancelled before it began.
    #[error("the agent was cancelled before it began")]
    Cancelled,
    /// It could not be started.
    #[error("the agent cannot be started: {reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
}

impl ChildError {
    /// Makes the error for an unknown agent, with the most similar name.
    pub fn unknown_agent(name: &str, known: Vec<String>) -> Self {
        let lower = name.to_lowercase();
        let alike =
            known.iter().map(|other| (strsim::jaro_winkler(&lower, &other.to_lowercase()), other));
        let nearest = alike.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
        let nearest = nearest.map(|(_, name)| name.clone());
        Self::UnknownAgent { name: name.to_owned(), nearest, known }
    }
}

/// A child agent that works in the background of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundChild {
    /// The id of the task.
    pub id: TaskId,
    /// The agent.
    pub agent: String,
    /// A few words for the user.
    pub description: String,
    /// The state.
    pub state: BackgroundState,
    /// Time since it was started, or until it ended, including the wait for its turn.
    pub duration: Duration,
}

/// The state of a child agent in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundState {
    /// It works, or waits for its turn.
    Running,
    /// It ended.
    Ended(ChildOutcome),
    /// It could not be started.
    NotStarted(ChildError),
}

impl BackgroundChild {
    /// Key of the task's id in the `extra` of results about it.
    pub const EXTRA_KEY: &'static str = "task_id";

    /// Returns true if it has not ended.
    pub fn is_running(&self) -> bool {
        self.state == BackgroundState::Running
    }
}

/// Starts child agents and waits for them.
#[async_trait]
pub trait Children: Send + Sync + fmt::Debug {
    /// Runs a child agent to its end. Waits while the maximum number of them run. Cancelled by `cancellation`.
    async fn run(
        &self,
        task: ChildTask,
        cancellation: CancellationToken,
    ) -> Result<ChildOutcome, ChildError>;

    /// Starts a child agent in the background, and returns at once. It may outlive the call and the run, but not its
    /// parent.
    async fn start(&self, task: ChildTask) -> Result<TaskId, ChildError>;

    /// Waits until a child in the background ends or `patience` has passed. An end that is returned counts as read.
    async fn wait(
        &self,
        id: &TaskId,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<BackgroundChild, ChildError>;

    /// Cancels a child in the background and waits for its end.
    async fn cancel(&self, id: &TaskId) -> Result<BackgroundChild, ChildError>;

    /// Returns the children in the background whose end was not read yet, each once.
    fn take_ended(&self) -> Vec<BackgroundChild>;
}
