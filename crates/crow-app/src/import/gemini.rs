//! Gemini CLI: the folder `~/.gemini`, or that below `GEMINI_CLI_HOME`.

use std::path::Path;

use crow_core::permission::RuleDecision;
use regex::Regex;
use serde_json::{Map, Value};

use super::{
    files::files_below,
    front_matter::markdown,
    plan::{ImportPlan, file_name},
    rules::{self, RulePaths},
    servers::add_servers,
    sessions::{add_sessions, gemini::GeminiSessions},
    source::ImportSource,
};

pub(super) fn read(plan: &mut ImportPlan) {
    let home = plan.folder_variable("GEMINI_CLI_HOME").unwrap_or_else(|| plan.home.clone());
    let folder = home.join(".gemini");
    let path = folder.join("settings.json");
    if let Some(settings) = plan.read_json(&path) {
        read_servers(plan, &path, &settings);
        read_tools(plan, &path, &settings);
        for (key, hint) in [
            ("model", "choose a model with `crow-agent models`"),
            ("hooks", "they read another JSON: write them anew for Crow, see the book"),
            ("security", "store a key with `crow-agent login`"),
        ] {
            if settings.contains_key(key) {
                plan.leave_out(format!("`{key}` of {}", path.display()), hint);
            }
        }
    }
    for path in files_below(&folder.join("commands"), ".toml") {
        if let Some(command) = plan.read_toml(&path) {
            let Some(prompt) = command.get("prompt").and_then(Value::as_str) else {
                plan.leave_out(path.display().to_string(), "it has no prompt");
                continue;
            };
            let description = command.get("description").and_then(Value::as_str);
            let text = markdown(&[("description", description)], &with_own_notation(prompt));
            plan.add_command(&path, &file_name(&path), text, Vec::new());
        }
    }
    for path in files_below(&folder.join("agents"), ".md") {
        plan.add_agent_file(&path);
    }
    plan.add_skills(&folder.join("skills"));
    plan.add_instructions(&folder.join("GEMINI.md"));
    for path in files_below(&folder.join("policies"), ".toml") {
        let why =
            "policies have no equal; `crow-agent permissions list` shows how rules are written";
        plan.leave_out(path.display().to_string(), why);
    }
    let why = "extensions have no equal; their servers and commands can be written as your own";
    plan.leave_out_path(&folder.join("extensions"), why);
    let current_dir = plan.current_dir();
    add_sessions(plan, ImportSource::Gemini, GeminiSessions { folder, current_dir });
}

/// Servers that `mcp.excluded` names, or that `mcp.allowed` does not, are switched off.
fn read_servers(plan: &mut ImportPlan, from: &Path, settings: &Map<String, Value>) {
    let lists = settings.get("mcp").and_then(Value::as_object);
    let list = |key: &str| lists.and_then(|lists| lists.get(key)).and_then(Value::as_array);
    let names = |list: &Vec<Value>, name: &str| list.iter().any(|value| value == name);
    let Some(servers) = settings.get("mcpServers").and_then(Value::as_object) else { return };
    let is_on = |name: &str| {
        list("excluded").is_none_or(|list| !names(list, name))
            && list("allowed").is_none_or(|list| names(list, name))
    };
    let mut used = Map::new();
    for (name, server) in servers {
        if is_on(name) {
            used.insert(name.clone(), server.clone());
        } else {
            let what = format!("MCP server {name} of {}", from.display());
            plan.leave_out(what, "it is switched off there");
        }
    }
    add_servers(plan, from, Some(&Value::Object(used)), with_variables);
}

/// `tools.allowed` needs no question there, `tools.exclude` is switched off.
fn read_tools(plan: &mut ImportPlan, from: &Path, settings: &Map<String, Value>) {
    let tools = settings.get("tools").and_then(Value::as_object);
    let lists = [
        ("allowed", RuleDecision::Allow, tools.and_then(|tools| tools.get("allowed"))),
        ("exclude", RuleDecision::Deny, tools.and_then(|tools| tools.get("exclude"))),
        ("allowedTools", RuleDecision::Allow, settings.get("allowedTools")),
        ("excludeTools", RuleDecision::Deny, settings.get("excludeTools")),
    ];
    if tools.is_some_and(|tools| tools.contains_key("core")) {
        let why = "name the tools of an agent in its file, agents/NAME.md";
        plan.leave_out(format!("`tools.core` of {}", from.display()), why);
    }
    for (key, decision, list) in lists {
        for written in list.and_then(Value::as_array).into_iter().flatten() {
            let what = format!("tools.{key} {written}");
            let Some(written) = written.as_str() else {
                plan.leave_out(what, "it is no text");
                continue;
            };
            // A command there is the beginning of those that it is about.
            let rewritten = match written.strip_suffix(')').filter(|rest| !rest.ends_with('*')) {
                Some(rest) if rest.starts_with("run_shell_command(") => format!("{rest}:*)"),
                Some(rest) if rest.starts_with("ShellTool(") => format!("{rest}:*)"),
                _ => written.to_owned(),
            };
            let home = plan.home.clone();
            let settings = from.parent().unwrap_or(from);
            let paths = RulePaths { home: &home, settings, star_crosses_folders: false };
            match rules::rules(&rewritten, decision, 0, paths) {
                Ok(rules) => plan.add_rules(from, &format!("{key} {written}"), rules),
                Err(why) => plan.leave_out(what, why),
            }
        }
    }
}

/// Rewrites `{{args}}`, `!{command}` and `@{file}`.
fn with_own_notation(prompt: &str) -> String {
    let prompt = prompt.replace("{{args}}", "$ARGUMENTS");
    let with_commands = replace_braces(&prompt, "!{", |command| format!("!`{command}`"));
    replace_braces(&with_commands, "@{", |file| format!("@{file}"))
}

/// Rewrites what stands between `start` and the brace that closes it.
fn replace_braces(text: &str, start: &str, rewrite: impl Fn(&str) -> String) -> String {
    let mut output = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(start) {
        output.push_str(before);
        let mut depth = 1_usize;
        let end = after.char_indices().find(|(_, char)| {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        if let Some((end, _)) = end {
            output.push_str(&rewrite(after[..end].trim()));
            rest = &after[end + 1..];
        } else {
            output.push_str(start);
            rest = after;
        }
    }
    output.push_str(rest);
    output
}

/// Rewrites `$NAME`; `${NAME}` is Crow's notation, too.
fn with_variables(text: &str) -> String {
    let pattern = Regex::new(r"\$([A-Za-z_][A-Za-z0-9_]*)").expect("invariant: a valid pattern");
    pattern.replace_all(text, "$${$1}").into_owned()
}
