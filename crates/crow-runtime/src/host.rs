//! What adapters ask a product for: sessions, their options, and commands.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;
use crow_core::{ids::SessionId, model::ModelsError, permission::PermissionMode};

use crate::{
    AgentHandle, HandleError, SessionError, SessionFilter, SessionMetadata, ShutdownReport,
};

/// What a new session is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The working directory.
    pub cwd: PathBuf,
    /// The agent's name, or the product's default.
    pub agent: Option<String>,
    /// The model as `provider/model`, or the product's default.
    pub model: Option<String>,
    /// What happens to calls of which no rule speaks, or the product's default.
    pub permissions: Option<PermissionMode>,
    /// An id of the caller's choice; refused if it exists.
    pub id: Option<SessionId>,
}

/// Something about a session that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOption {
    /// Its name: `model`, `permissions`.
    pub name: &'static str,
    /// What it is, for people.
    pub description: String,
    /// What it is set to.
    pub value: String,
    /// What it can be set to. An empty list takes any text.
    pub choices: Vec<OptionChoice>,
}

/// What an option can be set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionChoice {
    /// The value to set.
    pub value: String,
    /// What it means, for people. May be empty.
    pub description: String,
}

/// A command that a person can give in a session, beside talking to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Its name, without a slash.
    pub name: &'static str,
    /// What may follow it, such as `[PROVIDER/MODEL]`. May be empty.
    pub argument: &'static str,
    /// What it does.
    pub description: &'static str,
}

/// Why a host does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The session cannot be made, opened or changed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The model cannot be asked.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The agent takes nothing more.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The session is known, but no agent runs in it.
    #[error("session {id} is not open")]
    NotOpen {
        /// The session.
        id: SessionId,
    },
    /// There is no model to talk to.
    #[error("{message}")]
    NoCredentials {
        /// What is missing.
        message: String,
        /// What the user can do.
        hint: String,
    },
    /// The user asked for something that cannot be.
    #[error("{message}")]
    Refused {
        /// What is wrong.
        message: String,
        /// What the user can do. May be empty.
        hint: String,
    },
    /// This host does not do that.
    #[error("{what} is not supported here")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
}

/// A product as adapters see it: a terminal, an editor protocol, a test. What they show comes from the handles that it
/// gives out.
#[async_trait]
pub trait AgentHost: Send + Sync + fmt::Debug {
    /// Makes a session and starts its agent. The session is stored when this returns.
    async fn create(&self, session: NewSession) -> Result<AgentHandle, HostError>;

    /// Returns the handle of a session's agent; starts the agent if it does not run. Two that ask at once get the same one.
    async fn open(&self, id: &SessionId) -> Result<AgentHandle, HostError>;

    /// Returns the headers of root sessions, the last updated first.
    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError>;

    /// Ends the agent of a session. The session stays.
    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError>;

    /// Removes a session for good; its agent is ended before.
    async fn delete(&self, id: &SessionId) -> Result<(), HostError>;

    /// Makes a new session with the history of another one, and starts its agent.
    async fn fork(&self, id: &SessionId) -> Result<AgentHandle, HostError>;

    /// Gives a session a title.
    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError>;

    /// Returns what can be set in an open session.
    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError>;

    /// Sets an option of an open session. Holds from the agent's next step or run on.
    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError>;

    /// Returns the commands that can be given in a session.
    fn commands(&self) -> Vec<HostCommand>;

    /// Does what a command says, and returns what is to be shown.
    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<String, HostError>;

    /// Makes sure that there is a model to talk to.
    async fn authenticate(&self) -> Result<(), HostError>;

    /// Forgets what [`authenticate`](Self::authenticate) stored.
    async fn logout(&self) -> Result<(), HostError>;
}
