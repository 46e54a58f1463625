//! `config schema`.

use crow_agent::definition::{AgentKind, schema};
use schemars::schema_for;
use serde_json::{Value, json};

use super::settings::RawSettings;
use crate::{CliError, args::SchemaOf, command::write_out, output::ExitCode};

/// Prints the JSON Schema of a kind of file, or of all.
pub(crate) fn print(of: Option<SchemaOf>) -> Result<ExitCode, CliError> {
    let value = match of {
        Some(SchemaOf::Base) => of_agent(AgentKind::Base),
        Some(SchemaOf::Composition) => of_agent(AgentKind::Composition),
        Some(SchemaOf::Config) => of_settings(),
        None => json!({
            "base": of_agent(AgentKind::Base),
            "composition": of_agent(AgentKind::Composition),
            "config": of_settings(),
        }),
    };
    write_out(format!("{value:#}\n").as_bytes())
}

pub(super) fn of_agent(kind: AgentKind) -> Value {
    schema(kind).to_value()
}

pub(super) fn of_settings() -> Value {
    schema_for!(RawSettings).to_value()
}
