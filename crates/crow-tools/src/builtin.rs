//! The list of all built-in tools.

use std::sync::Arc;

use crow_core::tool::{Tool, ToolRegistry, TypedTool, TypedToolAdapter};

use crate::{
    apply_patch::ApplyPatch,
    ask_user::AskUser,
    edit_file::EditFile,
    list_directory::ListDirectory,
    notes::{Think, TodoRead, TodoWrite},
    read_file::ReadFile,
    search::{Glob, Grep},
    shell::{Bash, BashKill, BashOutput},
    write_file::WriteFile,
};

/// Makes all built-in tools.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        tool(ApplyPatch),
        tool(AskUser),
        tool(Bash::default()),
        tool(BashKill),
        tool(BashOutput),
        tool(EditFile),
        tool(Glob),
        tool(Grep),
        tool(ListDirectory),
        tool(ReadFile),
        tool(Think),
        tool(TodoRead),
        tool(TodoWrite),
        tool(WriteFile),
    ]
}

/// Adds all built-in tools to a registry.
pub fn register_builtin(registry: &mut ToolRegistry) {
    for tool in builtin_tools() {
        registry.register_shared(tool);
    }
}

fn tool(tool: impl TypedTool) -> Arc<dyn Tool> {
    Arc::new(TypedToolAdapter::new(tool))
}
