//! `config set`: changing one value in the user's files.

use crow_agent::{
    definition::{AgentKind, AgentRegistry, SHIPPED},
    layers::{ConfigLayer, LayerKind, Layers},
};
use crow_app::{
    ProcessEnvironment,
    config::{ConfigKey, KeyTarget, Settings, set_value, tool_names, write},
    private_file,
};
use crow_console::ExitCode;
use crow_core::config::SourceText;
use crow_text::one_line;
use toml_edit::Value;

use crate::{command::config::commands::user_layer, error::CliError, terminal::write_out};

/// Sets a value in the user's file, if the resulting configuration is valid.
pub(crate) fn set(
    key: &str,
    value: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let key = ConfigKey::parse(key)?;
    let user = user_layer(environment)?;
    let file = key.target.file();
    let path = user.path(&file);
    if let KeyTarget::Agent { kind: AgentKind::Base, name } = &key.target {
        let markdown = user.path(&format!("agents/{name}.md"));
        if markdown.exists() {
            let message = format!("{name} is defined in {}", markdown.display());
            return Err(CliError::usage(message).hint("edit that file"));
        }
    }
    // One lock for all files, so that no lock file lies beside each of them.
    let _lock = private_file::lock(&user.path(".writing"))
        .map_err(|error| CliError { code: "storage", ..CliError::usage(error.to_string()) })?;
    let before = user.read(&file)?.unwrap_or_default();
    let mut refusal = None;
    for value in readings(value) {
        let source = SourceText { path: &path, text: &before };
        let text = set_value(source, &key.path(), value)?;
        match check(&key, &user, &file, &text) {
            Ok(()) => {
                write(&path, &text)?;
                let line = format!("{}\n", one_line(&path.display().to_string()));
                return write_out(line.as_bytes());
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let refusal = refusal.unwrap_or_else(|| CliError::usage("there is nothing to set"));
    Err(refusal.hint("nothing was written"))
}

/// Returns the possible meanings of a value from the command line, in the order in which they are tried: TOML first;
/// for a value that is no TOML, or a TOML scalar other than a string, also the text itself and a list of it.
fn readings(given: &str) -> Vec<Value> {
    let as_texts = || [Value::from(given), [given].into_iter().collect()];
    match given.parse::<Value>() {
        Ok(value) if value.is_array() || value.is_inline_table() || value.is_str() => vec![value],
        Ok(value) => std::iter::once(value).chain(as_texts()).collect(),
        Err(_) => as_texts().into(),
    }
}

/// Checks that the setting or agent of the key is valid with `text` as the content of the file.
fn check(key: &ConfigKey, user: &ConfigLayer, file: &str, text: &str) -> Result<(), CliError> {
    let layers = Layers::new(vec![ConfigLayer::shipped(SHIPPED), user.clone()]).with_file(
        LayerKind::User,
        file,
        text,
    );
    let wrong = |message: String| CliError { code: "config", ..CliError::usage(message) };
    match &key.target {
        KeyTarget::Settings => {
            let settings = Settings::read(&layers)?;
            // Other settings can be set even if the configured agent is invalid.
            let Some(name) = settings.agent.filter(|_| key.path() == ["agent"]) else {
                return Ok(());
            };
            let agents = AgentRegistry::new(layers, tool_names());
            agents.composition(&name).map(drop).map_err(|error| wrong(error.to_string()))
        }
        KeyTarget::Agent { kind, name } => {
            let agents = AgentRegistry::new(layers, tool_names());
            let checked = match kind {
                AgentKind::Base => agents.base(name).map(drop),
                AgentKind::Composition => agents.composition(name).map(drop),
            };
            checked.map_err(|error| wrong(error.to_string()))
        }
    }
}
