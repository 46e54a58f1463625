//! Encoding of messages and requests.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    message::{
        AssistantMessage, Block, CallArguments, Message, ReplyContent, ResultsMessage, ToolCall,
    },
    model::{ToolChoice, ToolDefinition},
};
use serde_json::{Map, Value, json};

use super::{ChatVariant, decoder::ChatDecoder, reasoning};
use crate::{
    codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame},
    openai::{
        body,
        call_ids::CallIds,
        content::{self, ContentPart},
        parameters::parameters,
    },
};

/// Codec of the format in one conversation.
#[derive(Debug)]
pub(crate) struct ChatCodec {
    route: ConversationRoute,
    variant: ChatVariant,
    ids: CallIds,
}

impl ChatCodec {
    pub(crate) fn new(route: ConversationRoute, variant: ChatVariant) -> Self {
        Self { route, variant, ids: CallIds::new(variant.longest_id()) }
    }

    fn parts<'a>(&self, blocks: &'a [Block]) -> Vec<ContentPart<'a>> {
        content::parts(blocks, self.route.model.abilities.vision)
    }

    /// Encodes a user message. Text alone is sent as one string, which every server accepts; with images it is sent as
    /// parts.
    fn user(&self, blocks: &[Block]) -> Value {
        let parts = content::user_parts(blocks, self.route.model.abilities.vision);
        let content = if content::pictures(&parts).next().is_none() {
            json!(content::joined_text(&parts))
        } else {
            let values = parts.iter().map(|part| match part {
                ContentPart::Text(text) => text_part(text),
                ContentPart::Image(url) => image_part(url),
            });
            values.collect()
        };
        json!({ "role": "user", "content": content })
    }

    fn assistant(&self, message: &AssistantMessage) -> Vec<Value> {
        let mut text = String::new();
        let mut calls = Vec::new();
        for block in &message.blocks {
            match &block.content {
                ReplyContent::Text { text: more } => text.push_str(more),
                ReplyContent::Call(call) => calls.push(tool_call(call, self.ids.wire(&call.id))),
                ReplyContent::Thinking { .. } | ReplyContent::Opaque => {}
            }
        }
        if text.trim().is_empty() && calls.is_empty() {
            return Vec::new();
        }
        let mut fields = Map::new();
        fields.insert("role".to_owned(), json!("assistant"));
        let content = if text.is_empty() { Value::Null } else { json!(text) };
        fields.insert("content".to_owned(), content);
        if message.origin == self.route.origin {
            fields.extend(reasoning::request_fields(&message.blocks));
        }
        if !calls.is_empty() {
            fields.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        vec![Value::Object(fields)]
    }

    /// Encodes results. A tool message may contain text only: images follow in a user message.
    fn results(&self, message: &ResultsMessage) -> Vec<Value> {
        let mut values = Vec::new();
        let mut pictures = Vec::new();
        for result in &message.results {
            let id = self.ids.wire(&result.call_id);
            let parts = self.parts(&result.content);
            let mut text = content::result_text(result, &parts);
            let mut shown = content::pictures(&parts).peekable();
            if shown.peek().is_some() {
                if text.is_empty() {
                    "The picture follows in the next message.".clone_into(&mut text);
                }
                pictures.push(text_part(&format!("From {} ({id}):", result.tool)));
                pictures.extend(shown.map(image_part));
            }
            values.push(json!({
                "role": "tool", "tool_call_id": id, "content": text,
            }));
        }
        if !pictures.is_empty() {
            values.push(json!({ "role": "user", "content": pictures }));
        }
        values
    }

    fn head(&self, frame: Frame<'_>) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("model".to_owned(), json!(self.route.model.reference.model));
        head.insert("stream".to_owned(), json!(true));
        head.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        self.variant.configure(&mut head, &self.route, frame.config);
        if !frame.tools.is_empty() && self.route.model.abilities.tools {
            head.insert("tools".to_owned(), frame.tools.iter().map(tool).collect());
            match frame.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => {
                    head.insert("tool_choice".to_owned(), json!("none"));
                }
                ToolChoice::Any => {
                    head.insert("tool_choice".to_owned(), json!("required"));
                }
                ToolChoice::Tool(name) => {
                    let choice = json!({"type": "function", "function": {"name": name}});
                    head.insert("tool_choice".to_owned(), choice);
                }
            }
        }
        head
    }
}

impl Codec for ChatCodec {
    fn path(&self) -> String {
        "/chat/completions".to_owned()
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        let values = match &**message {
            Message::User(user) => vec![self.user(&user.content)],
            Message::Assistant(assistant) => {
                self.ids.on_message(assistant);
                self.assistant(assistant)
            }
            Message::Results(results) => self.results(results),
        };
        EncodedMessage {
            id: message.id().clone(),
            json: body::joined(&values),
            cache_mark_offset: None,
        }
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        let system = (!frame.system.trim().is_empty())
            .then(|| json!({ "role": "system", "content": frame.system }));
        body::with_array(&self.head(frame), "messages", system.as_ref(), messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(ChatDecoder::new(self.route.origin.clone(), self.ids.for_reply()))
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image_part(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

fn tool_call(call: &ToolCall, id: &str) -> Value {
    let arguments = arguments_text(&call.arguments);
    json!({
        "id": id, "type": "function",
        "function": { "name": content::wire_name(&call.name), "arguments": arguments },
    })
}

fn arguments_text(arguments: &CallArguments) -> String {
    arguments.to_object().to_string()
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name, "description": tool.description, "parameters": parameters(&tool.parameters),
        },
    })
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
