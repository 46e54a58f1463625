//! The interface between adapters and a product: sessions, their options, and commands.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use crow_core::{
    ids::{RunId, SessionId},
    mcp::McpServerConfig,
    message::UserPrompt,
    model::ModelsError,
    permission::PermissionMode,
    settings::SystemPrompt,
};

use crate::{
    agent::{AgentHandle, HandleError, ShutdownReport},
    provider_route::{ProviderChange, ProviderRoute},
    session::{SessionError, SessionFilter, SessionMetadata},
};

/// Parameters of a new session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    /// The working directory.
    pub cwd: PathBuf,
    /// An id chosen by the caller; an existing one is an error.
    pub id: Option<SessionId>,
    /// The settings of the session.
    pub setup: SessionSetup,
}

/// Settings of a session given by the caller. The rest comes from the product's defaults in a new session, and from the
/// stored session in one that is continued.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionSetup {
    /// Expected working directory of a continued session, resolved; a session elsewhere is refused. Not used for new
    /// sessions.
    pub cwd: Option<PathBuf>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The model as `provider/model`.
    pub model: Option<String>,
    /// Permission mode for calls that no rule matches.
    pub permissions: Option<PermissionMode>,
    /// Additional working directories, absolute.
    pub additional_directories: Option<Vec<PathBuf>>,
    /// MCP servers whose tools the agent gets while the session is open. They are not stored.
    pub mcp_servers: Vec<McpServerConfig>,
    /// Modification of the system prompt of the primary.
    pub system_prompt: Option<SystemPrompt>,
}

impl SessionSetup {
    /// Fails if the session does not work in the directory that the caller expects.
    pub fn check_cwd(&self, session: &SessionId, cwd: &Path) -> Result<(), HostError> {
        match &self.cwd {
            Some(expected) if expected != cwd => Err(HostError::Refused {
                message: format!(
                    "session {session} works in {}, not in {}",
                    cwd.display(),
                    expected.display()
                ),
                hint: "open it with its own cwd, or begin a new session there".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// A setting of an open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOption {
    /// The name used to set it: `model`, `permissions`.
    pub name: &'static str,
    /// The kind of setting.
    pub kind: OptionKind,
    /// Description for people.
    pub description: String,
    /// The current value.
    pub value: String,
    /// The possible values. If empty, any text is accepted.
    pub choices: Vec<OptionChoice>,
}

/// The kind of a session option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionKind {
    /// The control flow after a turn.
    ControlFlow,
    /// The permission mode for calls that no rule matches.
    Permissions,
    /// The model.
    Model,
    /// The amount of thinking of the model.
    Thinking,
    /// The agent.
    Agent,
    /// The reviewer.
    Reviewer,
    /// Any other setting.
    Other,
}

/// A possible value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionChoice {
    /// The value to set.
    pub value: String,
    /// Title for people. If empty, the value is shown.
    pub title: String,
    /// Explanation for people. May be empty.
    pub description: String,
}

/// A command that a person can give in a session, apart from prompts to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Its name, without a slash.
    pub name: Cow<'static, str>,
    /// Placeholder of its argument, such as `[PROVIDER/MODEL]`. May be empty.
    pub argument: Cow<'static, str>,
    /// Description for people.
    pub description: Cow<'static, str>,
}

impl HostCommand {
    /// Creates a command that every session has.
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

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    /// The command is done, and this plain text is to be shown.
    Shown(String),
    /// The agent gets this as a prompt of the user.
    Prompt(UserPrompt),
    /// The command is a run of the agent, which was started: its events are to be shown.
    Started(RunId),
}

/// Context usage and cost of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionUsage {
    /// Tokens of the conversation in the last model request.
    pub context_tokens: u64,
    /// Context window of the model in tokens; `None` if unknown.
    pub context_window: Option<u64>,
    /// Cost of all agents of the session so far in US dollars; `None` if a price is unknown.
    pub cost_usd: Option<f64>,
}

/// Error of a host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The session cannot be created, opened or changed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The model is not available.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The agent does not accept the input.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The session exists, but no agent runs in it.
    #[error("session {id} is not open")]
    NotOpen {
        /// The session.
        id: SessionId,
    },
    /// No model can be used, for lack of credentials.
    #[error("{message}")]
    NoCredentials {
        /// Description of what is missing.
        message: String,
        /// Advice for the user.
        hint: String,
    },
    /// The request cannot be fulfilled.
    #[error("{message}")]
    Refused {
        /// The problem.
        message: String,
        /// Advice for the user. May be empty.
        hint: String,
    },
    /// The host does not support the operation.
    #[error("{what} is not supported here")]
    Unsupported {
        /// The operation.
        what: &'static str,
    },
}

/// Name of the operation that a host without provider routing does not support.
const PROVIDERS: &str = "choosing where providers are called";

/// A product as seen by adapters such as a terminal, an editor protocol or a test. What they display comes from the
/// handles it returns.
#[async_trait]
pub trait AgentHost: Send + Sync + fmt::Debug {
    /// Creates a session and starts its agent. The session is stored when this returns.
    async fn create(&self, session: NewSession) -> Result<AgentHandle, HostError>;

    /// Returns the handle of a session's agent, starting the agent if it is not running. Concurrent callers get the
    /// same agent.
    ///
    /// For an agent that is running already, the settings in `setup` are applied as far as possible.
    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError>;

    /// Returns the headers of root sessions, last updated first.
    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError>;

    /// Ends the agent of a session. The session is kept.
    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError>;

    /// Ends the agent of a session and removes the session permanently.
    async fn delete(&self, id: &SessionId) -> Result<(), HostError>;

    /// Creates a new session with the history of another one, and starts its agent.
    async fn fork(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError>;

    /// Creates a session with the directory, agent, options and permissions of another session, which must be open.
    async fn create_like(&self, _id: &SessionId) -> Result<AgentHandle, HostError> {
        Err(HostError::Unsupported { what: "beginning a session like another one" })
    }

    /// Sets the title of a session, which need not be open.
    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError>;

    /// Returns the options of an open session.
    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError>;

    /// Sets an option of an open session, effective from the agent's next step or run.
    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError>;

    /// Returns the commands available in an open session. Only commands that work are listed.
    async fn commands(&self, id: &SessionId) -> Result<Vec<HostCommand>, HostError>;

    /// Runs a command.
    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<CommandOutcome, HostError>;

    /// Returns context usage and cost of an open session.
    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError>;

    /// Ensures that a model can be used, for example by obtaining credentials.
    async fn authenticate(&self) -> Result<(), HostError>;

    /// Removes what [`authenticate`](Self::authenticate) stored.
    async fn logout(&self) -> Result<(), HostError>;

    /// Returns true if [`providers`](Self::providers), [`set_provider`](Self::set_provider) and
    /// [`disable_provider`](Self::disable_provider) are supported. May be called before anything else: does no I/O.
    fn routes_providers(&self) -> bool {
        false
    }

    /// Returns the routable providers in a fixed order, with their current addresses.
    async fn providers(&self) -> Result<Vec<ProviderRoute>, HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }

    /// Sets the address of a provider, and enables the provider if it was disabled. Takes effect with the next model
    /// call in every session, open ones included, until the process ends; nothing is stored. No key known to the
    /// product is sent to the new address. An invalid change is an error and changes nothing.
    async fn set_provider(&self, _change: ProviderChange) -> Result<(), HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }

    /// Disables all models of a provider until it is set again or the process ends. An unknown provider is ignored.
    async fn disable_provider(&self, _id: &str) -> Result<(), HostError> {
        Err(HostError::Unsupported { what: PROVIDERS })
    }
}
