//! What tool calls show.

use agent_client_protocol::v1::schema::{ContentBlock, ImageContent, ToolCallContent};
use crow_core::message::Image;
use crow_text::exact;
use serde_json::{Map, Value};

use super::text::{bounded, plain};

/// How many bytes of output are shown.
pub(super) const MOST_OUTPUT: usize = 64 * 1024;
/// How many bytes of a string in raw input are sent.
const MOST_RAW_STRING: usize = 16 * 1024;
/// How deep raw input may be.
const MOST_RAW_DEPTH: usize = 32;

/// Text as it is, which clients read as Markdown.
pub(super) fn prose(text: &str) -> ToolCallContent {
    ToolCallContent::from(bounded(&plain(text), MOST_OUTPUT))
}

/// Output in a fence that nothing in it can end.
pub(super) fn fenced(output: &str, language: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&plain(output), MOST_OUTPUT), language))
}

/// A command in such a fence, with visible signs for what cannot be seen: nothing of what is asked about is left out.
pub(super) fn fenced_command(command: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&exact(command), MOST_OUTPUT), "sh"))
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

/// The arguments of a call, long strings cut: what is whole is in the content.
pub(super) fn raw(value: &Value) -> Value {
    raw_at(value, MOST_RAW_DEPTH)
}

fn raw_at(value: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::from("…");
    }
    match value {
        Value::String(text) => Value::from(bounded(text, MOST_RAW_STRING)),
        Value::Array(values) => values.iter().map(|value| raw_at(value, depth - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), raw_at(value, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
