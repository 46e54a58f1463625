//! Terminals that show what commands print, by keys that Zed reads under `_meta`.

use std::{path::Path, sync::Arc};

use agent_client_protocol::v1::schema::{Meta, Terminal, ToolCallContent, ToolCallId};
use serde_json::{Map, Value};

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
pub(super) fn rest(printed: &str, result: &str) -> String {
    /// So much of the end of what was printed tells where it stands in the result.
    const MARK: usize = 200;

    if printed.is_empty() {
        return result.to_owned();
    }
    if let Some(rest) = result.strip_prefix(printed) {
        return rest.to_owned();
    }
    let mark = super::text::tail(printed, MARK);
    match result.rsplit_once(mark) {
        Some((_, rest)) => rest.to_owned(),
        None => format!(
            "\n[some of the output was not shown; this is what the call answered]\n{result}"
        ),
    }
}
