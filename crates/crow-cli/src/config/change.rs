//! `config set`.

use crow_agent::{
    definition::{AgentKind, AgentRegistry, SHIPPED},
    layers::{Layer, LayerKind, Layers},
};
use toml_edit::Value;

use super::{
    Settings,
    commands::user_layer,
    document::{put, write},
    key::{Key, Target},
    load::tool_names,
};
use crate::{
    CliError, Environment, command::write_out, output::ExitCode, private_file, render::one_line,
};

/// Sets a value in the user's own file, if what comes of it can be used.
pub(crate) fn set(key: &str, value: &str, environment: &Environment) -> Result<ExitCode, CliError> {
    let key = Key::parse(key)?;
    let user = user_layer(environment)?;
    let file = key.target.file();
    let path = user.path(&file);
    if let Target::Agent { kind: AgentKind::Base, name } = &key.target {
        let markdown = user.path(&format!("agents/{name}.md"));
        if markdown.exists() {
            let message = format!("{name} is described by {}", markdown.display());
            return Err(CliError::usage(message).hint("edit that file"));
        }
    }
    let _alone = private_file::lock(&path)
        .map_err(|error| CliError { code: "storage", ..CliError::usage(error.to_string()) })?;
    let before = user.read(&file)?.unwrap_or_default();
    let mut refusal = None;
    // A word in quotes, a number or a list is TOML; what is none, or is not wanted as one, is a text.
    let as_toml = value.parse::<Value>().ok();
    for value in as_toml.into_iter().chain([Value::from(value)]) {
        let text = put(&before, &key.path(), value)
            .map_err(|reason| CliError::usage(format!("{}: {reason}", path.display())))?;
        match check(&key.target, &user, &file, &text) {
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

/// Looks whether what the file describes can be used, with this text in its place.
fn check(target: &Target, user: &Layer, file: &str, text: &str) -> Result<(), CliError> {
    let layers = Layers::new(vec![Layer::shipped(SHIPPED), user.clone()]).with_file(
        LayerKind::User,
        file,
        text,
    );
    match target {
        Target::Settings => Settings::read(&layers).map(drop).map_err(Into::into),
        Target::Agent { kind, name } => {
            let agents = AgentRegistry::new(layers, tool_names());
            let checked = match kind {
                AgentKind::Base => agents.base(name).map(drop),
                AgentKind::Composition => agents.composition(name).map(drop),
            };
            checked
                .map_err(|error| CliError { code: "config", ..CliError::usage(error.to_string()) })
        }
    }
}
