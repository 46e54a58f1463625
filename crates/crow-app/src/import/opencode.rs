//! opencode: the folder `~/.config/opencode`, or that of `OPENCODE_CONFIG_DIR`.

use std::path::Path;

use crow_core::permission::RuleDecision;
use regex::Regex;
use serde_json::{Map, Value};

use super::{
    front_matter::markdown,
    plan::{ImportPlan, files_below, name_of},
    rules::{self, RulePaths},
    servers::add_servers,
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
const ELSEWHERE: [(&str, &str); 7] = [
    ("model", "choose a model with `crow-agent models`"),
    ("small_model", "agents have models of their own"),
    ("provider", "describe providers in providers/NAME.toml, see the book"),
    ("plugin", "plugins are programs for opencode; MCP servers and hooks do such things here"),
    ("instructions", "write them into your AGENTS.md"),
    ("formatter", "a hook of the event PostToolUse does that, see the book"),
    ("lsp", "there are no language servers"),
];

pub(super) fn read(plan: &mut ImportPlan) {
    let own = plan.folder_variable("OPENCODE_CONFIG_DIR");
    let config = plan.folder_variable("XDG_CONFIG_HOME");
    let config = config.unwrap_or_else(|| plan.home.join(".config"));
    let folder = own.unwrap_or_else(|| config.join("opencode"));
    for name in ["config.json", "opencode.json", "opencode.jsonc"] {
        let path = folder.join(name);
        if let Some(settings) = plan.read_json(&path) {
            read_settings(plan, &path, &settings);
        }
    }
    for kind in ["agent", "agents"] {
        for path in files_below(&folder.join(kind), ".md") {
            plan.add_agent_file(&path, &name_of(&path));
        }
    }
    for kind in ["command", "commands"] {
        for path in files_below(&folder.join(kind), ".md") {
            plan.add_command_file(&path, &name_of(&path));
        }
    }
    for kind in ["skill", "skills"] {
        plan.add_skills(&folder.join(kind));
    }
    plan.add_instructions(&folder.join("AGENTS.md"));
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
                let path = from.parent().unwrap_or(from).join(file.trim_start_matches("./"));
                let Some(text) = plan.read_text(&path) else {
                    let why = format!("there is no {}", path.display());
                    plan.leave_out(format!("agent {name} of {}", from.display()), why);
                    continue;
                };
                text
            }
            None => prompt.to_owned(),
        };
        let keys = [
            ("name", Some(name.as_str())),
            ("description", text("description")),
            ("mode", text("mode")),
            ("model", text("model")),
        ];
        let known = ["prompt", "description", "mode", "model"];
        let notes = left_out_keys(agent.keys().map(String::as_str), &known);
        plan.add_agent(from, name, markdown(&keys, &prompt), notes);
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
                patterns.map(|(pattern, value)| (format!("{tool}({pattern})"), value)).collect()
            }
            value => vec![((*tool).to_owned(), value)],
        };
        for (written, value) in patterns {
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
            match rules::rule(&written, decision, RulePaths { home: &home, settings: &base }) {
                Ok(rule) => plan.add_rule(from, &what["permission ".len()..], rule),
                Err(why) => plan.leave_out(what, why),
            }
        }
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
