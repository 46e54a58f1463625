//! pi: the folder `~/.pi/agent`, or that of `PI_CODING_AGENT_DIR`.

use super::{
    files::files_below,
    plan::ImportPlan,
    servers::add_servers,
    sessions::{add_sessions, pi::PiSessions},
    source::ImportSource,
};

pub(super) fn read(plan: &mut ImportPlan) {
    let own = plan.folder_variable("PI_CODING_AGENT_DIR");
    let folder = own.unwrap_or_else(|| plan.home.join(".pi/agent"));
    let path = folder.join("mcp.json");
    if let Some(settings) = plan.read_json(&path) {
        add_servers(plan, &path, settings.get("mcpServers"), str::to_owned);
    }
    for path in files_below(&folder.join("prompts"), ".md") {
        // `$@` is all arguments there.
        plan.add_text_command(&path, |text| text.replace("$@", "$ARGUMENTS"));
    }
    plan.add_skills(&folder.join("skills"));
    plan.add_instructions(&folder.join("AGENTS.md"));
    for (name, why) in [
        ("extensions", "extensions are programs for pi; MCP servers and hooks do such things here"),
        ("themes", "there are no themes"),
        ("SYSTEM.md", "the system prompt belongs to an agent: agents/NAME.md"),
        ("APPEND_SYSTEM.md", "write it into your AGENTS.md"),
        ("settings.json", "models and compaction are set in config.toml and per agent"),
        ("models.json", "describe providers in providers/NAME.toml, see the book"),
    ] {
        plan.leave_out_path(&folder.join(name), why);
    }
    add_sessions(plan, ImportSource::Pi, PiSessions { folder });
}
