//! opencode: the folder `~/.config/opencode`, or that of `OPENCODE_CONFIG_DIR`.

use std::path::Path;

use crow_core::permission::RuleDecision;
use regex::Regex;
use serde_json::{Map, Value};

use super::{
    files::files_below,
    front_matter::{head, markdown},
    plan::ImportPlan,
    rules::{self, RulePaths},
    servers::add_servers,
    sessions::{add_sessions, opencode::OpenCodeSessions},
    source::ImportSource,
};

/// opencode's keys of permissions, and the tools that rules name.
const PERMISSIONS: [(&str, &str); 7] = [
    ("bash", "Bash"),
    ("edit", "Edit"),
    ("read", "Read"),
    ("webfetch", "WebFetch"),
    ("websearch", "WebSearch"),
    ("task", "Task"),
    ("skill", "Skill"),
];
/// Keys of opencode that Crow has elsewhere.
const ELSEWHERE: [(&str, &str); 8] = [
    ("model", "choose a model with `crow-agent models`"),
    ("small_model", "agents have models of their own"),
    ("provider", "describe providers in providers/NAME.toml, see the book"),
    ("plugin", "plugins are programs for opencode; MCP servers and hooks do such things here"),
    ("instructions", "write them into your AGENTS.md"),
    ("formatter", "a hook of the event PostToolUse does that, see the book"),
    ("lsp", "there are no language servers"),
    ("tools", "name the tools of an agent in its file, or write rules"),
];

pub(super) fn read(plan: &mut ImportPlan) {
    let own = plan.folder_variable("OPENCODE_CONFIG_DIR");
    let config = plan.folder_variable("XDG_CONFIG_HOME");
    let config = config.unwrap_or_else(|| plan.home.join(".config"));
    let folder = own.unwrap_or_else(|| config.join("opencode"));
    // A later file goes before an earlier one.
    for name in ["opencode.jsonc", "opencode.json", "config.json"] {
        let path = folder.join(name);
        if let Some(settings) = plan.read_json(&path) {
            read_settings(plan, &path, &settings);
        }
    }
    for kind in ["agent", "agents"] {
        for path in files_below(&folder.join(kind), ".md") {
            plan.add_agent_file(&path);
        }
    }
    for kind in ["command", "commands"] {
        for path in files_below(&folder.join(kind), ".md") {
            plan.add_command_file(&path);
        }
    }
    for kind in ["skill", "skills"] {
        plan.add_skills(&folder.join(kind));
    }
    plan.add_instructions(&folder.join("AGENTS.md"));
    add_stored_sessions(plan);
}

/// Adds the sessions, which are in the folder of data.
fn add_stored_sessions(plan: &mut ImportPlan) {
    let data = plan.folder_variable("XDG_DATA_HOME");
    let data = data.unwrap_or_else(|| plan.home.join(".local/share")).join("opencode");
    let database = data.join("opencode.db");
    if matches!(database.try_exists(), Ok(false)) {
        let why = "sessions in files are of an older version: a newer opencode moves them into its database";
        return plan.leave_out_path(&data.join("storage/session"), why);
    }
    add_sessions(plan, ImportSource::OpenCode, OpenCodeSessions::new(database));
}

fn read_settings(plan: &mut ImportPlan, from: &Path, settings: &Map<String, Value>) {
    add_servers(plan, from, settings.get("mcp"), with_variables);
    if let Some(permissions) = settings.get("permission") {
        read_permissions(plan, from, permissions);
    }
    for (name, agent) in objects(settings.get("agent")) {
        let text = |key: &str| agent.get(key).and_then(Value::as_str);
        let Some(prompt) = text("prompt") else {
            let why = "it has no prompt of its own: it changes one of opencode's agents";
            plan.leave_out(format!("agent {name} of {}", from.display()), why);
            continue;
        };
        let prompt = match prompt.strip_prefix("{file:").and_then(|rest| rest.strip_suffix('}')) {
            Some(file) => {
                let path = match file.strip_prefix("~/") {
                    Some(file) => plan.home.join(file),
                    None => from.parent().unwrap_or(from).join(file),
                };
                let Some(text) = plan.read_text(&path) else {
                    let why = format!("its text, {}, cannot be read", path.display());
                    plan.leave_out(format!("agent {name} of {}", from.display()), why);
                    continue;
                };
                text
            }
            None => prompt.to_owned(),
        };
        let tools = agent.get("tools").and_then(Value::as_object);
        let has_limits = agent.contains_key("permission")
            || tools.is_some_and(|tools| tools.values().any(|value| value == false));
        if has_limits {
            let why = "it is limited by `tools` or `permission` in a way that has no equal";
            plan.leave_out(format!("agent {name} of {}", from.display()), why);
            continue;
        }
        let keys = [
            ("description", text("description")),
            ("mode", text("mode")),
            ("model", text("model")),
        ];
        let known = ["prompt", "description", "mode", "model"];
        let notes = left_out_keys(agent.keys().map(String::as_str), &known);
        plan.add_agent(from, name, &head(&keys), &prompt, notes);
    }
    for (name, command) in objects(settings.get("command")) {
        let text = |key: &str| command.get(key).and_then(Value::as_str);
        let Some(template) = text("template") else {
            plan.leave_out(format!("command {name} of {}", from.display()), "it has no template");
            continue;
        };
        let notes = left_out_keys(command.keys().map(String::as_str), &["template", "description"]);
        let text = markdown(&[("description", text("description"))], template);
        plan.add_command(from, name, text, notes);
    }
    for (key, hint) in ELSEWHERE {
        if settings.contains_key(key) {
            plan.leave_out(format!("`{key}` of {}", from.display()), hint);
        }
    }
}

/// `{ "bash": { "git *": "allow", "*": "ask" }, "edit": "deny" }`
fn read_permissions(plan: &mut ImportPlan, from: &Path, permissions: &Value) {
    let Some(permissions) = permissions.as_object() else {
        let why = "one decision about everything is a mode here: choose it with --permissions";
        return plan.leave_out(format!("permission {permissions}"), why);
    };
    for (key, value) in permissions {
        let Some((_, tool)) = PERMISSIONS.iter().find(|(other, _)| other == key) else {
            plan.leave_out(format!("permission {key} {value}"), "it has no equal here");
            continue;
        };
        let patterns: Vec<(String, &Value)> = match value {
            Value::Object(patterns) => {
                let patterns = patterns.iter();
                let written = |pattern: &String| format!("{tool}({})", with_own_base(pattern));
                patterns.map(|(pattern, value)| (written(pattern), value)).collect()
            }
            value => vec![((*tool).to_owned(), value)],
        };
        // The last pattern that matches decides there, so a later one goes first here.
        for ((written, value), priority) in patterns.iter().zip(0..) {
            let what = format!("permission {written} {value}");
            let decision = match value.as_str() {
                Some("allow") => RuleDecision::Allow,
                Some("ask") => RuleDecision::AskUser,
                Some("deny") => RuleDecision::Deny,
                _ => {
                    plan.leave_out(what, "it is none of allow, ask and deny");
                    continue;
                }
            };
            let (home, base) = (plan.home.clone(), from.parent().unwrap_or(from).to_path_buf());
            let paths = RulePaths { home: &home, settings: &base, star_crosses_folders: true };
            match rules::rules(written, decision, priority, paths) {
                Ok(mut rules) => {
                    let later = patterns.iter().skip(usize::try_from(priority).unwrap_or(0) + 1);
                    let has_exception = later.clone().any(|(_, value)| *value != "deny");
                    if decision == RuleDecision::Deny && has_exception {
                        let note = "a denial goes first here: what follows it makes no exception";
                        rules.notes.push(note.to_owned());
                    }
                    plan.add_rules(from, &what["permission ".len()..], rules);
                }
                Err(why) => plan.leave_out(what, why),
            }
        }
    }
}

/// Rewrites the beginning of a path to the notation of [`rules`].
fn with_own_base(pattern: &str) -> String {
    match pattern.strip_prefix("$HOME/") {
        Some(rest) => format!("~/{rest}"),
        None if pattern.starts_with('/') => format!("/{pattern}"),
        None => pattern.to_owned(),
    }
}

fn objects(value: Option<&Value>) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name, value.as_object()?)))
}

fn left_out_keys<'a>(keys: impl Iterator<Item = &'a str>, known: &[&str]) -> Vec<String> {
    keys.filter(|key| !known.contains(key)).map(|key| format!("`{key}` is left out")).collect()
}

/// Rewrites `{env:NAME}`.
fn with_variables(text: &str) -> String {
    let pattern = Regex::new(r"\{env:([^}]+)\}").expect("invariant: a valid pattern");
    pattern.replace_all(text, "$${$1}").into_owned()
}
