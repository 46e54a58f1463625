//! Codex: the folder `~/.codex`, or that of `CODEX_HOME`.

use serde_json::Value;

use super::{
    files::files_below,
    plan::ImportPlan,
    servers::add_servers,
    sessions::{add_sessions, codex::CodexSessions},
    source::ImportSource,
};

/// Settings of Codex that Crow has elsewhere.
const ELSEWHERE: [(&str, &str); 8] = [
    ("model", "choose a model with `crow-agent models`"),
    ("model_provider", "choose a model with `crow-agent models`"),
    ("model_providers", "describe providers in providers/NAME.toml, see the book"),
    ("profiles", "name combinations in agents/NAME.toml, see the book"),
    ("approval_policy", "choose a mode with --permissions"),
    ("sandbox_mode", "choose a mode with --permissions"),
    ("sandbox_workspace_write", "Crow's sandbox has settings of its own, `[sandbox]`"),
    ("notify", "a hook of the event Notification does that, see the book"),
];

pub(super) fn read(plan: &mut ImportPlan) {
    let own = plan.folder_variable("CODEX_HOME");
    let folder = own.unwrap_or_else(|| plan.home.join(".codex"));
    let path = folder.join("config.toml");
    if let Some(settings) = plan.read_toml(&path) {
        add_servers(plan, &path, settings.get("mcp_servers"), str::to_owned);
        for (key, hint) in ELSEWHERE {
            if settings.contains_key(key) {
                plan.leave_out(format!("`{key}` of {}", path.display()), hint);
            }
        }
        let projects = settings.get("projects").and_then(Value::as_object);
        if projects.is_some_and(|projects| !projects.is_empty()) {
            let why = "Crow asks itself whether you trust a project";
            plan.leave_out(format!("`projects` of {}", path.display()), why);
        }
    }
    for path in files_below(&folder.join("prompts"), ".md") {
        plan.add_text_command(&path, str::to_owned);
    }
    plan.add_skills(&folder.join("skills"));
    plan.add_instructions(&folder.join("AGENTS.md"));
    for path in files_below(&folder.join("rules"), ".rules") {
        let why = "rules in Starlark have no equal; `crow-agent permissions list` shows how rules are written";
        plan.leave_out(path.display().to_string(), why);
    }
    add_sessions(plan, ImportSource::Codex, CodexSessions { folder });
}
