//! The parts of requests that both formats share: texts and images, schemas of arguments, the effort of thinking.

use crow_core::{
    message::{Block, Image, ResultMessage},
    model::Thinking,
};
use serde_json::{Map, Value, json};

use crate::codec::{self, EMPTY_MESSAGE, EMPTY_OUTPUT};

/// A block in the form in which these formats send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentPart<'a> {
    Text(&'a str),
    /// Data URL of an image.
    Image(String),
}

/// Returns the parts of `blocks` to send: no blank texts, and a note in place of an image for models without vision.
pub(super) fn parts(blocks: &[Block], sees_pictures: bool) -> Vec<ContentPart<'_>> {
    blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } if text.trim().is_empty() => None,
            Block::Text { text } => Some(ContentPart::Text(text)),
            Block::Image(image) if sees_pictures => Some(ContentPart::Image(data_url(image))),
            Block::Image(_) => Some(ContentPart::Text("[a picture, which this model cannot see]")),
        })
        .collect()
}

/// Returns the parts of a user message to send; never empty.
pub(super) fn user_parts(blocks: &[Block], sees_pictures: bool) -> Vec<ContentPart<'_>> {
    let parts = parts(blocks, sees_pictures);
    if parts.is_empty() { vec![ContentPart::Text(EMPTY_MESSAGE)] } else { parts }
}

/// Joins the texts of `parts` with blank lines.
pub(super) fn joined_text(parts: &[ContentPart<'_>]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Text(text) => Some(*text),
            ContentPart::Image(_) => None,
        })
        .collect();
    texts.join("\n\n")
}

/// Returns the URLs of the images among `parts`.
pub(super) fn pictures<'a>(parts: &'a [ContentPart<'_>]) -> impl Iterator<Item = &'a str> {
    parts.iter().filter_map(|part| match part {
        ContentPart::Text(_) => None,
        ContentPart::Image(url) => Some(url.as_str()),
    })
}

/// Returns the text of a result. Neither format has a field for failure, so the text of a failed call says it.
pub(super) fn result_text(result: &ResultMessage, parts: &[ContentPart<'_>]) -> String {
    let text = joined_text(parts);
    let is_marked =
        text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (result.is_error, text.is_empty()) {
        (true, true) => "Error: the call failed without a message".to_owned(),
        (true, false) if !is_marked => format!("Error: {text}"),
        (false, true) if pictures(parts).next().is_none() => EMPTY_OUTPUT.to_owned(),
        (true | false, _) => text,
    }
}

/// Returns a tool's name in a form that may be sent. A model can call a name that its provider then refuses to take
/// back.
pub(super) fn wire_name(name: &str) -> String {
    codec::wire_name(name, "_-", 64)
}

fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// Returns the effort to request from `model`.
pub(super) fn effort(thinking: Thinking, model: &str) -> &'static str {
    match thinking {
        Thinking::Off => least_effort(model),
        Thinking::Low | Thinking::Tokens(..=2_048) => "low",
        Thinking::Medium | Thinking::Tokens(2_049..=8_192) => "medium",
        Thinking::High | Thinking::Tokens(8_193..) => "high",
    }
}

/// Returns the lowest effort of a model: not every model can do without thinking, and an unknown value is refused.
fn least_effort(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_first_five = name == "gpt-5" || name.starts_with("gpt-5-");
    if is_first_five && !name.contains("codex") {
        "minimal"
    } else if is_first_five || name.starts_with("gpt-6.1") || is_reasoning_series(name) {
        "low"
    } else {
        "none"
    }
}

/// Returns true for names such as `o1`, `o3-mini`, `o4-mini-2025-04-16`.
fn is_reasoning_series(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Returns the number with its shortest decimal form, because 0.7 as `f32` is not 0.7 as `f64`.
pub(super) fn decimal(number: f32) -> Value {
    json!(number.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(number)))
}

/// Keywords that are refused at the top of a schema, which must describe a single object.
const REFUSED: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "const"];

/// Returns the schema with what the service requires: an object that names its properties.
///
/// Schemas of external tools may lack that, and one refused tool would fail the whole request.
pub(super) fn parameters(schema: &Value) -> Value {
    let mut fields: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !REFUSED.contains(&name.as_str()));
    fields.insert("type".to_owned(), json!("object"));
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use crow_core::ids::CallId;

    use super::*;

    #[test]
    fn a_failed_call_says_so_in_its_text() {
        for (text, is_error, expected) in [
            ("done", false, "done"),
            ("", false, "(no output)"),
            ("no such file", true, "Error: no such file"),
            ("error: no such file", true, "error: no such file"),
            ("ERROR 5", true, "ERROR 5"),
            ("größe", true, "Error: größe"),
            ("", true, "Error: the call failed without a message"),
        ] {
            let result = ResultMessage {
                call_id: CallId::new("call_1"),
                tool: "bash".to_owned(),
                content: vec![Block::text(text)],
                is_error,
            };
            assert_eq!(result_text(&result, &parts(&result.content, false)), expected);
        }
    }

    #[test]
    fn a_name_is_sent_with_allowed_characters_only() {
        for (name, expected) in [
            ("read_file", "read_file"),
            ("mcp-git_log", "mcp-git_log"),
            ("functions.bash", "functions_bash"),
            ("größe", "gr__e"),
            ("", "unnamed"),
        ] {
            assert_eq!(wire_name(name), expected);
        }
        assert_eq!(wire_name(&"x".repeat(200)).len(), 64);
    }

    #[test]
    fn a_note_replaces_an_image_for_a_model_without_vision() {
        let image = Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
        let blocks = [Block::text("look"), Block::Image(image), Block::text("  ")];
        assert_eq!(
            parts(&blocks, false),
            [
                ContentPart::Text("look"),
                ContentPart::Text("[a picture, which this model cannot see]")
            ]
        );
        assert_eq!(
            parts(&blocks, true),
            [
                ContentPart::Text("look"),
                ContentPart::Image("data:image/png;base64,AAAA".to_owned())
            ]
        );
    }

    #[test]
    fn every_amount_has_an_effort_that_the_model_accepts() {
        for (thinking, model, expected) in [
            (Thinking::Off, "gpt-5", "minimal"),
            (Thinking::Off, "gpt-5-mini", "minimal"),
            (Thinking::Off, "gpt-5-codex", "low"),
            (Thinking::Off, "gpt-5.2", "none"),
            (Thinking::Off, "gpt-6-sol", "none"),
            (Thinking::Off, "gpt-6.1-sol", "low"),
            (Thinking::Off, "openai/o3", "low"),
            (Thinking::Off, "olmo-3", "none"),
            (Thinking::Low, "gpt-5", "low"),
            (Thinking::Medium, "gpt-5", "medium"),
            (Thinking::High, "gpt-5", "high"),
            (Thinking::Tokens(1_000), "gpt-5", "low"),
            (Thinking::Tokens(8_000), "gpt-5", "medium"),
            (Thinking::Tokens(16_000), "gpt-5", "high"),
        ] {
            assert_eq!(effort(thinking, model), expected, "{thinking:?} {model}");
        }
    }

    #[test]
    fn a_temperature_is_sent_as_it_was_written() {
        for (number, expected) in [(0.7, "0.7"), (0.0, "0.0"), (1.0, "1.0"), (0.15, "0.15")] {
            assert_eq!(decimal(number).to_string(), expected);
        }
    }

    #[test]
    fn a_schema_describes_an_object_with_properties() {
        let full = json!({
            "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }] } },
            "required": ["a"], "additionalProperties": false,
        });
        let empty = json!({ "type": "object", "properties": {} });
        for (schema, expected) in [
            (full.clone(), full),
            (json!({}), empty.clone()),
            (Value::Null, empty.clone()),
            (json!({ "type": "object" }), empty.clone()),
            (json!({ "properties": null, "type": ["object", "null"] }), empty.clone()),
            (json!({ "type": "object", "properties": {}, "oneOf": [{}], "not": {} }), empty),
        ] {
            let found = parameters(&schema);
            assert_eq!(found, expected, "{schema}");
        }
    }
}
