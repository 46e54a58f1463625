//! The settings of `config.toml`, and the JSON schemas of the configuration files.

use std::{path::PathBuf, time::Duration};

use crow_agent::{
    definition::{AgentKind, Seconds, schema},
    layers::{LayerKind, Layers, Node, ValueOrigin},
};
use crow_core::{config::ConfigError, model::ModelRef};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::Value;

use super::{McpTable, check_servers};
use crate::error::AppError;

/// Name of the settings file.
pub const SETTINGS: &str = "config.toml";

/// Merged settings of `config.toml`: the user's file, overridden by that of a trusted project.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Agent of sessions that name none.
    pub agent: Option<String>,
    /// Model that is used if neither the command line nor the agent names one.
    pub model: Option<ModelRef>,
    /// The same for reviewers.
    pub(crate) review_model: Option<ModelRef>,
    /// Commands that must succeed before work counts as done.
    pub(crate) checks: Vec<CheckSettings>,
    /// Sandbox of commands; only the user's file may set it.
    pub(crate) sandbox: SandboxTable,
    /// MCP servers whose tools agents may use.
    pub(crate) mcp: McpTable,
    /// Telemetry: local store, content, collector. Only the user's file may set it.
    pub(crate) telemetry: TelemetryTable,
    /// Search service of the tool `web_search`. Only the user's file may set it.
    pub(crate) web_search: WebSearchTable,
    /// Skills.
    pub(crate) skills: SkillsTable,
    /// Hooks. Only the user's file may set it.
    pub(crate) hooks: HooksTable,
    /// The interactive terminal. Only the user's file may set it.
    pub terminal: TerminalSettings,
}

/// Settings of the interactive terminal as texts: the terminal itself knows the possible values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalSettings {
    /// Name of the theme.
    pub theme: Option<LocatedText>,
    /// Name of the set of keys.
    pub keys: Option<LocatedText>,
    /// Template of the status line.
    pub status_line: Option<LocatedText>,
    /// Name of the kind of notifications.
    pub notifications: Option<LocatedText>,
    /// True for a screen reader: plain lines, and nothing that moves.
    pub screen_reader: bool,
}

/// A text of a configuration file with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedText {
    /// The text.
    pub text: String,
    origin: ValueOrigin,
}

impl LocatedText {
    /// Returns an error about the text, with file, line and column.
    pub fn error(&self, message: impl Into<String>) -> AppError {
        self.origin.error(message).into()
    }
}

/// A command that must succeed before work counts as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckSettings {
    /// Name of the check; unique.
    pub(crate) name: String,
    /// The command line.
    pub(crate) run: String,
    /// Time limit; the default of checks if absent.
    pub(crate) timeout: Option<Duration>,
}

/// The file as people write it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    /// The default agent.
    agent: Option<String>,
    /// The model used if neither the command line nor the agent names one, as "provider/model".
    model: Option<String>,
    /// The same for reviewers.
    review_model: Option<String>,
    #[serde(default)]
    checks: RawChecks,
    #[serde(default)]
    sandbox: SandboxTable,
    #[serde(default)]
    mcp: McpTable,
    #[serde(default)]
    telemetry: TelemetryTable,
    #[serde(default)]
    web_search: WebSearchTable,
    #[serde(default)]
    skills: SkillsTable,
    #[serde(default)]
    hooks: HooksTable,
    #[serde(default)]
    terminal: TerminalTable,
}

/// What must succeed before work counts as done.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawChecks {
    /// Command lines, without names and limits of their own.
    #[serde(default)]
    commands: Vec<String>,
    /// Command lines with a name and a time limit of their own.
    #[serde(default)]
    command: Vec<RawCheck>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    /// Its name; its command line if absent.
    name: Option<String>,
    /// The command line.
    run: String,
    /// How long it may take.
    timeout: Option<Seconds>,
}

/// The sandbox of commands.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxTable {
    /// Hosts that commands may reach, `*.` for subdomains.
    #[serde(default)]
    pub(crate) allow_hosts: Vec<String>,
    /// `true` lets commands reach everything.
    #[serde(default)]
    pub(crate) network: bool,
    /// Folders outside the project that commands may change.
    #[serde(default)]
    pub(crate) writable: Vec<PathBuf>,
    /// Hidden places that commands may read.
    #[serde(default)]
    pub(crate) readable: Vec<PathBuf>,
    /// Further places that commands may not read.
    #[serde(default)]
    pub(crate) hidden: Vec<PathBuf>,
    /// Protected paths in the project that commands may change.
    #[serde(default)]
    pub(crate) unprotected: Vec<PathBuf>,
    /// Maximum memory of one process, in GiB; shared memory is not counted.
    pub(crate) memory_gib: Option<u64>,
    /// Maximum number of processes at a time.
    pub(crate) processes: Option<u64>,
}

/// Telemetry of runs: the local store, and the OpenTelemetry collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TelemetryTable {
    /// `false` stores nothing in the data folder [default: `true`].
    pub(crate) local: Option<bool>,
    /// `true` adds prompts, titles of calls and error messages, and for a collector the messages to and from models with
    /// their reasoning, and arguments and answers of tools; all without known secrets [default: `false`].
    pub(crate) content: Option<bool>,
    /// Address of an OpenTelemetry collector, such as `http://127.0.0.1:4318` for OTLP over HTTP [default: none, nothing is
    /// sent].
    pub(crate) endpoint: Option<String>,
}

/// Skills: instructions for kinds of tasks, in folders with a `SKILL.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillsTable {
    /// Names of skills that are not used.
    #[serde(default)]
    pub(crate) disabled: Vec<String>,
}

/// Hooks: commands that are told what the agent does. They are configured in files of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HooksTable {
    /// `false` runs no hooks [default: `true`].
    enabled: Option<bool>,
    /// `false` leaves out your settings of Claude Code, `~/.claude/settings.json` [default: `true`].
    claude_settings: Option<bool>,
    /// `true` runs your own hooks outside of the sandbox [default: `false`, only those of notifications run outside].
    outside_sandbox: Option<bool>,
}

impl HooksTable {
    /// Returns true if hooks run.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// Returns true if the user's settings of Claude Code count.
    pub(crate) fn uses_claude_settings(&self) -> bool {
        self.claude_settings.unwrap_or(true)
    }

    /// Returns true if the user's own hooks run outside of the sandbox.
    pub(crate) fn runs_outside(&self) -> bool {
        self.outside_sandbox.unwrap_or(false)
    }
}

/// The interactive terminal.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TerminalTable {
    /// Colours: `auto`, `dark`, `light`, `dark-daltonized` and `light-daltonized` without red and green, `terminal` for the
    /// terminal's own 16 colours, or `mono` [default: `auto`, by the background of the terminal].
    theme: Option<String>,
    /// Keys of the prompt: `emacs` or `vi` [default: `emacs`].
    keys: Option<String>,
    /// The line below the prompt, with the fields `{agent}`, `{mode}`, `{permissions}`, `{model}`, `{context}`, `{budget}`
    /// that is used, `{cost}`, `{branch}`, `{jobs}`, `{thinking}`, `{tokens_in}`, `{tokens_out}`, `{cache}`, `{cwd}`,
    /// `{session}` and `{time}` of the run; a field without a value disappears with its separator [default: the first nine].
    status_line: Option<String>,
    /// How you are told that you are needed while you look elsewhere: `auto`, `osc9`, `osc777`, `osc99`, `bell` or `off`
    /// [default: `auto`].
    notifications: Option<String>,
    /// `true` writes plain lines that a screen reader can follow, without a region that changes [default: `false`].
    #[serde(default)]
    screen_reader: bool,
}

/// The search service of the tool `web_search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSearchTable {
    /// `brave`, `tavily`, `exa` or `searxng`, or the search of a provider of models: `anthropic`, `openai` or `gemini`
    /// [default: the first of the former with a key, or with an address in `SEARXNG_URL`; without any there is no tool].
    pub(crate) service: Option<String>,
    /// Address of the service: for `searxng` that of your server [default: its usual address].
    pub(crate) url: Option<String>,
    /// Model that searches, of a provider of models [default: `claude-haiku-5-5`, `gpt-5.4-mini` or `gemini-3.8-flash`].
    pub(crate) model: Option<String>,
}

impl Settings {
    /// Returns true if checks are configured.
    pub fn has_checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Adds a check with the default time limit.
    pub(crate) fn add_check(&mut self, command: String) {
        self.checks.push(CheckSettings { name: command.clone(), run: command, timeout: None });
    }

    /// Reads the merged settings of all layers.
    pub fn read(layers: &Layers) -> Result<Self, ConfigError> {
        match layers.merged(SETTINGS)? {
            Some(node) => Self::from_node(&node),
            None => Ok(Self::default()),
        }
    }

    fn from_node(node: &Node) -> Result<Self, ConfigError> {
        let raw: RawSettings = node.read()?;
        // The merged table may come from several layers, so each value is checked by its origin.
        for (key, what) in [
            ("sandbox", "the sandbox"),
            ("telemetry", "telemetry"),
            ("web_search", "the search service"),
            ("skills", "which skills are used"),
            ("hooks", "which hooks are used"),
            ("terminal", "the terminal"),
        ] {
            let Some(table) = node.find(&[key]) else { continue };
            let tables = table.leaves();
            let of_project =
                tables.iter().find(|(_, leaf)| leaf.origin.layer() == LayerKind::Project);
            if let Some((_, leaf)) = of_project {
                let message = format!("a project cannot configure {what}; only the user can");
                return Err(leaf.origin.error(message));
            }
        }
        check_servers(&raw.mcp, node)?;
        Ok(Self {
            agent: raw.agent,
            model: model(raw.model, node, "model")?,
            review_model: model(raw.review_model, node, "review_model")?,
            checks: checks(raw.checks, node)?,
            sandbox: raw.sandbox,
            mcp: raw.mcp,
            telemetry: raw.telemetry,
            web_search: raw.web_search,
            skills: raw.skills,
            hooks: raw.hooks,
            terminal: terminal(raw.terminal, node),
        })
    }
}

fn terminal(raw: TerminalTable, node: &Node) -> TerminalSettings {
    let located = |text: Option<String>, key: &str| {
        let origin = node.origin_of(&["terminal", key]);
        text.map(|text| LocatedText { text, origin: origin.clone() })
    };
    TerminalSettings {
        theme: located(raw.theme, "theme"),
        keys: located(raw.keys, "keys"),
        status_line: located(raw.status_line, "status_line"),
        notifications: located(raw.notifications, "notifications"),
        screen_reader: raw.screen_reader,
    }
}

fn model(given: Option<String>, node: &Node, key: &str) -> Result<Option<ModelRef>, ConfigError> {
    let parsed = given.map(|given| given.parse::<ModelRef>()).transpose();
    parsed.map_err(|error| node.origin_of(&[key]).error(error.to_string()))
}

fn checks(raw: RawChecks, node: &Node) -> Result<Vec<CheckSettings>, ConfigError> {
    let plain = raw.commands.into_iter().map(|run| (None, run, None, "commands"));
    let named =
        raw.command.into_iter().map(|check| (check.name, check.run, check.timeout, "command"));
    let mut checks: Vec<CheckSettings> = Vec::new();
    for (name, run, timeout, key) in plain.chain(named) {
        let wrong = |message: String| node.origin_of(&["checks", key]).error(message);
        if run.trim().is_empty() {
            return Err(wrong("the check has no command".to_owned()));
        }
        let name = name.filter(|name| !name.trim().is_empty()).unwrap_or_else(|| run.clone());
        if checks.iter().any(|check| check.name == name) {
            return Err(wrong(format!("there are two checks named \"{name}\"")));
        }
        checks.push(CheckSettings { name, run, timeout: timeout.map(Into::into) });
    }
    Ok(checks)
}

impl From<ConfigError> for AppError {
    fn from(error: ConfigError) -> Self {
        Self { code: "config", ..Self::usage(error.to_string()) }
    }
}

pub fn agent_schema(kind: AgentKind) -> Value {
    schema(kind).to_value()
}

pub fn settings_schema() -> Value {
    schema_for!(RawSettings).to_value()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crow_agent::layers::ConfigLayer;

    use super::*;

    fn read(user: &str, project: &str) -> Result<Settings, String> {
        let layer = |kind: LayerKind, text: &str| {
            let files = BTreeMap::from([(SETTINGS.to_owned(), text.as_bytes().to_vec())]);
            ConfigLayer::memory(kind, kind.as_str(), files)
        };
        let layers = vec![layer(LayerKind::User, user), layer(LayerKind::Project, project)];
        Settings::read(&Layers::new(layers)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_project_goes_before_the_user_and_cannot_widen_the_sandbox() {
        let user = "agent = \"BUILD-SMART\"\nmodel = \"a/b\"\n[sandbox]\nnetwork = true\n";
        let project = "model = \"c/d\"\nreview_model = \"e/f\"\n[checks]\ncommands = [\"cargo test\"]\n[[checks.command]]\nname = \"lint\"\nrun = \"cargo clippy\"\ntimeout = \"10m\"\n";
        let settings = read(user, project).unwrap();
        assert_eq!(settings.agent.as_deref(), Some("BUILD-SMART"));
        assert_eq!(settings.model.unwrap().to_string(), "c/d");
        assert_eq!(settings.review_model.unwrap().to_string(), "e/f");
        assert!(settings.sandbox.network);
        let check = |name: &str, run: &str, timeout| CheckSettings {
            name: name.to_owned(),
            run: run.to_owned(),
            timeout,
        };
        assert_eq!(
            settings.checks,
            [
                check("cargo test", "cargo test", None),
                check("lint", "cargo clippy", Some(Duration::from_mins(10))),
            ]
        );
        assert_eq!(
            read("", "[sandbox]\nallow_hosts = [\"evil.example\"]\n").unwrap_err(),
            "project/config.toml:2:15: a project cannot configure the sandbox; only the user can"
        );
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_place() {
        let told: Vec<_> = [
            "[sandbox]\nwriteable = []\n",
            "[sandbox\n",
            "[sandbox]\nmemory_gib = \"8\"\n",
            "modell = \"a/b\"\n",
            "model = \"gpt\"\n",
            "model = 1\n",
            "[checks]\ncommands = \"cargo test\"\n",
            "[checks]\ncommands = [\" \"]\n",
            "[checks]\ncommands = [\"a\", \"a\"]\n",
            "[[checks.command]]\nname = \"a\"\n",
            "[[checks.command]]\nrun = \"a\"\ntimeout = \"soon\"\n",
        ]
        .iter()
        .map(|text| {
            format!("{}\n    {}", text.trim().replace('\n', " ⏎ "), read(text, "").unwrap_err())
        })
        .collect();
        insta::assert_snapshot!(told.join("\n"));
    }
}
