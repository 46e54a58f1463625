//! What kind of thing a tool does, as clients draw it.

use agent_client_protocol::v1::schema::ToolKind;

/// How the calls of a tool are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Showing {
    pub(super) kind: ToolKind,
    pub(super) body: Body,
    pub(super) rank: Rank,
}

/// What is shown of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
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
pub(super) fn showing(tool: &str) -> Showing {
    let of = |kind, body, rank| Showing { kind, body, rank };
    match tool {
        "read_file" | "list_directory" => of(ToolKind::Read, Body::Output, Rank::Minor),
        "grep" | "glob" | "web_search" => of(ToolKind::Search, Body::Output, Rank::Minor),
        "edit_file" | "write_file" => of(ToolKind::Edit, Body::Change, Rank::Major),
        "bash" => of(ToolKind::Execute, Body::Command, Rank::Major),
        "bash_output" => of(ToolKind::Execute, Body::Output, Rank::Minor),
        "bash_kill" => of(ToolKind::Execute, Body::Output, Rank::Major),
        "think" => of(ToolKind::Think, Body::Output, Rank::Minor),
        "task" | "task_output" => of(ToolKind::Think, Body::Prose, Rank::Major),
        "ask_user" => of(ToolKind::Other, Body::Prose, Rank::Major),
        "web_fetch" => of(ToolKind::Fetch, Body::Output, Rank::Major),
        "task_cancel" | "task_complete" | "submit_for_review" => {
            of(ToolKind::Other, Body::Prose, Rank::Minor)
        }
        "todo_write" | "todo_read" => of(ToolKind::Other, Body::Output, Rank::Hidden),
        _ => of(ToolKind::Other, Body::Output, Rank::Major),
    }
}
