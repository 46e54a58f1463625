//! `config get`, `config explain` and `config path`.

use std::{fmt::Write as _, path::Path};

use crow_agent::layers::{ConfigLayer, LayerKind, Node};
use crow_app::{
    ProcessEnvironment,
    config::{BUILT_IN, ConfigKey, Configuration, KeyTarget, SETTINGS, UnsetEffect, unset_effect},
    trust::{self, TrustStatus, project_root, trust_status},
};
use crow_console::ExitCode;
use crow_text::one_line;

use crate::{
    error::CliError,
    terminal::{print_message, write_out},
};

/// Prints the effective value on stdout: a text unquoted, anything else as TOML. The source of a single value goes to
/// stderr.
pub(crate) fn get(key: &str, environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let key_text = key;
    let (configuration, key) = (load(environment)?, ConfigKey::parse(key)?);
    let node = merged(&configuration, &key)?;
    let Some(setting) = node.as_ref().and_then(|node| node.find(&key.path())) else {
        let why = match unset_effect(&configuration.agents, &key, node.as_ref()) {
            Some(UnsetEffect::BuiltIn(value)) => {
                print_message(&format!("{key_text}: {BUILT_IN}"));
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                return write_out(format!("{text}\n").as_bytes());
            }
            Some(UnsetEffect::Nothing(why)) => format!(": {why}"),
            None => String::new(),
        };
        let error = CliError::failed(format!("{key_text} is not set{why}"));
        return Err(CliError { code: "unset", ..error }
            .hint(format!("crow-agent config set {key_text} VALUE sets it")));
    };
    if setting.leaves().iter().all(|(below, _)| below.is_empty()) {
        print_message(&format!("{key_text}: {}", setting.origin));
    }
    let text = match setting.as_text() {
        Some(text) => format!("{text}\n"),
        None => setting.leaves().iter().fold(String::new(), |mut text, (below, leaf)| {
            let _ = if below.is_empty() {
                writeln!(text, "{leaf}")
            } else {
                writeln!(text, "{below} = {leaf}")
            };
            text
        }),
    };
    write_out(text.as_bytes())
}

/// Prints the value of a key in each layer, and which one is effective.
pub(crate) fn explain(key: &str, environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let key_text = key;
    let (configuration, key) = (load(environment)?, ConfigKey::parse(key)?);
    let merged = merged(&configuration, &key)?;
    let path = key.path();
    let effective = merged.as_ref().and_then(|node| node.find(&path));
    let mut text = String::new();
    let Some(effective) = effective else {
        let _ = match unset_effect(&configuration.agents, &key, merged.as_ref()) {
            Some(UnsetEffect::BuiltIn(value)) => {
                writeln!(text, "{key_text} = {value}\n  counts   {BUILT_IN}")
            }
            Some(UnsetEffect::Nothing(why)) => {
                writeln!(text, "{key_text} is not set in any layer: {why}")
            }
            None => writeln!(text, "{key_text} is not set in any layer"),
        };
        return write_out(text.as_bytes());
    };
    for (below, leaf) in effective.leaves() {
        let keys: Vec<&str> =
            path.iter().copied().chain(below.split('.').filter(|part| !part.is_empty())).collect();
        let name =
            if below.is_empty() { key_text.to_owned() } else { format!("{key_text}.{below}") };
        let _ = writeln!(text, "{name} = {}", one_line_value(leaf));
        for layer in configuration.agents.layers().iter().rev() {
            let entry = key.target.content_in(&configuration.agents, layer)?;
            let Some(entry) = entry.as_ref().and_then(|node| node.find(&keys)) else { continue };
            let counts = if entry.origin == leaf.origin { "counts" } else { "covered" };
            let _ = writeln!(
                text,
                "  {counts:<8} {:<13} {}  {}",
                layer.kind(),
                one_line_value(entry),
                one_line(&entry.origin.to_string())
            );
        }
    }
    write_out(text.as_bytes())
}

/// Prints the folders and files of the configuration.
pub(crate) fn paths(environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let config = environment.config_dir()?;
    let cwd = environment.current_dir()?;
    let project = project_root(cwd).join(".crow-agent");
    let state = match trust_status(cwd, environment)? {
        TrustStatus::Nothing => "there is none",
        TrustStatus::Trusted(_) => "trusted",
        TrustStatus::Untrusted(_) => "not trusted, not used",
        TrustStatus::Refused { .. } => "cannot be read, not used",
    };
    let mut text = String::new();
    let mut line = |name: &str, path: &Path, state: &str| {
        let path = one_line(&path.display().to_string());
        let state = if state.is_empty() { String::new() } else { format!("  ({state})") };
        let _ = writeln!(text, "{name:<14} {path}{state}");
    };
    let existence = |path: &Path| if path.exists() { "" } else { "not there yet" };
    line("configuration", &config, existence(&config));
    for (name, file) in [
        ("  settings", SETTINGS),
        ("  base agents", "agents/base"),
        ("  compositions", "agents/acp"),
        ("  agents (md)", "agents"),
        ("  prompts", "prompts"),
        ("  providers", "providers"),
        ("  rules", "permissions.json"),
    ] {
        let path = config.join(file);
        line(name, &path, existence(&path));
    }
    line("project", &project, state);
    line("data", &environment.data_dir()?, "");
    write_out(text.as_bytes())
}

/// Loads the configuration of the current directory, and prints the notice of a project that is not used.
pub(super) fn load(environment: &ProcessEnvironment) -> Result<Configuration, CliError> {
    let project = trust::project_of(environment.current_dir()?, environment)?;
    project.notice.iter().for_each(|notice| print_message(notice));
    Ok(Configuration::load(environment, &project.additions)?)
}

/// Returns the merged content of the file of a key. Fails if the key names an agent that does not exist.
fn merged(configuration: &Configuration, key: &ConfigKey) -> Result<Option<Node>, CliError> {
    let node = key.target.merged(&configuration.agents)?;
    if let (None, KeyTarget::Agent { kind, name }) = (&node, &key.target) {
        let error = match kind {
            crow_agent::definition::AgentKind::Base => configuration.agents.base(name).err(),
            crow_agent::definition::AgentKind::Composition => {
                configuration.agents.composition(name).err()
            }
        };
        return Err(error.map_or_else(
            || CliError::usage(format!("there is no composition \"{name}\"; it is a base agent")),
            |error| CliError::usage(error.to_string()),
        ));
    }
    Ok(node)
}

/// Formats a value in one line of at most 100 characters.
pub(crate) fn one_line_value(node: &Node) -> String {
    const LONGEST: usize = 100;
    let text = one_line(&node.to_string());
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Returns the configuration layer of the user.
pub(super) fn user_layer(environment: &ProcessEnvironment) -> Result<ConfigLayer, CliError> {
    Ok(ConfigLayer::folder(LayerKind::User, environment.config_dir()?))
}
