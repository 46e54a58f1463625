//! Why an agent ends before its time.

use crow_core::{
    event::AgentState,
    history::HistoryError,
    ids::{CallId, SessionId},
    model::{ModelRef, ModelsError, ProviderError},
};

use crate::session::SessionError;

/// Why an agent function cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The model cannot be asked.
    #[error(transparent)]
    Provider(Box<ProviderError>),
    /// The model does not exist.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The run is bounded in money, and what the model costs is not known.
    #[error(
        "max_money bounds the run, and the price of {model} is not known: give the price under [models.\"{id}\"] in the \
         TOML of provider {provider}, or take max_money out of the agent's file",
        id = .model.model, provider = .model.provider
    )]
    NoPrice {
        /// The model.
        model: ModelRef,
    },
    /// The session cannot be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The agent did something that the history does not allow. A bug in the agent.
    #[error("the agent broke its own history: {0}")]
    History(#[from] HistoryError),
    /// The model was asked although calls had no result. A bug in the agent.
    #[error("the model was asked while {count} calls had no result")]
    CallsOpen {
        /// How many.
        count: usize,
    },
    /// What the agent was doing was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Nobody holds a handle any more, or the runtime shuts down.
    #[error("the agent was shut down")]
    Closed,
    /// The runtime was dropped: it starts no agents any more.
    #[error("the runtime of the agent is gone")]
    RuntimeGone,
    /// The agent's state cannot become that.
    #[error("an agent that is {from:?} cannot become {to:?}")]
    IllegalState {
        /// What it is doing.
        from: AgentState,
        /// What it was to do.
        to: AgentState,
    },
    /// Agents that are started by agents stand too deep.
    #[error("agents may start agents {depth} deep")]
    ChildTooDeep {
        /// The bound.
        depth: usize,
    },
    /// Too many agents run below one root.
    #[error("{running} agents run already, no further one may be started until one ends")]
    TooManyChildren {
        /// The bound.
        running: usize,
    },
    /// The agent was ended by force: it did not end when it was asked to.
    #[error("the agent was aborted")]
    Aborted,
    /// The agent function panicked.
    #[error("the agent panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// Whatever else an agent function fails with.
    #[error(transparent)]
    Custom(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl From<ProviderError> for AgentError {
    fn from(error: ProviderError) -> Self {
        Self::Provider(Box::new(error))
    }
}

/// Why a handle could not pass something on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The queue is full: the agent has not taken earlier input yet.
    #[error("the agent has {capacity} inputs waiting and takes no more")]
    Full {
        /// How many inputs the queue holds.
        capacity: usize,
    },
    /// The agent is in no need of that result: no such call is open.
    #[error("no call {call_id} is open")]
    CallNotOpen {
        /// The call as given.
        call_id: CallId,
    },
    /// The agent has ended, or is about to.
    #[error("agent {id} has ended")]
    Ended {
        /// Its session.
        id: SessionId,
    },
}
