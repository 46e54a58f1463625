//! Content of model calls and tool calls: messages, arguments and results. Collected only for consumers that ask for it.

use std::collections::HashMap;

use crow_core::{
    event::{AgentEvent, Envelope, NoticeAudience},
    ids::{CallId, SessionId},
    message::{Block, ReplyBlock, ReplyContent},
};
use crow_text::shorten;
use serde_json::{Value, json};

/// Maximum length of one text, in bytes.
const TEXT: usize = 8_000;
/// Maximum number of members of one list or object of arguments.
const MEMBERS: usize = 200;
/// Maximum number of messages of one model call: the last ones are kept.
const MESSAGES: usize = 50;

/// Messages to and from a model in one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCallContent {
    /// The messages since the agent's model call before, as JSON by the conventions: role and parts. Those before are in
    /// the spans of earlier calls.
    pub input: Vec<Value>,
    /// The answer, in the same form; none if it failed.
    pub output: Vec<Value>,
}

/// Arguments and result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallContent {
    /// The arguments as JSON.
    pub arguments: String,
    /// The answer, as the model reads it.
    pub result: String,
}

impl ModelCallContent {
    /// Returns about how many bytes it takes as JSON.
    pub(super) fn len(&self) -> usize {
        self.input.iter().chain(&self.output).map(text_len).sum()
    }
}

impl ToolCallContent {
    /// Returns how many bytes it takes.
    pub(super) fn len(&self) -> usize {
        self.arguments.len() + self.result.len()
    }
}

/// Returns the length of the texts in a value, in bytes.
fn text_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_len).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + text_len(value)).sum()
        }
    }
}

/// Returns a value with its texts shortened, so that it stays valid JSON.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => shorten(text, TEXT).into(),
        Value::Array(values) => values.iter().take(MEMBERS).map(shortened).collect(),
        Value::Object(members) => members
            .iter()
            .take(MEMBERS)
            .map(|(name, value)| (name.clone(), shortened(value)))
            .collect(),
    }
}

/// Collects the content of each agent's calls until they end.
#[derive(Debug, Default)]
pub(super) struct ContentFold(HashMap<SessionId, AgentContent>);

#[derive(Debug, Default)]
struct AgentContent {
    input: Vec<Value>,
    output: Vec<Value>,
    arguments: HashMap<CallId, String>,
}

impl ContentFold {
    /// Applies an event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events have no content for a model")]
    pub(super) fn apply(&mut self, line: &Envelope) {
        match &line.event {
            AgentEvent::UserInput { context, content, .. } => {
                let mut parts: Vec<Value> = context.iter().map(|text| text_part(text)).collect();
                parts.extend(content.iter().map(block_part));
                self.add_input(line, "user", &parts);
            }
            AgentEvent::Instructions { text, .. }
            | AgentEvent::FilesRestored { text, .. }
            | AgentEvent::Notice { audience: NoticeAudience::Model, text, .. } => {
                self.add_input(line, "user", &[text_part(text)]);
            }
            AgentEvent::Compaction { summary, .. } if !summary.is_empty() => {
                self.agent(line).input.clear();
                self.add_input(line, "user", &[text_part(summary)]);
            }
            AgentEvent::Reply { blocks, .. } => {
                let parts: Vec<Value> = blocks.iter().filter_map(reply_part).collect();
                self.agent(line).output = vec![json!({ "role": "assistant", "parts": parts })];
            }
            AgentEvent::CallStart { call_id, arguments, .. } => {
                let arguments = shortened(arguments).to_string();
                self.agent(line).arguments.insert(call_id.clone(), arguments);
            }
            AgentEvent::CallEnd { call_id, result, .. } => {
                let response = shorten(&result.output, TEXT);
                let part =
                    json!({ "type": "tool_call_response", "id": call_id, "response": response });
                self.add_input(line, "tool", &[part]);
            }
            _ => {}
        }
    }

    /// Returns the content of a model call that ended.
    pub(super) fn take_model_call(&mut self, session: &SessionId) -> Option<Box<ModelCallContent>> {
        let agent = self.0.get_mut(session)?;
        let (input, output) = (std::mem::take(&mut agent.input), std::mem::take(&mut agent.output));
        Some(Box::new(ModelCallContent { input, output }))
    }

    /// Returns the content of a tool call that ended with this result.
    pub(super) fn take_tool_call(
        &mut self,
        session: &SessionId,
        call: &CallId,
        result: &str,
    ) -> Option<Box<ToolCallContent>> {
        let agent = self.0.get_mut(session)?;
        let arguments = agent.arguments.remove(call).unwrap_or_default();
        Some(Box::new(ToolCallContent { arguments, result: shorten(result, TEXT) }))
    }

    fn agent(&mut self, line: &Envelope) -> &mut AgentContent {
        self.0.entry(line.session_id.clone()).or_default()
    }

    fn add_input(&mut self, line: &Envelope, role: &str, parts: &[Value]) {
        let input = &mut self.agent(line).input;
        if input.len() == MESSAGES {
            input.remove(0);
        }
        input.push(json!({ "role": role, "parts": parts }));
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "content": shorten(text, TEXT) })
}

fn block_part(block: &Block) -> Value {
    match block {
        Block::Text { text } => text_part(text),
        // Bytes of pictures are left out.
        Block::Image(image) => {
            json!({ "type": "blob", "modality": "image", "mime_type": image.media_type })
        }
    }
}

fn reply_part(block: &ReplyBlock) -> Option<Value> {
    match &block.content {
        ReplyContent::Text { text } => Some(text_part(text)),
        ReplyContent::Thinking { text } => {
            Some(json!({ "type": "reasoning", "content": shorten(text, TEXT) }))
        }
        ReplyContent::Call(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            let arguments = shorten(&arguments, TEXT);
            Some(
                json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments }),
            )
        }
        ReplyContent::Opaque => None,
    }
}
