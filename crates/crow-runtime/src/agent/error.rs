//! Errors of agents and their handles.

use crow_core::{
    event::AgentState,
    history::HistoryError,
    ids::{CallId, SessionId},
    model::{ModelRef, ModelsError, ProviderError},
};

use crate::session::SessionError;

/// Error that ends an agent function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A request to the model failed.
    #[error(transparent)]
    Provider(Box<ProviderError>),
    /// The model does not exist.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The run has a limit in money, and the price of the model is unknown.
    #[error(
        "max_money limits the run, but the price of {model} is unknown: give the price under [models.\"{id}\"] in the \
         TOML of provider {provider}, or take max_money out of the agent's file",
        id = .model.model, provider = .model.provider
    )]
    NoPrice {
        /// The model.
        model: ModelRef,
    },
    /// The session cannot be stored.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The agent emitted an event that the history does not allow. A bug in the agent.
    #[error("the agent wrote an invalid history: {0}")]
    History(#[from] HistoryError),
    /// The model was called while calls had no result. A bug in the agent.
    #[error("the model was asked while {count} calls had no result")]
    CallsOpen {
        /// Number of calls without a result.
        count: usize,
    },
    /// The messages for the model have a call without its result, or a result without its call. A bug in the agent.
    #[error("call {call_id} and its result are not both among the messages for the model")]
    UnpairedCall {
        /// The call.
        call_id: CallId,
    },
    /// The current work was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// No handle is left, or the runtime is shutting down.
    #[error("the agent was shut down")]
    Closed,
    /// The runtime was dropped, so no agents can be started.
    #[error("the runtime of the agent is gone")]
    RuntimeGone,
    /// The state transition is not allowed.
    #[error("an agent that is {from:?} cannot become {to:?}")]
    IllegalState {
        /// The current state.
        from: AgentState,
        /// The requested state.
        to: AgentState,
    },
    /// Agents are nested too deep.
    #[error("agents may be nested at most {depth} deep")]
    ChildTooDeep {
        /// The depth limit.
        depth: usize,
    },
    /// Too many agents run below one root.
    #[error("{running} agents run already, no further one may be started until one ends")]
    TooManyChildren {
        /// The limit.
        running: usize,
    },
    /// The agent was aborted because it did not end when asked to.
    #[error("the agent was aborted")]
    Aborted,
    /// The agent function panicked.
    #[error("the agent panicked: {message}")]
    Panicked {
        /// The panic message.
        message: String,
    },
    /// Any other error of an agent function.
    #[error(transparent)]
    Custom(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl From<ProviderError> for AgentError {
    fn from(error: ProviderError) -> Self {
        Self::Provider(Box::new(error))
    }
}

/// Error of sending to an agent through its handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The queue is full: the agent has not taken earlier input yet.
    #[error("the agent has {capacity} inputs waiting and takes no more")]
    Full {
        /// Capacity of the queue.
        capacity: usize,
    },
    /// The agent expects no such result: the call is not open.
    #[error("no call {call_id} is open")]
    CallNotOpen {
        /// The call as given.
        call_id: CallId,
    },
    /// The agent has ended or is ending.
    #[error("agent {id} has ended")]
    Ended {
        /// Its session.
        id: SessionId,
    },
}
