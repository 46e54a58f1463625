//! The prompt that starts a review of a session.

use std::fmt::Write as _;

use crow_runtime::AgentHandle;

/// Maximum number of files that are named.
const NAMED: usize = 50;

/// Returns the prompt for the agent: it starts the reviewer as a subagent, which sees the files but not the
/// conversation. Blocks.
pub(super) fn prompt(handle: &AgentHandle, reviewer: &str, argument: &str) -> String {
    let mut text = format!(
        "Have the work of this session reviewed. Start the agent `{reviewer}` with the tool `task`. It sees the files and \
         nothing of our conversation, so tell it what I asked for, in my words, what you did about it, which files you changed \
         and how you checked the result. Change nothing while it looks.\n"
    );
    let files = changed(handle);
    if !files.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nFiles that were changed in this session:");
        for file in files.iter().take(NAMED) {
            let _ = writeln!(text, "- {file}");
        }
        if files.len() > NAMED {
            let _ = writeln!(text, "- and {} more", files.len() - NAMED);
        }
    }
    if !argument.is_empty() {
        let _ = writeln!(text, "\nWhat I want to be looked at: {argument}");
    }
    text.push_str(
        "\nThen tell me what it found, the worst first, and what you think of each point. Change nothing until I say so.",
    );
    text
}

/// Returns the files that calls of the session changed, without undone changes.
fn changed(handle: &AgentHandle) -> Vec<String> {
    let Ok(journal) = handle.undo_journal() else { return Vec::new() };
    let applied = journal.calls().iter().filter(|call| !call.undone);
    let mut files: Vec<String> = applied
        .flat_map(|call| &call.files)
        .map(|file| file.strip_prefix(journal.root()).unwrap_or(file).display().to_string())
        .collect();
    files.sort();
    files.dedup();
    files
}
