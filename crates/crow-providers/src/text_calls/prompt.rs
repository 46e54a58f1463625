//! Descriptions of tools and calls in the words of the system prompt.

use crow_core::{
    message::CallArguments,
    model::{ToolCallFormat, ToolDefinition},
};
use serde_json::json;

/// How to call, at the end of a reminder.
pub(super) fn how_to_call(format: ToolCallFormat) -> &'static str {
    match format {
        ToolCallFormat::Native => {
            "Call tools with the tool calls of your interface, not in text. If you did not mean to call a tool, answer without anything that looks like a call."
        }
        ToolCallFormat::Text => {
            "To call a tool, end your reply with exactly this form:\n<tool_call>\n{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>\nIf you did not mean to call a tool, answer without anything that looks like a call."
        }
    }
}

/// Returns the system prompt with a description of the tools at its end.
///
/// The form is that of the Hermes and Qwen templates, which most open models have seen in training. The same tools give
/// the same bytes.
pub(super) fn with_tools(system: &str, tools: &[ToolDefinition]) -> String {
    let mut prompt = system.trim_end().to_owned();
    if tools.is_empty() {
        return prompt;
    }
    if !prompt.is_empty() {
        prompt.push_str("\n\n");
    }
    prompt.push_str(INSTRUCTIONS);
    prompt.push_str("\n\n<tools>\n");
    for tool in tools {
        let line = json!({
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        });
        prompt.push_str(&line.to_string());
        prompt.push('\n');
    }
    prompt.push_str("</tools>");
    prompt
}

const INSTRUCTIONS: &str = "# Tools

You act by calling tools. To call one, end your reply with the call in exactly this form:

<tool_call>
{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}
</tool_call>

- The content is one JSON object: escape quotes and line breaks inside of strings.
- For several calls, write several <tool_call> elements, one after the other.
- Stop after the calls. The results come in the next message, as <tool_result> elements. Never write a result yourself.
- A reply without a call ends your turn, so announce no work: do it.

These are the tools, with the JSON Schema of their arguments:";

/// Returns a call in the form that the system prompt asks for.
pub(super) fn call_text(name: &str, arguments: &CallArguments) -> String {
    let name = json!(name);
    let arguments = match arguments {
        CallArguments::Json(value) => value.to_string(),
        CallArguments::Malformed(text) => text.clone(),
    };
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}
