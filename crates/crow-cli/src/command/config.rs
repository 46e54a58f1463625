//! The commands `config get`, `explain`, `path`, `set`, `validate` and `schema`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use crow_agent::{
    definition::{AgentKind, AgentRegistry, SHIPPED},
    layers::{ConfigLayer, LayerKind, Layers, Node},
};
use crow_app::{
    ProcessEnvironment,
    config::{
        BUILT_IN, ConfigKey, Configuration, KeyTarget, SETTINGS, Settings, UnsetEffect,
        agent_schema, set_value, settings_schema, tool_names, unset_effect, write,
    },
    private_file,
    trust::{TrustStatus, project_root, trust_status},
};
use crow_console::ExitCode;
use crow_core::{config::SourceText, permission::RuleSet};
use crow_providers::provider_schema;
use crow_text::{neutralise, one_line};
use toml_edit::Value;

use super::trust::project_around;
use crate::{
    args::SchemaOf,
    configuration_check::{ConfigurationCheck, check_configuration},
    error::CliError,
    terminal::{print_message, write_line, write_out},
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
    // Scripts get the value as it is.
    let text = if io::stdout().is_terminal() { neutralise(&text) } else { text };
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
fn load(environment: &ProcessEnvironment) -> Result<Configuration, CliError> {
    let project = project_around(environment.current_dir()?, environment)?;
    Ok(Configuration::load(environment, &project.additions)?)
}

/// Returns the merged content of the file of a key. Fails if the key names an agent that does not exist.
fn merged(configuration: &Configuration, key: &ConfigKey) -> Result<Option<Node>, CliError> {
    let node = key.target.merged(&configuration.agents)?;
    if let (None, KeyTarget::Agent { kind, name }) = (&node, &key.target) {
        let error = match kind {
            AgentKind::Base => configuration.agents.base(name).err(),
            AgentKind::Composition => configuration.agents.composition(name).err(),
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

/// Sets a value in the user's file, if the resulting configuration is valid, and prints the path of the file.
pub(crate) fn set(
    key: &str,
    value: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    write_line(&write_value(key, value, environment)?.display().to_string())
}

/// Sets a value in the user's file, if the resulting configuration is valid. Returns the path of the file.
pub(crate) fn write_value(
    key: &str,
    value: &str,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, CliError> {
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
        match check_change(&key, &user, &file, &text) {
            Ok(()) => {
                write(&path, &text)?;
                return Ok(path);
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
fn check_change(
    key: &ConfigKey,
    user: &ConfigLayer,
    file: &str,
    text: &str,
) -> Result<(), CliError> {
    let layers = Layers::new(vec![ConfigLayer::shipped(SHIPPED), user.clone()]).with_file(
        LayerKind::User,
        file,
        text,
    );
    match &key.target {
        KeyTarget::Settings => {
            let settings = Settings::read(&layers)?;
            // Other settings can be set even if the configured agent is invalid.
            let Some(name) = settings.agent.filter(|_| key.path() == ["agent"]) else {
                return Ok(());
            };
            let agents = AgentRegistry::new(layers, tool_names());
            agents.composition(&name).map(drop).map_err(|error| CliError::config(error.to_string()))
        }
        KeyTarget::Agent { kind, name } => {
            let agents = AgentRegistry::new(layers, tool_names());
            let checked = match kind {
                AgentKind::Base => agents.base(name).map(drop),
                AgentKind::Composition => agents.composition(name).map(drop),
            };
            checked.map_err(|error| CliError::config(error.to_string()))
        }
    }
}

/// Checks every file and prints errors and warnings.
pub(crate) fn validate(environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let project = project_around(environment.current_dir()?, environment)?;
    let ConfigurationCheck { errors, warnings, count } =
        check_configuration(environment, &project)?;
    let mut text = String::new();
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    for line in errors.iter().map(|error| format!("error: {error}")).chain(warnings) {
        let _ = writeln!(text, "{}", one_line(&line));
    }
    if errors.is_empty() {
        let _ = writeln!(text, "{count} agents, settings, providers and rules are valid");
    }
    write_out(text.as_bytes())?;
    Ok(if errors.is_empty() { ExitCode::Done } else { ExitCode::Usage })
}

/// Prints the JSON Schema of a kind of file.
///
/// Editors check a file against one schema, so the kind must be named: a schema that accepts every kind of file would
/// find almost no errors.
pub(crate) fn print_schema(kind: Option<SchemaOf>) -> Result<ExitCode, CliError> {
    let Some(kind) = kind else { return Err(no_kind()) };
    write_out(format!("{:#}\n", schema_of(kind)).as_bytes())
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

fn schema_of(kind: SchemaOf) -> serde_json::Value {
    match kind {
        SchemaOf::Base => agent_schema(AgentKind::Base),
        SchemaOf::Composition => agent_schema(AgentKind::Composition),
        SchemaOf::Config => settings_schema(),
        SchemaOf::Profiles => crow_agent::profile_schema().to_value(),
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
            ("profiles/", SchemaOf::Profiles),
            ("providers/", SchemaOf::Providers),
        ]
        .into_iter()
        .find_map(|(part, kind)| path.contains(part).then_some(kind))
    }

    fn schema_faults(name: &str, kind: SchemaOf, text: &str) -> Vec<String> {
        let value: serde_json::Value = match kind {
            SchemaOf::Permissions => serde_json::from_str(text).expect(name),
            SchemaOf::Base
            | SchemaOf::Composition
            | SchemaOf::Config
            | SchemaOf::Profiles
            | SchemaOf::Providers => toml::from_str(text).expect(name),
        };
        let schema = schema_of(kind);
        faults(&schema, &schema, &value)
    }

    #[test]
    fn the_shipped_agents_fit_their_schemas() {
        let agents = SHIPPED.iter().filter_map(|(path, text)| Some((path, kind_of(path)?, text)));
        assert!(agents.clone().count() > 10);
        for (path, kind, text) in agents {
            let faults = schema_faults(path, kind, text);
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
                let faults = schema_faults(document, kind, body);
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
            let faults = schema_faults(text, kind, text);
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
            assert!(!schema_faults(text, kind, text).is_empty(), "{text}");
        }
        assert!(schema_faults("a provider", SchemaOf::Providers, provider).is_empty());
        let sound = rule("{\"path\": {\"access\": \"read\", \"path\": \"a\"}}");
        assert!(schema_faults("a rule", SchemaOf::Permissions, &sound).is_empty());
    }

    fn rule(matcher: &str) -> String {
        let rule = format!("{{\"id\": \"a\", \"matcher\": {matcher}, \"decision\": \"deny\"}}");
        format!("{{\"version\": 1, \"rules\": [{rule}]}}")
    }
}
