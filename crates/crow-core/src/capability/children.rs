//! Child agents.

use std::{fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    ids::{CallId, SessionId, TaskId},
    usage::TokenUsage,
};

/// How alike a name must be to one that is known for that one to be named as what may be meant.
const ALIKE: f64 = 0.8;

/// What a child agent is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTask {
    /// The call that asks for it.
    pub call_id: CallId,
    /// The agent's name.
    pub agent: String,
    /// A few words for the user.
    pub description: String,
    /// The whole task: the child knows nothing else.
    pub prompt: String,
}

/// How a child agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildEnd {
    /// It did what it was asked to, as far as it says.
    Done {
        /// Whether checks bear it out.
        verified: bool,
    },
    /// It failed, or was stopped by a bound.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// What a child agent came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOutcome {
    /// The child's session.
    pub session_id: SessionId,
    /// How it ended.
    pub end: ChildEnd,
    /// Its last words.
    pub text: String,
    /// Files that it changed.
    pub files_modified: Vec<PathBuf>,
    /// What it used.
    pub usage: TokenUsage,
}

/// Why a child agent cannot be started, or not be asked about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no such agent.
    #[error("there is no agent named {name}{}; known are {}", .nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default(), .known.join(", "))]
    UnknownAgent {
        /// The name as given.
        name: String,
        /// The agent that may be meant.
        nearest: Option<String>,
        /// The agents that may be started.
        known: Vec<String>,
    },
    /// There is no such task, or its end is long ago.
    #[error("there is no task {id}; {}", known_tasks(.known))]
    UnknownTask {
        /// The id as given.
        id: TaskId,
        /// The tasks that there are.
        known: Vec<TaskId>,
    },
    /// Too deep, or too many at once.
    #[error("no further agent may be started here: {reason}")]
    Refused {
        /// Which bound was reached.
        reason: String,
    },
    /// It was cancelled before it began.
    #[error("the agent was cancelled before it began")]
    Cancelled,
    /// It could not be started.
    #[error("the agent cannot be started: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

fn known_tasks(known: &[TaskId]) -> String {
    let ids: Vec<&str> = known.iter().map(TaskId::as_str).collect();
    if ids.is_empty() { "there are none".to_owned() } else { format!("known: {}", ids.join(", ")) }
}

impl ChildError {
    /// Says that there is no agent of that name.
    pub fn unknown_agent(name: &str, known: Vec<String>) -> Self {
        let lower = name.to_lowercase();
        let alike =
            known.iter().map(|other| (strsim::jaro_winkler(&lower, &other.to_lowercase()), other));
        let nearest = alike.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
        let nearest = nearest.map(|(_, name)| name.clone());
        Self::UnknownAgent { name: name.to_owned(), nearest, known }
    }
}

/// A child agent that works beside its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundChild {
    /// Names it.
    pub id: TaskId,
    /// The agent.
    pub agent: String,
    /// A few words for the user.
    pub description: String,
    /// What it is at.
    pub state: BackgroundState,
}

/// What a child agent in the background is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundState {
    /// It works, or waits for its turn.
    Running,
    /// It is through.
    Ended(ChildOutcome),
    /// It never began.
    NotStarted(ChildError),
}

impl BackgroundChild {
    /// Where results that tell of one keep its id, in what is known beside their output.
    pub const EXTRA_KEY: &'static str = "task_id";

    /// Returns whether it is not through.
    pub fn is_running(&self) -> bool {
        self.state == BackgroundState::Running
    }
}

/// Starts child agents and waits for them.
#[async_trait]
pub trait Children: Send + Sync + fmt::Debug {
    /// Runs a child agent to its end. Where as many run as may, it waits for its turn. It ends with `cancellation`.
    async fn run(
        &self,
        task: ChildTask,
        cancellation: CancellationToken,
    ) -> Result<ChildOutcome, ChildError>;

    /// Starts a child agent that works beside its parent, and returns at once. It outlives calls and runs, and never its
    /// parent.
    async fn start(&self, task: ChildTask) -> Result<TaskId, ChildError>;

    /// Waits until a child in the background is through or `patience` is over. What is returned counts as read.
    async fn wait(
        &self,
        id: &TaskId,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<BackgroundChild, ChildError>;

    /// Ends a child in the background and waits for its end.
    async fn cancel(&self, id: &TaskId) -> Result<BackgroundChild, ChildError>;

    /// Returns the children in the background that ended and whose end was not read, each once.
    fn take_ended(&self) -> Vec<BackgroundChild>;
}
