//! Parsing a project's configuration, and describing what it could do.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_agent::layers::{ConfigLayer, LayerKind};
use crow_core::permission::{PermissionRule, RuleDecision, RuleMatcher, RuleScope, RuleSet};
use crow_providers::{ProviderConfig, is_built_in};
use crow_runtime::RuleStore;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{
    config::{self, PROJECT_FILE, ServerTable},
    error::AppError,
    rule_text::describe_rule,
    trust::contents::{FOLDER, ProjectFiles, ProjectItem},
};

/// The file of permission rules.
const RULES: &str = "permissions.json";
/// The folder of provider files.
const PROVIDERS: &str = "providers/";

/// Parsed configuration of a project.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectConfig {
    /// Rules that only deny or ask.
    pub(crate) rules: RuleSet,
    pub(crate) providers: Vec<ProviderConfig>,
    /// MCP servers of its `.mcp.json`.
    pub(crate) mcp_servers: BTreeMap<String, ServerTable>,
    /// Errors of servers that were left out.
    pub(crate) faults: Vec<String>,
}

impl ProjectConfig {
    /// Parses the files. Fails if one is invalid, except for `.mcp.json`.
    pub fn parse(contents: &ProjectFiles) -> Result<Self, AppError> {
        let rules = match contents.file(RULES) {
            Some(bytes) => rules(contents.root(), &contents.path(RULES), bytes)?,
            None => RuleSet::default(),
        };
        let mut providers = Vec::new();
        for name in contents.items.keys().filter(|name| is_provider(name)) {
            if let Some(bytes) = contents.file(name) {
                providers.push(provider(&contents.path(name), bytes)?);
            }
        }
        config::check_project(&layer(contents))?;
        let (mcp_servers, faults) = match contents.servers() {
            // The file is shared with other programs: its errors are reported and do not stop the agent.
            Some((path, bytes)) => config::servers_of_project(&path, bytes)
                .unwrap_or_else(|error| (BTreeMap::new(), vec![error.message])),
            None => Default::default(),
        };
        Ok(Self { rules, providers, mcp_servers, faults })
    }
}

/// Returns the files as the configuration layer of the project, from memory.
pub(crate) fn layer(contents: &ProjectFiles) -> ConfigLayer {
    let names = contents.items.keys();
    let files = names.filter_map(|name| Some((name.clone(), contents.file(name)?.to_vec())));
    ConfigLayer::memory(LayerKind::Project, folder_of(contents.root()), files.collect())
}

/// Returns the servers that a project's configuration starts. Invalid files start none.
pub(super) fn servers(contents: &ProjectFiles) -> BTreeMap<String, ServerTable> {
    let mut servers = BTreeMap::new();
    if let Some(bytes) = contents.file(config::SETTINGS) {
        let files = [(config::SETTINGS.to_owned(), bytes.to_vec())];
        let layer = ConfigLayer::memory(
            LayerKind::Project,
            folder_of(contents.root()),
            files.into_iter().collect(),
        );
        servers.extend(config::servers(&layer));
    }
    if let Some((path, bytes)) = contents.servers()
        && let Ok((others, _)) = config::servers_of_project(&path, bytes)
    {
        // Names do not matter here: of two servers with one name, both are watched.
        servers.extend(
            others.into_iter().map(|(name, server)| (format!("{PROJECT_FILE} {name}"), server)),
        );
    }
    servers
}

/// Returns for each file and link its name (as in fingerprints), a description, and what it could do if it were
/// trusted.
pub(crate) fn capabilities(contents: &ProjectFiles) -> Vec<(String, String, Vec<String>)> {
    let is_no_folder = |item: &&ProjectItem| !matches!(item, ProjectItem::Folder);
    let items = contents.items.iter().filter(|(_, item)| is_no_folder(item));
    items
        .map(|(name, item)| {
            let what = match item {
                ProjectItem::Folder => String::new(),
                ProjectItem::File { bytes, executable: false } => format!("{} bytes", bytes.len()),
                ProjectItem::File { bytes, executable: true } => {
                    format!("{} bytes, can be executed", bytes.len())
                }
                ProjectItem::Link { target } => format!("a link to {target}"),
            };
            (name.clone(), what, file_capabilities(contents, name))
        })
        .collect()
}

fn file_capabilities(contents: &ProjectFiles, name: &str) -> Vec<String> {
    let Some(bytes) = contents.file(name) else { return Vec::new() };
    let path = contents.path(name);
    let result = if name == RULES {
        rules(contents.root(), &path, bytes)
            .map(|rules| rules.rules().iter().map(describe_rule).collect())
    } else if is_provider(name) {
        provider(&path, bytes).map(|provider| vec![reach(&provider)])
    } else if contents.servers().is_some_and(|(file, _)| file == path) {
        mcp_powers(&path, bytes)
    } else if let Some(powers) = config::capabilities(&layer(contents), name) {
        powers
    } else {
        Ok(vec!["not used by this version of crow-agent".to_owned()])
    };
    result.unwrap_or_else(|error| vec![format!("cannot be used: {}", error.message)])
}

/// Describes the servers of a project.
fn mcp_powers(path: &Path, bytes: &[u8]) -> Result<Vec<String>, AppError> {
    let (servers, faults) = config::servers_of_project(path, bytes)?;
    let powers = servers.iter().map(|(name, server)| config::describe_access(name, server));
    Ok(powers.chain(faults).collect())
}

/// Describes where requests of a provider go, and with which key.
fn reach(provider: &ProviderConfig) -> String {
    let reach = provider.destination();
    let key = match (reach.key_variable, reach.contains_key) {
        (Some(variable), _) => format!(", with the key in ${variable}"),
        (None, true) => ", with a key of its own".to_owned(),
        (None, false) => String::new(),
    };
    format!(
        "the provider \"{}\": your prompts and the files that the agent reads go to {}{key}",
        provider.name(),
        reach.address
    )
}

fn is_provider(name: &str) -> bool {
    // Hidden files are lock files and backups of editors.
    name.strip_prefix(PROVIDERS).is_some_and(|file| {
        !file.contains('/')
            && !file.starts_with('.')
            && Path::new(file).extension().is_some_and(|extension| extension == "toml")
    })
}

fn provider(path: &Path, bytes: &[u8]) -> Result<ProviderConfig, AppError> {
    let text = text(path, bytes)?;
    let provider =
        ProviderConfig::parse(path, text).map_err(|error| config_error(error.to_string()))?;
    if is_built_in(provider.name()) {
        return Err(config_error(format!(
            "{}: \"{}\" is built in, and a project cannot replace it",
            path.display(),
            provider.name()
        ))
        .hint("give it another name"));
    }
    Ok(provider)
}

fn rules(root: &Path, path: &Path, bytes: &[u8]) -> Result<RuleSet, AppError> {
    let text = text(path, bytes)?;
    let rules = RuleStore::parse(path, text)?;
    if let Err(error) = serde_json::from_str::<NarrowingRules>(text) {
        let (line, column) = (error.line(), error.column());
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        return Err(config_error(format!("{}:{line}:{column}: {reason}", path.display()))
            .hint("a project's rules can only deny or ask; allow in your own rules"));
    }
    let rules = rules.into_rules().into_iter().map(|rule| of_project(rule, root, path));
    RuleSet::new(rules.collect::<Result<Vec<_>, _>>()?)
        .map_err(|error| config_error(error.to_string()))
}

/// Converts a rule to one of the project: prefixes its id, allows only a global or agent scope, and resolves relative
/// paths from the project's root, wherever in the project the agent works.
fn of_project(
    mut rule: PermissionRule,
    root: &Path,
    path: &Path,
) -> Result<PermissionRule, AppError> {
    if rule.decision == RuleDecision::Allow {
        return Err(config_error(format!("{}: the rule `{}` allows", path.display(), rule.id)));
    }
    match rule.scope {
        RuleScope::Global | RuleScope::Agent(_) => {}
        RuleScope::Managed | RuleScope::Session(_) | RuleScope::User => {
            return Err(config_error(format!(
                "{}: the rule `{}` has a scope that a project may not use",
                path.display(),
                rule.id
            ))
            .hint("leave out the scope, or name an agent"));
        }
    }
    if let RuleMatcher::Path { path, .. } = &mut rule.matcher
        && path.is_relative()
    {
        *path = root.join(&*path);
    }
    let id = format!("project:{}", rule.id);
    Ok(rule.with_id(id))
}

/// Parses only if no rule allows anything. The error points to the first one that does.
#[derive(Deserialize)]
struct NarrowingRules {
    #[serde(rename = "rules")]
    _rules: Vec<NarrowingRule>,
}

#[derive(Deserialize)]
struct NarrowingRule {
    #[serde(rename = "decision", deserialize_with = "denies_or_asks")]
    _decision: RuleDecision,
}

fn denies_or_asks<'de, D: Deserializer<'de>>(json: D) -> Result<RuleDecision, D::Error> {
    match RuleDecision::deserialize(json)? {
        RuleDecision::Allow => {
            Err(D::Error::custom("a project can only deny or ask, it cannot allow"))
        }
        decision @ (RuleDecision::Deny | RuleDecision::AskUser) => Ok(decision),
    }
}

fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, AppError> {
    std::str::from_utf8(bytes).map_err(|_| config_error(format!("{} is not text", path.display())))
}

fn config_error(message: String) -> AppError {
    AppError { code: "config", ..AppError::usage(message) }
}

/// Returns the configuration folder of a project, for messages.
pub(crate) fn folder_of(root: &Path) -> PathBuf {
    root.join(FOLDER)
}
