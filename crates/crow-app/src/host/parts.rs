//! The parameters of a host.

use std::{fmt, path::PathBuf, sync::Arc};

use crow_core::{
    capability::Answerer,
    model::{ModelRef, Models},
    permission::{PermissionMode, SandboxPaths},
};
use crow_providers::ProviderModels;
use crow_runtime::{LinkSearchConfig, SandboxConfig, SessionStore, SnapshotStores, StoredRules};

use super::front_end_commands::SessionCommands;
use crate::{
    config::{AgentLimits, Configuration},
    dialog::{Audience, UserDialog},
    environment::ProcessEnvironment,
    trust::Project,
};

/// Everything that [`ProductHost`](super::ProductHost) is built from.
pub struct HostParts {
    pub environment: ProcessEnvironment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, to list models and to find one where none is named.
    pub providers: Option<Arc<ProviderModels>>,
    /// Default model of sessions for which neither user nor session names one; overrides the configuration.
    pub fallback: Option<ModelRef>,
    pub answerer: Arc<dyn Answerer>,
    /// Audience of questions before the first session: a person at the terminal, or nobody.
    pub audience: Audience,
    /// Shows messages before the first session, and asks the person.
    pub dialog: Arc<dyn UserDialog>,
    /// Agent from the command line, for sessions that name none.
    pub agent: Option<String>,
    /// Model from the command line, for sessions that name none.
    pub model: Option<ModelRef>,
    /// Permission mode from the command line, for calls that no rule matches.
    pub permissions: Option<PermissionMode>,
    /// Sandbox of commands; `None` if commands run with all rights of the user.
    pub sandbox: Option<SandboxConfig>,
    /// Path restrictions of file tools; they apply also without a sandbox.
    pub sandbox_paths: SandboxPaths,
    /// Search for links that lead away from hidden paths; `None` searches for none. It also restricts file tools.
    pub links: Option<LinkSearchConfig>,
    pub rules: StoredRules,
    /// Commands of the front end; `None` if sessions have only those of the host.
    pub session_commands: Option<Arc<dyn SessionCommands>>,
    /// Configuration already read for the directory in which the program was started. Providers of a project exist
    /// only there.
    pub start: Option<StartPlace>,
    /// Source of the configuration of other directories.
    pub configuration_source: ConfigurationSource,
    pub snapshots: Arc<SnapshotStores>,
    /// Bounds of agents from the command line.
    pub limits: AgentLimits,
    /// Model of reviewers from the command line.
    pub reviewer_model: Option<ModelRef>,
    /// Source of the initial options of new sessions.
    pub choice_memory: ChoiceMemory,
}

impl fmt::Debug for HostParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostParts").field("environment", &self.environment).finish_non_exhaustive()
    }
}

/// Configuration of the directory in which the program was started.
#[derive(Debug, Clone)]
pub struct StartPlace {
    pub cwd: PathBuf,
    /// Project configuration there, as far as the user trusts it.
    pub project: Project,
    pub configuration: Configuration,
}

/// Source of the configuration of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigurationSource {
    /// The user's files, and those of a trusted project.
    InFiles,
    /// Only what is built into the program.
    Shipped,
}

/// Source of the initial options of new sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceMemory {
    /// Choices are remembered: the chat in a terminal.
    Persistent,
    /// Nothing is remembered: a script must do the same every time, and an editor has several sessions and its own
    /// defaults.
    Disabled,
}
