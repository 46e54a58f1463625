//! What a host is made of.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    capability::Answerer,
    model::{ModelRef, Models},
    permission::{PermissionMode, SandboxPlaces},
};
use crow_providers::ProviderModels;
use crow_runtime::{SandboxConfig, SessionStore, SnapshotStores, StoredRules};

use crate::{config::Configuration, environment::Environment, run::Audience, trust::Project};

use super::agents::AgentLimits;

/// What a host is made of.
pub(crate) struct HostParts {
    pub environment: Environment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, to list models and to find one where none is named.
    pub providers: Option<Arc<ProviderModels>>,
    /// The model to ask where neither the user nor the session names one, whatever is configured.
    pub fallback: Option<ModelRef>,
    pub answerer: Arc<dyn Answerer>,
    /// Who is asked before the first session, at the terminal.
    pub audience: Audience,
    /// The agent of sessions that name none, where the command line names one.
    pub agent: Option<String>,
    /// The model of sessions that name none, where the command line names one.
    pub model: Option<ModelRef>,
    /// What the user said on the command line happens to calls of which no rule speaks, if anything.
    pub permissions: Option<PermissionMode>,
    /// What holds commands; none if they may do what the user may do.
    pub sandbox: Option<SandboxConfig>,
    /// The places to which file tools keep, also where nothing holds commands.
    pub places: SandboxPlaces,
    pub rules: StoredRules,
    /// What is known already of the place in which the program was started. The providers of a project are known there alone.
    pub start: Option<StartPlace>,
    /// Where the configuration of other places is found.
    pub configured: ConfigurationSource,
    pub snapshots: Arc<SnapshotStores>,
    /// What was said on the command line of how agents work.
    pub limits: AgentLimits,
    /// The model of those that look at the work of others, where the command line names one.
    pub reviewer_model: Option<ModelRef>,
    /// Whether new sessions begin with what the user chose last in their project.
    pub remembers: Remembers,
}

/// What is known of the place in which the program was started.
#[derive(Debug, Clone)]
pub(crate) struct StartPlace {
    pub cwd: PathBuf,
    /// What the project there adds, as the user admitted it.
    pub project: Project,
    pub configuration: Configuration,
}

/// Where the configuration of a place is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigurationSource {
    /// In the user's files, and in those of a trusted project.
    InFiles,
    /// In the program alone.
    Shipped,
}

/// Whether new sessions begin with what the user chose last in their project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remembers {
    /// They do: those of the chat in a terminal.
    Choices,
    /// They do not: a script does the same thing every time, and an editor has several sessions and defaults of its own.
    Nothing,
}
