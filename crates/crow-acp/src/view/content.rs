//! Content of tool calls.

use agent_client_protocol::v1::schema::{ContentBlock, ImageContent, ToolCallContent};
use crow_core::message::Image;
use crow_text::{approval_text, neutralise};
use serde_json::{Map, Value};

use super::text::{bounded, sanitise};

/// Limit of the shown output, in bytes.
pub(super) const MOST_OUTPUT: usize = 64 * 1024;
/// Limit of a string in raw input, in bytes.
const MOST_RAW_STRING: usize = 16 * 1024;
/// Limit of the nesting of raw input.
const MOST_RAW_DEPTH: usize = 32;

/// Returns text that clients render as Markdown.
pub(super) fn prose(text: &str) -> ToolCallContent {
    ToolCallContent::from(bounded(&sanitise(text), MOST_OUTPUT))
}

/// Returns output in a code fence that nothing in it can close.
pub(super) fn fenced(output: &str, language: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&sanitise(output), MOST_OUTPUT), language))
}

/// Returns a command in such a fence. Invisible characters become visible signs: nothing that the user decides on is
/// hidden.
pub(super) fn fenced_command(command: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&approval_text(command), MOST_OUTPUT), "sh"))
}

/// Puts text into a fence that is longer than any run of backticks in it.
pub(super) fn fenced_text(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (2, 0);
    for char in text.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    let line_feed = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{line_feed}{fence}")
}

pub(super) fn image(image: &Image) -> ContentBlock {
    ContentBlock::Image(ImageContent::new(image.data.clone(), image.media_type.clone()))
}

/// Returns the arguments of a call with long strings cut. The content shows them in full.
pub(super) fn bounded_arguments(value: &Value) -> Value {
    raw_at(value, MOST_RAW_DEPTH)
}

fn raw_at(value: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::from("…");
    }
    match value {
        // An editor may show it with a question, so invisible characters become visible signs.
        Value::String(text) => Value::from(neutralise(&bounded(text, MOST_RAW_STRING))),
        Value::Array(values) => values.iter().map(|value| raw_at(value, depth - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), raw_at(value, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
