//! Checks of the declared tools.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Rule;
use super::body::{Findings, field, list, text};
use crate::wire::WireDialect;

/// Maximum length of a name, in bytes; Anthropic alone allows twice as much.
const LONGEST_NAME: usize = 64;

/// Checks that tools have legal, unique names and object schemas.
pub(super) fn check(dialect: WireDialect, body: &Value, found: &mut Findings) {
    let mut known = BTreeSet::new();
    for tool in functions(dialect, body) {
        let name = text(tool, "name");
        found.demand(Rule::Tools, is_name(dialect, name), || {
            format!("the tool name {name:?} is not legal")
        });
        found.demand(Rule::Tools, known.insert(name), || format!("two tools are named {name:?}"));
        let schema = match dialect {
            WireDialect::AnthropicMessages => field(tool, "input_schema"),
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat | WireDialect::Gemini => tool
                .get("parameters")
                .or_else(|| tool.get("parametersJsonSchema"))
                .unwrap_or(&Value::Null),
        };
        let is_needed = dialect == WireDialect::AnthropicMessages;
        let is_schema = schema.is_null() && !is_needed || is_object_schema(schema);
        found.demand(Rule::Tools, is_schema, || {
            format!("the schema of tool {name:?} is not of type object: {schema}")
        });
    }
}

fn functions(dialect: WireDialect, body: &Value) -> Vec<&Value> {
    let tools = list(body, "tools").iter();
    match dialect {
        // Tools of another type are built into the service.
        WireDialect::AnthropicMessages => {
            tools.filter(|tool| matches!(text(tool, "type"), "" | "custom")).collect()
        }
        WireDialect::OpenAiResponses => {
            tools.filter(|tool| text(tool, "type") == "function").collect()
        }
        WireDialect::OpenAiChat => tools.map(|tool| field(tool, "function")).collect(),
        WireDialect::Gemini => tools.flat_map(|tool| list(tool, "functionDeclarations")).collect(),
    }
}

fn is_name(dialect: WireDialect, name: &str) -> bool {
    let longest = match dialect {
        WireDialect::AnthropicMessages => 2 * LONGEST_NAME,
        WireDialect::OpenAiResponses | WireDialect::OpenAiChat | WireDialect::Gemini => {
            LONGEST_NAME
        }
    };
    let is_legal = |character: char| match dialect {
        WireDialect::Gemini => character.is_ascii_alphanumeric() || "_-.:".contains(character),
        WireDialect::AnthropicMessages | WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {
            character.is_ascii_alphanumeric() || "_-".contains(character)
        }
    };
    (1..=longest).contains(&name.len()) && name.chars().all(is_legal)
}

fn is_object_schema(schema: &Value) -> bool {
    text(schema, "type").eq_ignore_ascii_case("object")
}
