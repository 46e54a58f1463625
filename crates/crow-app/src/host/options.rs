//! The options of a session: listing their choices, and applying a changed value.

use std::fmt::Write as _;

use crow_core::{control::Preset, model::Thinking, permission::PermissionMode};
use crow_providers::{CredentialStatus, ProviderModels, ProviderSummary};
use crow_runtime::{AgentHandle, HostError, OpenedWith, OptionChoice, OptionKind, SessionOption};

use super::opened::SessionState;
use crate::model_lists::ModelLists;

pub(super) const MODE: &str = "mode";
pub(super) const PERMISSIONS: &str = "permissions";
pub(super) const MODEL: &str = "model";
pub(super) const THINKING: &str = "thinking";
pub(super) const AGENT: &str = "agent";
pub(super) const REVIEWER: &str = "reviewer";

/// Value of the mode option for an agent whose control flow is no preset.
const CUSTOM: &str = "custom";
/// Value of the reviewer option without a reviewer.
const NO_REVIEWER: &str = "none";
/// Value of the thinking option that leaves the amount to the agent or provider.
const DEFAULT: &str = "default";
/// Amounts of thinking by name.
const AMOUNTS: [(&str, Thinking); 4] = [
    ("off", Thinking::Off),
    ("low", Thinking::Low),
    ("medium", Thinking::Medium),
    ("high", Thinking::High),
];

/// Returns all options of a session, in the order in which they are listed. Blocks.
pub(super) fn all(
    current: &SessionState,
    providers: Option<&ProviderModels>,
    lists: &ModelLists,
) -> Vec<SessionOption> {
    let thinking = current.abilities().thinking.then(|| thinking_option(current));
    let first = [
        mode_option(current),
        permissions_option(&current.handle),
        model_option(current, providers, lists),
    ];
    let last = [agent_option(current), reviewer_option(current)];
    first.into_iter().chain(thinking).chain(last).collect()
}

fn choice(value: impl Into<String>, description: impl Into<String>) -> OptionChoice {
    OptionChoice { value: value.into(), title: String::new(), description: description.into() }
}

fn option(
    name: &'static str,
    kind: OptionKind,
    description: &str,
    value: impl Into<String>,
    choices: Vec<OptionChoice>,
) -> SessionOption {
    SessionOption { name, kind, description: description.to_owned(), value: value.into(), choices }
}

fn mode_option(current: &SessionState) -> SessionOption {
    let own =
        (current.review.own_mode.is_none()).then(|| choice(CUSTOM, "follows the agent's files"));
    let presets = Preset::ALL.map(|preset| {
        let level = preset.level().map(|level| format!(" (level {level})")).unwrap_or_default();
        OptionChoice {
            title: title_of(preset).to_owned(),
            ..choice(preset.as_str(), format!("{}{level}", preset.description()))
        }
    });
    let value = current.review.mode.map_or(CUSTOM, Preset::as_str);
    let about = "what comes after a turn of the agent";
    option(MODE, OptionKind::ControlFlow, about, value, presets.into_iter().chain(own).collect())
}

fn title_of(preset: Preset) -> &'static str {
    match preset {
        Preset::Hitl => "HITL",
        Preset::Loop => "Loop",
        Preset::Static => "Static",
        Preset::Generated => "Generated",
        Preset::Advise => "Advise",
        Preset::Judge => "Judge",
        Preset::Smart => "Smart",
        Preset::Chat => "Chat",
    }
}

fn model_option(
    current: &SessionState,
    providers: Option<&ProviderModels>,
    lists: &ModelLists,
) -> SessionOption {
    let value = current.model.reference.to_string();
    let provider = &current.model.reference.provider;
    let mut choices =
        providers.map(|providers| usable_models(providers, provider, lists)).unwrap_or_default();
    let is_disabled = providers.is_some_and(|providers| providers.is_disabled(provider));
    let is_missing = choices.iter().all(|choice| choice.value != value);
    if is_disabled {
        choices.insert(0, choice(&value, "its provider is disabled"));
    } else if is_missing && !choices.is_empty() {
        choices.insert(0, choice(&value, ""));
    }
    option(MODEL, OptionKind::Model, "the model that the agent asks", value, choices)
}

pub(super) fn permissions_option(handle: &AgentHandle) -> SessionOption {
    let choices = PermissionMode::ALL.map(|mode| choice(mode.as_str(), meaning(mode)));
    let about = "what happens to calls that no rule matches";
    let value = handle.permissions().policy().mode().as_str();
    option(PERMISSIONS, OptionKind::Permissions, about, value, choices.to_vec())
}

/// Returns a one-line description of a permission mode.
fn meaning(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Ask => "changes and commands are asked about",
        PermissionMode::AcceptEdits => {
            "file changes in the directory are allowed, the rest is asked about"
        }
        PermissionMode::ReadOnly => "only reading",
        PermissionMode::FullAuto => {
            "what the sandbox lets commands do is allowed to all tools; the rest is asked about"
        }
    }
}

fn thinking_option(current: &SessionState) -> SessionOption {
    let value = current.opened_with.thinking.and_then(|thinking| {
        AMOUNTS.iter().find(|(_, amount)| *amount == thinking).map(|(name, _)| *name)
    });
    let amounts = AMOUNTS.map(|(name, _)| choice(name, ""));
    let default = choice(DEFAULT, "as the agent or the provider says");
    let choices = std::iter::once(default).chain(amounts).collect();
    let about = "how much the model thinks before it answers";
    option(THINKING, OptionKind::Thinking, about, value.unwrap_or(DEFAULT), choices)
}

fn agent_option(current: &SessionState) -> SessionOption {
    let listed = current.config.agents.primary();
    let choices = with_value(
        listed.map(|(name, about)| choice(name, about)).collect(),
        &current.opened_with.agent,
    );
    option(AGENT, OptionKind::Agent, "the agent that works", &current.opened_with.agent, choices)
}

fn reviewer_option(current: &SessionState) -> SessionOption {
    let reviewers = &current.review.reviewers;
    let chosen = current.opened_with.reviewers.as_ref().filter(|_| reviewers.is_empty());
    let names = chosen.unwrap_or(reviewers);
    let value = if names.is_empty() { NO_REVIEWER.to_owned() } else { names.join(", ") };
    let no_reviewer = choice(NO_REVIEWER, "no reviewer; a mode that needs one becomes hitl");
    let listed = current.config.agents.reviewers().into_iter();
    let choices =
        std::iter::once(no_reviewer).chain(listed.map(|(name, about)| choice(name, about)));
    let about = "the reviewers, in the modes loop, advise, judge, smart and chat";
    let choices = with_value(choices.collect(), &value);
    option(REVIEWER, OptionKind::Reviewer, about, value, choices)
}

/// Removes duplicate choices and adds the current value if it is not among them.
fn with_value(mut choices: Vec<OptionChoice>, value: &str) -> Vec<OptionChoice> {
    let mut seen: Vec<String> = Vec::new();
    choices.retain(|choice| {
        let is_new = !seen.contains(&choice.value);
        seen.push(choice.value.clone());
        is_new
    });
    if choices.iter().all(|choice| choice.value != value) {
        choices.push(choice(value, ""));
    }
    choices
}

/// Returns the models of all providers with usable credentials. Of providers that are one service in several wire
/// formats (`same_as`), only one is listed, so that each model appears once: the current one, else the first.
fn usable_models(models: &ProviderModels, current: &str, lists: &ModelLists) -> Vec<OptionChoice> {
    let providers = models.list();
    let family_of = |provider: &ProviderSummary| {
        provider.same_as.clone().unwrap_or_else(|| provider.name.clone())
    };
    let current_family = providers.iter().find(|provider| provider.name == current).map(family_of);
    let usable = providers.iter().filter(|provider| {
        let is_representative = if current_family.as_ref() == Some(&family_of(provider)) {
            provider.name == current
        } else {
            provider.same_as.is_none()
        };
        let is_usable = matches!(
            provider.credentials,
            CredentialStatus::Present | CredentialStatus::Stored | CredentialStatus::NotNeeded
        );
        is_representative && is_usable
    });
    usable.flat_map(|provider| models_of(provider, lists)).map(|model| choice(model, "")).collect()
}

/// Returns the known models of a provider, and then those that it listed when it was last asked, each once.
fn models_of(provider: &ProviderSummary, lists: &ModelLists) -> Vec<String> {
    let known = provider.models.iter().map(|model| model.info.reference.to_string());
    let mut models: Vec<String> = known.collect();
    for id in lists.of(&provider.name) {
        let model = format!("{}/{id}", provider.name);
        if !models.contains(&model) {
            models.push(model);
        }
    }
    models
}

/// Returns the parameters of the session with an option set to `value`. Fails for invalid values.
pub(super) fn with_option(
    current: &SessionState,
    name: &str,
    value: &str,
) -> Result<OpenedWith, HostError> {
    let mut with = current.opened_with.clone();
    match name {
        MODE if value == CUSTOM && current.review.own_mode.is_none() => with.mode = None,
        MODE => {
            let mode: Preset = value
                .parse()
                .map_err(|error: crow_core::control::UnknownPreset| refused(error.to_string()))?;
            with.mode = Some(mode);
            if mode.needs_coagent() && with.reviewers.as_ref().is_some_and(Vec::is_empty) {
                with.reviewers = None;
            }
        }
        MODEL => with.model = Some(super::product_host::parse_model(value)?),
        THINKING => with.thinking = thinking(current, value)?,
        AGENT => {
            current.config.agents.check(value)?;
            value.clone_into(&mut with.agent);
            // A new agent brings its own mode and reviewers.
            (with.mode, with.reviewers) = (None, None);
        }
        REVIEWER if value == NO_REVIEWER => {
            with.reviewers = Some(Vec::new());
            let needs = current.review.mode.is_none_or(Preset::needs_coagent);
            if needs && !current.review.reviewers.is_empty() {
                // Of the modes that need no reviewer, the one that continues least by itself.
                with.mode = Some(Preset::Hitl);
            }
        }
        REVIEWER => {
            let names: Vec<String> = value.split(", ").map(str::to_owned).collect();
            names.iter().try_for_each(|name| current.config.agents.check(name))?;
            with.reviewers = Some(names);
        }
        name => return Err(unknown("option", name)),
    }
    Ok(with)
}

fn thinking(current: &SessionState, value: &str) -> Result<Option<Thinking>, HostError> {
    if !current.abilities().thinking {
        return Err(refused(format!("{} cannot think", current.model.reference)));
    }
    if value == DEFAULT {
        return Ok(None);
    }
    let level = AMOUNTS.iter().find(|(name, _)| *name == value).map(|(_, amount)| *amount);
    let names = || AMOUNTS.map(|(name, _)| name).join(", ");
    let wrong =
        || refused(format!("\"{value}\" is not an amount; known are {DEFAULT}, {}", names()));
    level.map(Some).ok_or_else(wrong)
}

fn refused(message: String) -> HostError {
    HostError::Refused { message, hint: String::new() }
}

pub(super) fn unknown(what: &str, name: &str) -> HostError {
    refused(format!("there is no {what} {name}"))
}

/// Formats an option with its value and choices.
pub(super) fn show(option: &SessionOption) -> String {
    let mut text = format!("{}: {}\n", option.name, option.value);
    for choice in &option.choices {
        let marker = if choice.value == option.value { "*" } else { " " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{marker} {:<14} {}", choice.value, choice.description);
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Lists the grants of the session; empty if there are none.
pub(super) fn granted(handle: &AgentHandle) -> String {
    let policy = handle.permissions().policy();
    let granted: Vec<_> = policy.granted().map(|rule| format!("  {}", rule.id)).collect();
    if granted.is_empty() {
        return String::new();
    }
    format!(
        "\nallowed for this session (`/permissions forget` takes it back):\n{}",
        granted.join("\n")
    )
}

pub(super) fn parse_mode(value: &str) -> Result<PermissionMode, HostError> {
    value.parse().map_err(refused)
}
