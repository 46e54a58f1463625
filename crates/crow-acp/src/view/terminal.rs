//! Terminals that show the output of commands, by keys under `_meta` that Zed reads.

use std::{path::Path, sync::Arc};

use agent_client_protocol::v1::schema::{Meta, Terminal, ToolCallContent, ToolCallId};
use serde_json::{Map, Value};

use super::text::tail;

/// Length of the end of the printed output that is examined, in bytes.
const LOOKED_AT: usize = 2048;
/// Length of the end of it that is searched for in the result, in bytes.
const MARK: usize = 200;
/// Minimum length of a last line that is searched for: shorter ones occur in many places.
const SHORTEST_MARK: usize = 12;

/// Returns the content that shows the terminal of a call, which has the call's id.
pub(super) fn content(id: &ToolCallId) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(Arc::clone(&id.0)))
}

/// Announces the terminal. Must be in the first update of the call.
pub(super) fn info(id: &ToolCallId, cwd: &Path, meta: Meta) -> Meta {
    with(meta, "terminal_info", id, [("cwd", Value::from(cwd.to_string_lossy()))])
}

pub(super) fn output(id: &ToolCallId, data: &str, meta: Meta) -> Meta {
    with(meta, "terminal_output", id, [("data", Value::from(data))])
}

/// Ends the terminal. A command that did not end by itself has no exit code.
pub(super) fn exit(id: &ToolCallId, code: Option<i64>, meta: Meta) -> Meta {
    with(meta, "terminal_exit", id, [("exit_code", Value::from(code)), ("signal", Value::Null)])
}

fn with<const N: usize>(
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
pub(super) fn rest(printed: &str, result: &str) -> String {
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
