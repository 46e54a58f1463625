//! What can be set in a session, and the commands that show and set it.

use std::fmt::Write as _;

use crow_core::permission::PermissionMode;
use crow_providers::{Credentials, ProviderModels};
use crow_runtime::{AgentHandle, HostCommand, HostError, OptionChoice, OptionKind, SessionOption};

use super::changes::{CHANGES, DIFF, REDO, UNDO};

pub(super) const MODEL: &str = "model";
pub(super) const PERMISSIONS: &str = "permissions";

/// The commands, in the order in which they are listed.
pub(super) static COMMANDS: [HostCommand; 7] = [
    UNDO,
    REDO,
    DIFF,
    CHANGES,
    HostCommand::new(MODEL, "[PROVIDER/MODEL]", "show the model, or go on with another one"),
    HostCommand::new(
        PERMISSIONS,
        "[MODE|forget]",
        "show what happens to calls that change something, set it, or forget what was allowed for the session",
    ),
    HostCommand::new("sessions", "", "list the last sessions of this directory"),
];

pub(super) fn model_option(model: String, known: Option<&ProviderModels>) -> SessionOption {
    SessionOption {
        name: MODEL,
        kind: OptionKind::Model,
        description: "the model that the agent asks".to_owned(),
        value: model,
        choices: known.map(usable_models).unwrap_or_default(),
    }
}

pub(super) fn permissions_option(handle: &AgentHandle) -> SessionOption {
    let choice = |mode: PermissionMode| OptionChoice {
        value: mode.to_string(),
        title: String::new(),
        description: meaning(mode).to_owned(),
    };
    SessionOption {
        name: PERMISSIONS,
        kind: OptionKind::Permissions,
        description: "what happens to calls of which no rule speaks".to_owned(),
        value: handle.policy().mode().to_string(),
        choices: PermissionMode::ALL.map(choice).to_vec(),
    }
}

/// Says what a mode does, in a line.
fn meaning(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Ask => "changes and commands are asked about",
        PermissionMode::AcceptEdits => {
            "changes of files in the directory pass, the rest is asked about"
        }
        PermissionMode::ReadOnly => "only reading",
        PermissionMode::FullAuto => "everything passes",
    }
}

/// The models of the providers that can be asked as things are.
fn usable_models(models: &ProviderModels) -> Vec<OptionChoice> {
    let providers = models.list();
    let usable = providers.iter().filter(|provider| {
        matches!(
            provider.credentials,
            Credentials::Present | Credentials::Stored | Credentials::NotNeeded
        )
    });
    let choice = |reference: String| OptionChoice {
        value: reference,
        title: String::new(),
        description: String::new(),
    };
    usable
        .flat_map(|provider| &provider.models)
        .map(|model| choice(model.info.reference.to_string()))
        .collect()
}

/// Shows an option: what it is set to and what else it can be.
pub(super) fn show(option: &SessionOption) -> String {
    let mut text = format!("{}: {}\n", option.name, option.value);
    for choice in &option.choices {
        let marker = if choice.value == option.value { "*" } else { " " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{marker} {:<14} {}", choice.value, choice.description);
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Says what was allowed for the rest of the session, if anything.
pub(super) fn granted(handle: &AgentHandle) -> String {
    let policy = handle.policy();
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
    value.parse().map_err(|message| HostError::Refused { message, hint: String::new() })
}
