//! The commands `skills list`, `skills show`, `skills disable` and `skills enable`.

use crow_app::ProcessEnvironment;
use crow_console::ExitCode;

use super::config;
use crate::{
    args::OutputForm,
    error::CliError,
    listings::skills::{ConfiguredSkills, find, listing, shown, skills},
    terminal::print_message,
};

/// Key of the names of skills that are not used.
const DISABLED: &str = "skills.disabled";

/// Prints the skills of the current directory, and what is wrong with any.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    listing(output, environment)?.print()
}

/// Prints a skill and its instructions.
pub(crate) fn show(
    name: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    shown(name, output, environment)?.print()
}

/// Adds a skill to those that are not used, or removes it from them.
pub(crate) fn switch(
    name: &str,
    is_on: bool,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let ConfiguredSkills { set, mut disabled, messages } = skills(environment)?;
    for message in &messages {
        print_message(message);
    }
    if !disabled.iter().any(|known| known == name) {
        find(name, &set)?;
    }
    disabled.retain(|known| known != name);
    if !is_on {
        disabled.push(name.to_owned());
    }
    let value: toml_edit::Value = disabled.into_iter().collect();
    config::set(DISABLED, &value.to_string(), environment)
}
