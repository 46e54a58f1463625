//! Checks of the API keys, of the model that a run would use, and of the model servers on this machine.

use std::collections::BTreeSet;

use crow_agent::definition::ModelChoice;
use crow_app::{
    ProcessEnvironment,
    config::{Configuration, DEFAULT_AGENT},
    host::consented_servers,
    product,
    trust::Project,
};
use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, FoundServer, ProviderModels, discover};

use super::report::DoctorFinding;
use crate::error::CliError;

/// Checks everything a run needs to have a model. Returns sections with their findings. Unreadable configuration is
/// reported elsewhere.
pub(super) async fn models(
    environment: &ProcessEnvironment,
    project: &Project,
) -> Vec<(&'static str, Vec<DoctorFinding>)> {
    let Ok(models) = product::models(environment, &project.additions.providers) else {
        return Vec::new();
    };
    let servers = discover(&models).await;
    let (agreed, local) = match consented_servers(environment) {
        Ok(agreed) => {
            let local = servers.iter().map(|server| local_server(server, &agreed)).collect();
            (agreed, local)
        }
        Err(error) => (BTreeSet::new(), vec![error.into()]),
    };
    let chosen = Configuration::load(environment, &project.additions)
        .map(|configuration| model(&models, &configuration, &servers, &agreed));
    vec![("keys", keys(&models)), ("local servers", local), ("model", chosen.into_iter().collect())]
}

/// Reports where each provider's key was found; never the key itself.
fn keys(models: &ProviderModels) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for provider in models.list() {
        let name = &provider.name;
        let variable = || models.key_home(name).ok().and_then(|home| home.variable);
        findings.push(match provider.credentials {
            CredentialStatus::Present => DoctorFinding::fine(match variable() {
                Some(variable) => format!("key of {name}: in the variable {variable}"),
                None => format!("key of {name}: in its file"),
            }),
            CredentialStatus::Stored => DoctorFinding::fine(format!("key of {name}: stored")),
            CredentialStatus::Unusable { reason } => {
                DoctorFinding::bad(format!("key of {name}: cannot be used: {reason}"), "")
            }
            CredentialStatus::NotNeeded | CredentialStatus::Missing { .. } => continue,
        });
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::warning(
            "keys: no provider has one",
            "crow-agent login PROVIDER stores one; `crow-agent login --status` names the variables",
        ));
    }
    findings
}

fn local_server(server: &FoundServer, agreed: &BTreeSet<String>) -> DoctorFinding {
    let FoundServer { provider, base_url, models } = server;
    let count = models.len();
    let models = if count == 1 { "1 model".to_owned() } else { format!("{count} models") };
    let found = format!("local server: {provider} at {base_url}, {models}");
    if agreed.contains(base_url) {
        return DoctorFinding::fine(format!("{found}; you agreed that it gets prompts"));
    }
    DoctorFinding::fine(format!(
        "{found}; it gets no prompts until you name one of its models or agree"
    ))
}

/// Reports the model of a run without `--model`, and the reason for the choice.
fn model(
    models: &ProviderModels,
    configuration: &Configuration,
    servers: &[FoundServer],
    agreed: &BTreeSet<String>,
) -> DoctorFinding {
    let agent = configuration.settings.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let agents = &configuration.agents;
    let base = agents.composition(agent).and_then(|all| agents.base(&all.primary));
    // The primary's own model precedes the one of `config.toml`.
    if let Ok(base) = base
        && let Some(own) = own_model(&base.model, models)
    {
        return model_finding(models, &own, &format!("the agent {} names it", base.name));
    }
    // The model of `config.toml`, then the default of the first provider with a key.
    if let Some(model) = &configuration.settings.model {
        return model_finding(models, model, "config.toml names it");
    }
    if let Some(model) = models.default_model() {
        let why = format!("the default of {}, the first provider with a key", model.provider);
        return model_finding(models, &model, &why);
    }
    // A model server on this machine: used only if the user agreed.
    let local = servers.iter().find(|server| agreed.contains(&server.base_url));
    if let Some((server, model)) = local.and_then(|server| Some((server, server.models.first()?))) {
        let FoundServer { provider, base_url, .. } = server;
        return DoctorFinding::fine(format!(
            "model: {provider}/{}, found at {base_url}, to which you agreed",
            model.id
        ));
    }
    if let Some(server) = servers.first() {
        return DoctorFinding::warning(
            format!(
                "model: none is chosen; {} at {} may serve one",
                server.provider, server.base_url
            ),
            "name one with --model or `crow-agent config set model`; at a terminal `crow-agent run` asks once",
        );
    }
    DoctorFinding::warning(
        "model: none is available",
        "give a provider's key with `crow-agent login PROVIDER`, or start a model server on this machine",
    )
}

/// Returns the model that an agent's own settings choose, if any.
fn own_model(choice: &ModelChoice, models: &ProviderModels) -> Option<ModelRef> {
    match (&choice.provider, &choice.model) {
        (Some(provider), Some(model)) => {
            Some(ModelRef { provider: provider.clone(), model: model.clone() })
        }
        (Some(provider), None) => models.default_model_of(provider).ok().flatten(),
        (None, Some(model)) => model.parse().ok(),
        (None, None) => None,
    }
}

/// Reports a model, and whether its provider is known and has a key.
fn model_finding(models: &ProviderModels, model: &ModelRef, why: &str) -> DoctorFinding {
    let summary = format!("model: {model}: {why}");
    // The error of an unknown provider suggests the nearest name.
    let default = models.default_model_of(&model.provider);
    if let Err(error) = default {
        let error = CliError::from(error);
        return DoctorFinding::bad(
            format!("{summary}: {}", error.message),
            error.hint.unwrap_or_default(),
        );
    }
    let provider = models.list().into_iter().find(|provider| provider.name == model.provider);
    match provider.map(|provider| provider.credentials) {
        Some(CredentialStatus::Missing { variable }) => DoctorFinding::warning(
            format!("{summary}; {} has no key", model.provider),
            format!("set {variable}, or `crow-agent login {}`", model.provider),
        ),
        Some(
            CredentialStatus::Present
            | CredentialStatus::Stored
            | CredentialStatus::NotNeeded
            // The reason is reported among the keys.
            | CredentialStatus::Unusable { .. },
        )
        | None => DoctorFinding::fine(summary),
    }
}
