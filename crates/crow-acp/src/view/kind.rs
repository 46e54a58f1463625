//! What kind of thing a tool does, as clients draw it.

use agent_client_protocol::v1::schema::ToolKind;

/// How the calls of a tool are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolDisplay {
    pub(super) kind: ToolKind,
    pub(super) body: ResultDisplay,
    pub(super) rank: Rank,
}

/// What is shown of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultDisplay {
    /// What a command printed.
    Command,
    /// What it changed.
    Change,
    /// Text that nobody wrote for people: files, lists, results.
    Output,
    /// What an agent says.
    Prose,
}

/// Where the calls of other agents than the primary are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// Nowhere: something else tells of them.
    Hidden,
    /// In the progress of the agent's work.
    Minor,
    /// By themselves.
    Major,
}

/// Returns how the calls of a tool are shown.
pub(super) fn showing(tool: &str) -> ToolDisplay {
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
