//! `config schema`: JSON schemas of the configuration files.

use clap::ValueEnum as _;
use crow_agent::definition::AgentKind;
use crow_app::config::{agent_schema, settings_schema};
use crow_console::ExitCode;
use crow_core::permission::RuleSet;
use crow_providers::provider_schema;
use serde_json::Value;

use crate::{args::SchemaOf, error::CliError, terminal::write_out};

/// Prints the JSON Schema of a kind of file.
///
/// Editors check a file against one schema, so the kind must be named: a schema that accepts every kind of file would
/// find almost no errors.
pub(crate) fn print(kind: Option<SchemaOf>) -> Result<ExitCode, CliError> {
    let Some(kind) = kind else { return Err(no_kind()) };
    write_out(format!("{:#}\n", of_kind(kind)).as_bytes())
}

fn no_kind() -> CliError {
    let kinds = SchemaOf::value_variants().iter().filter_map(|kind| {
        let value = kind.to_possible_value()?;
        Some(format!("{} ({})", value.get_name(), value.get_help()?))
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    CliError::usage(format!("each kind of file has a schema of its own: {kinds}")).hint(
        "`crow-agent config schema config > config.schema.json`, and `#:schema config.schema.json` in the first line \
         of a TOML file, lets editors check it",
    )
}

fn of_kind(kind: SchemaOf) -> Value {
    match kind {
        SchemaOf::Base => agent_schema(AgentKind::Base),
        SchemaOf::Composition => agent_schema(AgentKind::Composition),
        SchemaOf::Config => settings_schema(),
        SchemaOf::Permissions => RuleSet::schema().to_value(),
        SchemaOf::Providers => provider_schema().to_value(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use crow_agent::definition::SHIPPED;

    use super::*;
    use crate::output::tests::faults;

    fn kind_of(path: &str) -> Option<SchemaOf> {
        [
            ("agents/base/", SchemaOf::Base),
            ("agents/acp/", SchemaOf::Composition),
            ("config.toml", SchemaOf::Config),
            ("permissions.json", SchemaOf::Permissions),
            ("providers/", SchemaOf::Providers),
        ]
        .into_iter()
        .find_map(|(part, kind)| path.contains(part).then_some(kind))
    }

    fn check(name: &str, kind: SchemaOf, text: &str) -> Vec<String> {
        let value: Value = match kind {
            SchemaOf::Permissions => serde_json::from_str(text).expect(name),
            SchemaOf::Base | SchemaOf::Composition | SchemaOf::Config | SchemaOf::Providers => {
                toml::from_str(text).expect(name)
            }
        };
        let schema = of_kind(kind);
        faults(&schema, &schema, &value)
    }

    #[test]
    fn the_shipped_agents_fit_their_schemas() {
        let agents = SHIPPED.iter().filter_map(|(path, text)| Some((path, kind_of(path)?, text)));
        assert!(agents.clone().count() > 10);
        for (path, kind, text) in agents {
            let faults = check(path, kind, text);
            assert!(faults.is_empty(), "{path}: {faults:#?}");
        }
    }

    /// Checks the TOML and JSON blocks of the documents, each against the kind that its first line or content
    /// indicates.
    #[test]
    fn the_examples_of_the_documents_fit_their_schemas() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut seen = Vec::new();
        let pages = fs::read_dir(root.join("docs/book/src")).unwrap();
        let pages = pages.map(|page| page.unwrap().path());
        for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
            let document = format!("docs/book/src/{}", page.file_name().unwrap().display());
            let document = document.as_str();
            let text = fs::read_to_string(root.join(document)).unwrap();
            for block in text.split("\n```").filter(|block| !block.starts_with('\n')) {
                let Some((language, body)) = block.split_once('\n') else { continue };
                let kind = match language {
                    "toml" => kind_of(body.lines().next().unwrap()),
                    "json" if body.contains("\"rules\"") => Some(SchemaOf::Permissions),
                    _ => None,
                };
                let Some(kind) = kind else { continue };
                let faults = check(document, kind, body);
                assert!(faults.is_empty(), "{document}: {faults:#?}\n{body}");
                if kind == SchemaOf::Permissions {
                    RuleSet::from_json(body).expect(document);
                }
                seen.push(kind);
            }
        }
        for kind in SchemaOf::value_variants() {
            assert!(seen.contains(kind), "no document has an example of {kind:?}");
        }
    }

    #[test]
    fn an_overlay_needs_to_name_only_what_it_changes() {
        for (kind, text) in [
            (SchemaOf::Composition, "[limits]\nmax_money = 1.0"),
            (SchemaOf::Composition, "[composition]\ncoagent = \"reviewer\""),
            (SchemaOf::Composition, "[handoff]\ntext = \"go on\""),
            (SchemaOf::Base, "[react]\nmax_iterations = 5"),
            (SchemaOf::Config, "[mcp.servers.time]\nenabled = false"),
        ] {
            let faults = check(text, kind, text);
            assert!(faults.is_empty(), "{text}: {faults:#?}");
        }
    }

    #[test]
    fn files_that_the_program_refuses_violate_the_schemas() {
        let provider = "[provider]\nname = \"a\"\ntype = \"ollama\"\n";
        for (kind, text) in [
            (SchemaOf::Composition, "[limits]\nmax_mony = 1.0"),
            (SchemaOf::Base, "[prompt]\nsystem = { path = \"a\" }"),
            (SchemaOf::Config, "[checks]\ncommand = [{ name = \"a\" }]"),
            (SchemaOf::Providers, "[defaults]\nmodel = \"a\""),
            (SchemaOf::Providers, &provider.replace("ollama", "olama")),
            (SchemaOf::Providers, &format!("{provider}[auth]\napi_key = {{ var = \"A\" }}")),
            (SchemaOf::Providers, &format!("{provider}[models.a]\nprice = {{ input = 1.0 }}")),
            (SchemaOf::Providers, &format!("{provider}[limits]\nconcurrency = 0")),
            (SchemaOf::Permissions, "{\"version\": 2, \"rules\": []}"),
            (SchemaOf::Permissions, &rule("{\"path\": \"a\"}")),
            (SchemaOf::Permissions, &rule("{\"tool_category\": \"reads\"}")),
            (SchemaOf::Permissions, &rule("{\"command_prefix\": [\"a\"], \"regex\": \"a\"}")),
        ] {
            assert!(!check(text, kind, text).is_empty(), "{text}");
        }
        assert!(check("a provider", SchemaOf::Providers, provider).is_empty());
        let sound = rule("{\"path\": {\"access\": \"read\", \"path\": \"a\"}}");
        assert!(check("a rule", SchemaOf::Permissions, &sound).is_empty());
    }

    fn rule(matcher: &str) -> String {
        let rule = format!("{{\"id\": \"a\", \"matcher\": {matcher}, \"decision\": \"deny\"}}");
        format!("{{\"version\": 1, \"rules\": [{rule}]}}")
    }
}
