//! A summary of a turn.

use std::fmt::Write as _;

use crow_core::tool::{Patch, ToolMetadata, ToolStatus};
use crow_runtime::ExecutedCall;
use serde_json::Value;

use super::bundle::truncate_middle;

/// Most bytes of the last text.
const WORDS: usize = 3000;
/// Most calls that are listed, and how many of them from the beginning.
const CALLS: usize = 40;
const FIRST_CALLS: usize = 10;
/// Most bytes of one line.
const LINE: usize = 160;
/// Most commands that are listed: the last ones.
const COMMANDS: usize = 20;
/// Most questions that are listed.
const QUESTIONS: usize = 6;

/// Summary of a call for reviews. The history has the entire call.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnCall {
    /// The tool, or the name that the model used.
    pub tool: String,
    /// How the call ended.
    pub status: ToolStatus,
    /// The call in one line.
    pub line: String,
    /// Command that it ran and its exit code or error, in one line, if it ran one.
    pub command: Option<String>,
    /// Changes of files that it reports.
    pub diff: Option<Patch>,
}

impl TurnCall {
    /// Summarises a call.
    pub(crate) fn from_call(call: ExecutedCall) -> Self {
        let (line, command) = (line(&call), command(&call));
        let status = call.result.status;
        Self { tool: call.name, status, line, command, diff: call.result.metadata.diff }
    }
}

/// Lists the calls of a turn, and its last text.
pub(super) fn digest(calls: &[TurnCall], last_text: &str) -> String {
    let mut text = String::new();
    let left_out = calls.len().saturating_sub(CALLS);
    for (index, call) in calls.iter().enumerate() {
        if left_out > 0 && index == FIRST_CALLS {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[{left_out} calls left out]");
        }
        if (FIRST_CALLS..FIRST_CALLS + left_out).contains(&index) {
            continue;
        }
        let _ = writeln!(text, "{}", call.line);
    }
    if !last_text.is_empty() {
        let _ = write!(text, "Last words:\n{}", truncate_middle(last_text, WORDS));
    }
    text
}

fn line(call: &ExecutedCall) -> String {
    let subject = ["path", "command", "pattern", "agent", "summary", "query", "url"]
        .iter()
        .find_map(|key| call.arguments.get(key).and_then(Value::as_str))
        .unwrap_or_default();
    let status = match (call.result.status, &call.result.error) {
        (ToolStatus::Success, _) => counts(&call.result.metadata),
        (ToolStatus::Error, Some(error)) => format!(" (failed: {error})"),
        (ToolStatus::Error, None) => " (failed)".to_owned(),
        (ToolStatus::Cancelled, _) => " (cancelled)".to_owned(),
    };
    in_a_line(&format!("{} {subject}{status}", call.name))
}

fn counts(metadata: &ToolMetadata) -> String {
    match &metadata.changes {
        Some(changes) if changes.paths() > 0 => {
            format!(" (+{} -{})", changes.additions, changes.deletions)
        }
        Some(_) | None => String::new(),
    }
}

/// Writes the command of a call with its exit code.
fn command(call: &ExecutedCall) -> Option<String> {
    let command = call.arguments.get("command").and_then(Value::as_str)?;
    let code = call.result.metadata.extra.get("exit_code").and_then(Value::as_i64);
    let end = match (code, &call.result.error) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(error)) => error.clone(),
        (None, None) => "no exit code".to_owned(),
    };
    Some(in_a_line(&format!("{end}: {command}")))
}

/// Lists the last commands of a turn with their exit codes.
pub(super) fn commands(calls: &[TurnCall]) -> String {
    let lines: Vec<_> = calls.iter().filter_map(|call| call.command.as_deref()).collect();
    let skipped = lines.len().saturating_sub(COMMANDS);
    let mut text = if skipped > 0 { format!("[{skipped} earlier ones]\n") } else { String::new() };
    text.push_str(&lines[skipped..].join("\n"));
    text
}

/// Lists the lines of an agent's last text that ask something.
pub(super) fn open_questions(last_text: &str) -> String {
    let asks = |line: &&str| line.ends_with('?') || line.contains("? ");
    let lines = last_text.lines().map(str::trim).filter(asks).take(QUESTIONS);
    lines.map(in_a_line).collect::<Vec<_>>().join("\n")
}

/// Replaces control characters by spaces, and cuts the text to the length of a line.
fn in_a_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    match line.get(..line.floor_char_boundary(LINE)) {
        Some(start) if start.len() < line.len() => format!("{start}…"),
        Some(_) | None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{ids::CallId, tool::ToolResult, turn::Validity};
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: Value, result: ToolResult) -> TurnCall {
        TurnCall::from_call(ExecutedCall {
            id: CallId::new("c"),
            name: name.to_owned(),
            arguments,
            result,
            duration_ms: 1,
            validity: Validity::Valid,
            ends_turn: false,
            denial: None,
        })
    }

    #[test]
    fn the_summary_of_a_call_does_not_grow_with_its_output() {
        let mut result = ToolResult::success("x".repeat(1 << 20));
        result.metadata.extra = json!({"exit_code": 0, "more": "y".repeat(1 << 20)});
        let summary = call("bash", json!({"command": "z".repeat(1 << 20)}), result);
        assert!(summary.line.len() + summary.command.unwrap().len() < 3 * LINE);
    }

    #[test]
    fn a_long_turn_keeps_its_beginning_and_its_end() {
        let read = |i: usize| {
            call("read_file", json!({"path": format!("src/f{i}.rs")}), ToolResult::success("x"))
        };
        let calls: Vec<_> = (0..100).map(read).collect();
        let digest = digest(&calls, "All done.");
        let lines: Vec<_> = digest.lines().collect();
        assert_eq!(lines.len(), CALLS + 1 + 2);
        assert_eq!(
            lines[9..12],
            ["read_file src/f9.rs", "[60 calls left out]", "read_file src/f70.rs"]
        );
        assert_eq!(lines[lines.len() - 2..], ["Last words:", "All done."]);
    }

    #[test]
    fn commands_come_with_their_exit_codes() {
        let mut failed = ToolResult::failure("exit code 1");
        failed.metadata.extra = json!({"exit_code": 1});
        let calls = [
            call("bash", json!({"command": "cargo test\n--all"}), failed),
            call("bash", json!({"command": "sleep 9"}), ToolResult::failure("timed out")),
            call("read_file", json!({"path": "a"}), ToolResult::success("")),
        ];
        assert_eq!(commands(&calls), "exit 1: cargo test --all\ntimed out: sleep 9");
    }

    #[test]
    fn questions_are_the_lines_that_ask() {
        let words = "I did it.\nShall I also push? It is ready.\n- Which port?\nDone.";
        assert_eq!(open_questions(words), "Shall I also push? It is ready.\n- Which port?");
    }
}
