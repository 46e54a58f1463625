//! What a shell offers for an argument. Asks nobody and starts nothing: it reads the configuration and the sessions, and
//! what cannot be read offers nothing.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use crow_agent::definition::{AgentKind, AgentRegistry, DefinedRole, ListedAgent};
use crow_app::{
    ProcessEnvironment,
    config::{Configuration, configured_servers, layers, tool_names},
    product,
    trust::{self, Project},
};
use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, ProviderModels, ProviderSummary};
use crow_runtime::{SessionFilter, SessionMetadata, UnusedSessions};
use crow_text::one_line;

use crate::error::CliError;

/// How many sessions are offered.
const MOST_SESSIONS: usize = 100;

/// Models: the configured one, those of the last sessions, those of providers whose key is there, and all others.
pub(super) fn models() -> ArgValueCandidates {
    candidates(|environment, project| {
        let providers = product::models(environment, &project.additions.providers)?;
        let (usable, others): (Vec<_>, Vec<_>) = providers.list().into_iter().partition(is_usable);
        let configured = Configuration::load(environment, &project.additions).ok();
        let configured = configured.and_then(|configuration| configuration.settings.model);
        let used = sessions(environment).unwrap_or_default();
        let mut models: Vec<String> = Vec::new();
        let known = configured
            .into_iter()
            .chain(used.iter().map(SessionMetadata::model_ref))
            .chain(usable.iter().chain(&others).flat_map(models_of))
            .map(|model| model.to_string());
        for model in known {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        Ok(models.into_iter().map(|model| candidate(&model, "")).collect())
    })
}

/// Agents that people start.
pub(super) fn primary_agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        Ok(registry(environment, project)?.list_primary().iter().map(agent).collect())
    })
}

/// All agents.
pub(super) fn agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        Ok(registry(environment, project)?.list().iter().map(agent).collect())
    })
}

/// Base agents, which rules speak of.
pub(super) fn base_agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        let names = registry(environment, project)?.names(AgentKind::Base);
        Ok(names.iter().map(|name| candidate(name, "")).collect())
    })
}

/// Sessions, the last used first.
pub(super) fn session_ids() -> ArgValueCandidates {
    candidates(|environment, _| {
        let sessions = sessions(environment)?;
        let one = |session: &SessionMetadata| {
            candidate(session.session_id.as_str(), &session.crow().title)
        };
        Ok(sessions.iter().map(one).collect())
    })
}

/// All providers.
pub(super) fn providers() -> ArgValueCandidates {
    providers_where(|_, _| true)
}

/// Providers that need a key.
pub(super) fn providers_with_key() -> ArgValueCandidates {
    providers_where(|models, provider| {
        !matches!(provider.credentials, CredentialStatus::NotNeeded)
            && models.key_home(&provider.name).is_ok()
    })
}

/// Providers whose key is stored.
pub(super) fn providers_with_stored_key() -> ArgValueCandidates {
    candidates(|environment, _| {
        let keys = product::credential_file(environment)?.load()?;
        Ok(keys.keys().map(|name| candidate(name, "")).collect())
    })
}

/// MCP servers that are not switched off.
pub(super) fn mcp_servers() -> ArgValueCandidates {
    candidates(|environment, project| {
        let found = configured_servers(environment, &project.additions)?;
        Ok(found.servers.iter().map(|(one, _)| candidate(&one.server.name, "")).collect())
    })
}

fn candidates(
    find: impl Fn(&ProcessEnvironment, &Project) -> Result<Vec<CompletionCandidate>, CliError>
    + Send
    + Sync
    + 'static,
) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let environment = ProcessEnvironment::from_process();
        let project =
            environment.current_dir().and_then(|cwd| trust::project_of(cwd, &environment));
        find(&environment, &project.unwrap_or_default()).unwrap_or_default()
    })
}

/// A value, and what it is in one line. Shells read lines: a value with a line break offers nothing.
fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let help = Some(one_line(help)).filter(|help| !help.is_empty());
    CompletionCandidate::new(one_line(value)).help(help.map(Into::into))
}

fn providers_where(
    is_wanted: impl Fn(&ProviderModels, &ProviderSummary) -> bool + Send + Sync + 'static,
) -> ArgValueCandidates {
    candidates(move |environment, project| {
        let models = product::models(environment, &project.additions.providers)?;
        let wanted = models.list().into_iter().filter(|provider| is_wanted(&models, provider));
        Ok(wanted.map(|provider| candidate(&provider.name, "")).collect())
    })
}

fn is_usable(provider: &ProviderSummary) -> bool {
    match provider.credentials {
        CredentialStatus::Present | CredentialStatus::Stored | CredentialStatus::NotNeeded => true,
        CredentialStatus::Missing { .. } | CredentialStatus::Unusable { .. } => false,
    }
}

/// The models that are known of a provider, its default first.
fn models_of(provider: &ProviderSummary) -> impl Iterator<Item = ModelRef> {
    let default = provider
        .default_model
        .as_ref()
        .map(|model| ModelRef { provider: provider.name.clone(), model: model.clone() });
    default.into_iter().chain(provider.models.iter().map(|model| model.info.reference.clone()))
}

fn registry(
    environment: &ProcessEnvironment,
    project: &Project,
) -> Result<AgentRegistry, CliError> {
    Ok(AgentRegistry::new(layers(environment, &project.additions)?, tool_names()))
}

fn agent(agent: &ListedAgent) -> CompletionCandidate {
    let help = match &agent.definition {
        Ok((DefinedRole::Primary | DefinedRole::Subagent, description)) => description.as_str(),
        Err(_) => "cannot be used",
    };
    candidate(&agent.name, help)
}

fn sessions(environment: &ProcessEnvironment) -> Result<Vec<SessionMetadata>, CliError> {
    let filter = SessionFilter {
        limit: Some(MOST_SESSIONS),
        // Nothing is removed while somebody types.
        unused: UnusedSessions::Listed,
        ..SessionFilter::default()
    };
    Ok(product::session_store(environment)?.list(&filter)?)
}
