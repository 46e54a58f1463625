//! The shipped `builder`.

/// The system prompt of `builder`. It holds no date, no path and no model name, so that it is the same in every
/// request.
pub const BUILDER_PROMPT: &str = include_str!("../../prompts/system/builder.md");

/// The tools of `builder`.
pub const BUILDER_TOOLS: [&str; 13] = [
    "read_file",
    "edit_file",
    "write_file",
    "bash",
    "bash_output",
    "bash_kill",
    "glob",
    "grep",
    "list_directory",
    "todo_write",
    "todo_read",
    "think",
    "task_complete",
];
