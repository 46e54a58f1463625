//! The variables of templates.

/// The variables of a handoff template.
pub const HANDOFF_VARIABLES: [&str; 10] = [
    "task",
    "task_description",
    "todo_state",
    "turn_digest",
    "changes",
    "commands",
    "open_questions",
    "round",
    "primary",
    "reviewer",
];

/// The variables of a system prompt. None of them changes while a session lasts.
pub const SYSTEM_VARIABLES: [&str; 6] =
    ["agent_name", "role", "description", "tools", "can_edit", "end_tool"];
