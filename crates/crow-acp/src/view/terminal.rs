//! Terminals that show what commands print, by keys that Zed reads under `_meta`.

use std::{path::Path, sync::Arc};

use agent_client_protocol::v1::schema::{Meta, Terminal, ToolCallContent, ToolCallId};
use serde_json::{Map, Value};

use super::text::tail;

/// So much of the end of what was printed is looked at.
const LOOKED_AT: usize = 2048;
/// So much of it tells where it stands in the result.
const MARK: usize = 200;
/// A last line that is shorter stands in many places.
const SHORTEST_MARK: usize = 12;

/// The terminal of a call bears the call's id.
pub(super) fn content(id: &ToolCallId) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(Arc::clone(&id.0)))
}

/// Announces the terminal. Must stand in the first update of the call.
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

/// Returns what of a command's result was not printed yet, given the end of what was.
///
/// A result is what a terminal would be left showing, and the middle of a long one is left out: it is compared from the
/// end of what was printed on.
pub(super) fn rest(printed: &str, result: &str) -> String {
    if printed.trim().is_empty() {
        return result.to_owned();
    }
    let last = left_showing(tail(printed, LOOKED_AT));
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

/// Returns the lines without what was written over.
fn left_showing(printed: &str) -> String {
    let lines = printed.replace("\r\n", "\n");
    let lines = lines.split('\n').map(|line| line.rsplit('\r').find(|part| !part.is_empty()));
    lines.map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n")
}
