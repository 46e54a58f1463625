//! Claude Code: `~/.claude.json`, and the folder `~/.claude` or that of `CLAUDE_CONFIG_DIR`.

use std::path::Path;

use crow_core::permission::RuleDecision;
use serde_json::{Map, Value};

use super::{
    files::files_below,
    plan::ImportPlan,
    rules::{self, RulePaths},
    servers::add_servers,
    sessions::{add_sessions, claude::ClaudeSessions},
    source::ImportSource,
};

/// Settings of Claude Code that Crow has no equal for, or has elsewhere.
const ELSEWHERE: [(&str, &str); 10] = [
    ("model", "choose a model with `crow-agent models`"),
    ("env", "set variables in your shell"),
    ("apiKeyHelper", "store a key with `crow-agent login`"),
    ("sandbox", "Crow's sandbox has settings of its own, `[sandbox]` in config.toml"),
    ("enabledPlugins", "plugins have no equal; their skills can be copied"),
    ("outputStyle", "write it into your AGENTS.md"),
    ("statusLine", "there is no status line of your own"),
    ("disabledMcpjsonServers", "switch servers off with `enabled = false` in config.toml"),
    ("deniedMcpServers", "switch servers off with `enabled = false` in config.toml"),
    ("additionalDirectories", "name them with --add-dir"),
];

pub(super) fn read(plan: &mut ImportPlan) {
    let own = plan.folder_variable("CLAUDE_CONFIG_DIR");
    let folder = own.clone().unwrap_or_else(|| plan.home.join(".claude"));
    let state = own.map_or_else(|| plan.home.join(".claude.json"), |own| own.join(".claude.json"));
    if let Some(object) = plan.read_json(&state) {
        // Those of the folder go before those of the user.
        read_projects(plan, &state, &object);
        add_servers(plan, &state, object.get("mcpServers"), str::to_owned);
    }
    let path = folder.join("settings.json");
    if let Some(settings) = plan.read_json(&path) {
        read_settings(plan, &path, &settings);
    }
    let why = "it is about work in your home directory alone";
    plan.leave_out_path(&folder.join("settings.local.json"), why);
    for path in files_below(&folder.join("agents"), ".md") {
        plan.add_agent_file(&path);
    }
    plan.add_instructions(&folder.join("CLAUDE.md"));
    let is_default = folder == plan.home.join(".claude");
    if is_default {
        plan.use_folder(&folder.join("skills"), "skills");
        plan.use_folder(&folder.join("commands"), "commands");
    } else {
        plan.add_skills(&folder.join("skills"));
        for path in files_below(&folder.join("commands"), ".md") {
            plan.add_command_file(&path);
        }
    }
    add_sessions(plan, ImportSource::Claude, ClaudeSessions { folder });
}

/// Servers that belong to one folder are a project's: only those of the folder that the user works in are taken.
fn read_projects(plan: &mut ImportPlan, from: &Path, object: &Map<String, Value>) {
    let Some(projects) = object.get("projects").and_then(Value::as_object) else { return };
    let current = plan.current_dir();
    for (folder, project) in projects {
        let servers = project
            .get("mcpServers")
            .filter(|servers| servers.as_object().is_some_and(|servers| !servers.is_empty()));
        let Some(servers) = servers else { continue };
        if current.as_deref() == Some(Path::new(folder)) {
            add_servers(plan, from, Some(servers), str::to_owned);
        } else {
            plan.leave_out(
                format!("MCP servers of {folder}"),
                "they belong to that folder; run the import there",
            );
        }
    }
}

fn read_settings(plan: &mut ImportPlan, from: &Path, settings: &Map<String, Value>) {
    if settings.contains_key("hooks") {
        let is_read = plan.home.join(".claude/settings.json") == from;
        if is_read {
            plan.used.push(format!("hooks of {}", from.display()));
        } else {
            plan.leave_out(
                format!("hooks of {}", from.display()),
                "only those of ~/.claude/settings.json are read; copy them to hooks.json in Crow's folder",
            );
        }
    }
    let permissions = settings.get("permissions").and_then(Value::as_object);
    for (key, decision) in [
        ("allow", RuleDecision::Allow),
        ("ask", RuleDecision::AskUser),
        ("deny", RuleDecision::Deny),
    ] {
        let written = permissions.and_then(|permissions| permissions.get(key));
        let base = from.parent().unwrap_or(from).to_path_buf();
        for written in written.and_then(Value::as_array).into_iter().flatten() {
            let what = format!("permission {key} {written}");
            let Some(written) = written.as_str() else {
                plan.leave_out(what, "it is no text");
                continue;
            };
            let home = plan.home.clone();
            let paths = RulePaths { home: &home, settings: &base, star_crosses_folders: false };
            // A question goes before a permission there, however narrow either is.
            let priority = i32::from(decision == RuleDecision::AskUser);
            match rules::rules(written, decision, priority, paths) {
                Ok(rules) => plan.add_rules(from, &format!("{key} {written}"), rules),
                Err(why) => plan.leave_out(what, why),
            }
        }
    }
    if let Some(mode) = permissions.and_then(|permissions| permissions.get("defaultMode")) {
        plan.leave_out(format!("permission mode {mode}"), "choose a mode with --permissions");
    }
    for (key, hint) in ELSEWHERE {
        let is_there = settings.contains_key(key)
            || permissions.is_some_and(|permissions| permissions.contains_key(key));
        if is_there {
            plan.leave_out(format!("`{key}` of {}", from.display()), hint);
        }
    }
}
