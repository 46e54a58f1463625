//! What adapters ask a product for: sessions, their options, and commands.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use crow_core::{
    ids::SessionId, mcp::McpServerConfig, message::Block, model::ModelsError,
    permission::PermissionMode, settings::SystemPrompt,
};

use crate::{
    agent::{AgentHandle, HandleError, ShutdownReport},
    provider_route::{ProviderChange, ProviderRoute},
    session::{SessionError, SessionFilter, SessionMetadata},
};

/// What a new session is to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    /// The working directory.
    pub cwd: PathBuf,
    /// An id of the caller's choice; refused if it exists.
    pub id: Option<SessionId>,
    /// What it works with.
    pub setup: SessionSetup,
}

/// What a session works with, as far as the caller says so. The rest is the product's default in a new session, and what it
/// was left with in one that goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionSetup {
    /// Where a session that goes on works, its true name; one that works elsewhere is refused. Not for new sessions.
    pub cwd: Option<PathBuf>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The model as `provider/model`.
    pub model: Option<String>,
    /// What happens to calls of which no rule speaks.
    pub permissions: Option<PermissionMode>,
    /// Folders beside the working directory in which the agent works as well, absolute.
    pub additional_directories: Option<Vec<PathBuf>>,
    /// Servers whose tools the agent has beside its own, as long as the session is open. They are not stored.
    pub mcp_servers: Vec<McpServerConfig>,
    /// What becomes of the system prompt of the agent that does the work.
    pub system_prompt: Option<SystemPrompt>,
}

impl SessionSetup {
    /// Refuses a session that does not work where the caller says that it does.
    pub fn refuse_elsewhere(&self, session: &SessionId, cwd: &Path) -> Result<(), HostError> {
        match &self.cwd {
            Some(said) if said != cwd => Err(HostError::Refused {
                message: format!(
                    "session {session} works in {}, not in {}",
                    cwd.display(),
                    said.display()
                ),
                hint: "open it with its own cwd, or begin a new session there".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Something about a session that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOption {
    /// Its name, by which it is set: `model`, `permissions`.
    pub name: &'static str,
    /// What it is about.
    pub kind: OptionKind,
    /// What it is, for people.
    pub description: String,
    /// What it is set to.
    pub value: String,
    /// What it can be set to. An empty list takes any text.
    pub choices: Vec<OptionChoice>,
}

/// What an option is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionKind {
    /// What happens after a turn: the control flow.
    ControlFlow,
    /// What happens to calls of which no rule speaks.
    Permissions,
    /// The model.
    Model,
    /// How much the model thinks before it answers.
    Thinking,
    /// The agent.
    Agent,
    /// Who looks at the work.
    Reviewer,
    /// Something else.
    Other,
}

/// What an option can be set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionChoice {
    /// The value to set.
    pub value: String,
    /// What it is called, for people. May be empty: the value says it.
    pub title: String,
    /// What it means, for people. May be empty.
    pub description: String,
}

/// A command that a person can give in a session, beside talking to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Its name, without a slash.
    pub name: Cow<'static, str>,
    /// What may follow it, such as `[PROVIDER/MODEL]`. May be empty.
    pub argument: Cow<'static, str>,
    /// What it does.
    pub description: Cow<'static, str>,
}

impl HostCommand {
    /// Makes a command that every session has.
    pub const fn new(
        name: &'static str,
        argument: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            argument: Cow::Borrowed(argument),
            description: Cow::Borrowed(description),
        }
    }
}

/// What a command comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    /// It is done, and this is to be shown. Plain text.
    Shown(String),
    /// The agent is to be told this, as if the user had said it.
    Prompt(Vec<Block>),
}

/// How much of its model's window a session fills, and what it cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionUsage {
    /// The tokens of the conversation as the model was sent it last.
    pub context_tokens: u64,
    /// The most tokens that the model takes; none if nobody knows.
    pub context_window: Option<u64>,
    /// What all agents of the session cost so far in US dollars; none if a price is not known.
    pub cost_usd: Option<f64>,
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

/// What a host without providers is asked for in vain.
const PROVIDERS: &str = "choosing where providers are called";

/// A product as adapters see it: a terminal, an editor protocol, a test. What they show comes from the handles that it
/// gives out.
#[async_trait]
pub trait AgentHost: Send + Sync + fmt::Debug {
    /// Makes a session and starts its agent. The session is stored when this returns.
    async fn create(&self, session: NewSession) -> Result<AgentHandle, HostError>;

    /// Returns the handle of a session's agent; starts the agent if it does not run. Two that ask at once get the same one.
    ///
    /// What `setup` says of an agent that runs already is set in it, as far as that can be while it runs.
    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError>;

    /// Returns the headers of root sessions, the last updated first.
    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError>;

    /// Ends the agent of a session. The session stays.
    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError>;

    /// Removes a session for good; its agent is ended before.
    async fn delete(&self, id: &SessionId) -> Result<(), HostError>;

    /// Makes a new session with the history of another one, and starts its agent.
    async fn fork(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError>;

    /// Gives a session a title. It need not be open.
    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError>;

    /// Returns what can be set in an open session.
    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError>;

    /// Sets an option of an open session. Holds from the agent's next step or run on.
    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError>;

    /// Returns the commands that can be given in an open session. Only what works is among them.
    async fn commands(&self, id: &SessionId) -> Result<Vec<HostCommand>, HostError>;

    /// Does what a command says.
    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<CommandOutcome, HostError>;

    /// Returns how much of its model's window an open session fills, and what it cost.
    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError>;

    /// Makes sure that there is a model to talk to.
    async fn authenticate(&self) -> Result<(), HostError>;

    /// Forgets what [`authenticate`](Self::authenticate) stored.
    async fn logout(&self) -> Result<(), HostError>;

    /// Returns whether [`providers`](Self::providers), [`set_provider`](Self::set_provider) and
    /// [`disable_provider`](Self::disable_provider) are supported. Asked before anything else is known: does no I/O.
    fn routes_providers(&self) -> bool {
        false
    }

    /// Returns the providers that can be routed, in a fixed order, with where each one is called now.
    async fn providers(&self) -> Result<Vec<ProviderRoute>, HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }

    /// Lets a provider be called elsewhere, and enables it if it was disabled. Holds for the next call of a model in every
    /// session, those that are open included, until the process ends; nothing of it is stored. No key that the product
    /// knows is sent there. What cannot be is refused, and changes nothing.
    async fn set_provider(&self, _change: ProviderChange) -> Result<(), HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }

    /// Lets no model of a provider be called any more, until it is set again or the process ends. Of one that is not
    /// known nothing is done.
    async fn disable_provider(&self, _id: &str) -> Result<(), HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }
}
