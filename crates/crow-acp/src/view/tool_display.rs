//! Display of calls: kind, result and visibility of the calls of a tool, the files that a call works on, and terminals
//! that show the output of commands, by keys under `_meta` that Zed reads.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol::v1::schema::{
    Meta, Terminal, ToolCallContent, ToolCallId, ToolCallLocation, ToolKind,
};
use serde_json::{Map, Value};

use super::content::tail;

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
        "apply_patch" | "edit_file" | "write_file" => {
            of(ToolKind::Edit, ResultDisplay::Change, Rank::Major)
        }
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

/// Returns the files that a call names in its arguments. Clients open them: folders are no locations.
pub(super) fn locations_of(tool: &str, arguments: &Value, cwd: &Path) -> Vec<ToolCallLocation> {
    let line = match tool {
        "read_file" => arguments.get("offset").and_then(Value::as_u64),
        "edit_file" | "write_file" => None,
        _ => return Vec::new(),
    };
    let path = arguments.get("path").or_else(|| arguments.get("file_path"));
    let Some(path) = path.and_then(Value::as_str).filter(|path| !path.is_empty()) else {
        return Vec::new();
    };
    let line = line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0);
    vec![at_line(absolute(cwd, Path::new(path)), line)]
}

pub(super) fn at_line(path: PathBuf, line: Option<u32>) -> ToolCallLocation {
    ToolCallLocation::new(path).line(line)
}

/// Makes a path absolute and removes `.` and `..`, without looking at the disk.
pub(super) fn absolute(cwd: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

/// Length of the end of the printed output that is examined, in bytes.
const LOOKED_AT: usize = 2048;
/// Length of the end of it that is searched for in the result, in bytes.
const MARK: usize = 200;
/// Minimum length of a last line that is searched for: shorter ones occur in many places.
const SHORTEST_MARK: usize = 12;

/// Returns the content that shows the terminal of a call, which has the call's id.
pub(super) fn terminal_content(id: &ToolCallId) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(Arc::clone(&id.0)))
}

/// Announces the terminal. Must be in the first update of the call.
pub(super) fn terminal_info(id: &ToolCallId, cwd: &Path, meta: Meta) -> Meta {
    with_terminal(meta, "terminal_info", id, [("cwd", Value::from(cwd.to_string_lossy()))])
}

pub(super) fn terminal_output(id: &ToolCallId, data: &str, meta: Meta) -> Meta {
    with_terminal(meta, "terminal_output", id, [("data", Value::from(data))])
}

/// Ends the terminal. A command that did not end by itself has no exit code.
pub(super) fn terminal_exit(id: &ToolCallId, code: Option<i64>, meta: Meta) -> Meta {
    with_terminal(
        meta,
        "terminal_exit",
        id,
        [("exit_code", Value::from(code)), ("signal", Value::Null)],
    )
}

fn with_terminal<const N: usize>(
    mut meta: Meta,
    key: &str,
    id: &ToolCallId,
    fields: [(&str, Value); N],
) -> Meta {
    let mut object = Map::from_iter([("terminal_id".to_owned(), Value::from(id.0.as_ref()))]);
    object.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
    meta.insert(key.to_owned(), Value::Object(object));
    meta
}

/// Returns the part of a command's result that was not printed yet, given the end of the printed output.
///
/// A result is the final state of a terminal, and the middle of a long one is left out. So the end of the printed
/// output is searched for in it, and the part after that is new.
pub(super) fn rest_of_output(printed: &str, result: &str) -> String {
    if printed.trim().is_empty() {
        return result.to_owned();
    }
    let last = without_overwritten(tail(printed, LOOKED_AT));
    let last = last.trim_end();
    let line = last.lines().next_back().unwrap_or_default();
    let marks = [Some(tail(last, MARK)), Some(line).filter(|line| line.len() >= SHORTEST_MARK)];
    let rest = marks.into_iter().flatten().find_map(|mark| result.rsplit_once(mark));
    match rest {
        Some((_, rest)) if printed.ends_with('\n') => {
            rest.strip_prefix('\n').unwrap_or(rest).to_owned()
        }
        Some((_, rest)) => rest.to_owned(),
        None => {
            format!(
                "\n[some of the output was not shown; this is what the call answered]\n{result}"
            )
        }
    }
}

/// Returns the lines without text that was overwritten after a carriage return.
fn without_overwritten(printed: &str) -> String {
    let lines = printed.replace("\r\n", "\n");
    let lines = lines.split('\n').map(|line| line.rsplit('\r').find(|part| !part.is_empty()));
    lines.map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n")
}
