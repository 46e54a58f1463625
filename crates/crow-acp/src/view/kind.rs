//! Display of tools: kind, result and visibility of their calls.

use agent_client_protocol::v1::schema::ToolKind;

/// Display of the calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolDisplay {
    pub(super) kind: ToolKind,
    pub(super) body: ResultDisplay,
    pub(super) rank: Rank,
}

/// Shown part of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultDisplay {
    /// Output of a command.
    Command,
    /// Changed files.
    Change,
    /// Output that is not prose: files, lists, results.
    Output,
    /// Text of an agent.
    Prose,
}

/// Visibility of calls, above all those of other agents than the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// Never shown: something else shows their effect.
    Hidden,
    /// Shown only as a step in the progress of an agent that works in a call.
    Minor,
    /// Always shown.
    Major,
}

/// Returns the display of the calls of a tool.
pub(super) fn display_of(tool: &str) -> ToolDisplay {
    let of = |kind, body, rank| ToolDisplay { kind, body, rank };
    match tool {
        "read_file" | "list_directory" => of(ToolKind::Read, ResultDisplay::Output, Rank::Minor),
        "grep" | "glob" | "web_search" => of(ToolKind::Search, ResultDisplay::Output, Rank::Minor),
        "edit_file" | "write_file" => of(ToolKind::Edit, ResultDisplay::Change, Rank::Major),
        "bash" => of(ToolKind::Execute, ResultDisplay::Command, Rank::Major),
        "bash_output" => of(ToolKind::Execute, ResultDisplay::Output, Rank::Minor),
        "bash_kill" => of(ToolKind::Execute, ResultDisplay::Output, Rank::Major),
        "think" => of(ToolKind::Think, ResultDisplay::Output, Rank::Minor),
        "task" | "task_output" => of(ToolKind::Think, ResultDisplay::Prose, Rank::Major),
        "ask_user" => of(ToolKind::Other, ResultDisplay::Prose, Rank::Major),
        "web_fetch" => of(ToolKind::Fetch, ResultDisplay::Output, Rank::Major),
        "task_cancel" | "task_complete" | "submit_for_review" => {
            of(ToolKind::Other, ResultDisplay::Prose, Rank::Minor)
        }
        "todo_write" | "todo_read" => of(ToolKind::Other, ResultDisplay::Output, Rank::Hidden),
        _ => of(ToolKind::Other, ResultDisplay::Output, Rank::Major),
    }
}
