//! Encoding of messages and requests, and the differences between the servers of the format.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    message::{AssistantMessage, Block, Message, ReplyContent, ResultsMessage, ToolCall},
    model::{ModelConfig, ModelInfo, Thinking, ToolChoice, ToolDefinition},
};
use serde_json::{Map, Value, json};

use super::{decoder::ChatDecoder, reply::reasoning_fields};
use crate::{
    codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame, joined, with_array},
    openai::{
        reply::CallIds,
        request::{self, ContentPart, effort, parameters},
    },
    wire_json::WireJson,
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
        Self { route, variant, ids: CallIds::new(variant.longest_id) }
    }

    fn parts<'a>(&self, blocks: &'a [Block]) -> Vec<ContentPart<'a>> {
        request::parts(blocks, self.route.model.abilities.vision)
    }

    /// Encodes a user message. Text alone is sent as one string, which every server accepts; with images it is sent as
    /// parts.
    fn user(&self, blocks: &[Block]) -> Value {
        let parts = request::user_parts(blocks, self.route.model.abilities.vision);
        let content = if request::pictures(&parts).next().is_none() {
            json!(request::joined_text(&parts))
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
            fields.extend(reasoning_fields(&message.blocks));
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
            let mut text = request::result_text(result, &parts);
            let mut shown = request::pictures(&parts).peekable();
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
            json: WireJson::new(joined("", &values, "").json),
            cache_mark_offset: None,
        }
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        let system = (!frame.system.trim().is_empty())
            .then(|| json!({ "role": "system", "content": frame.system }));
        with_array(&self.head(frame), "messages", system.as_ref(), messages)
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
    let arguments = call.arguments.to_object().to_string();
    json!({
        "id": id, "type": "function",
        "function": { "name": request::wire_name(&call.name), "arguments": arguments },
    })
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name, "description": tool.description, "parameters": parameters(&tool.parameters),
        },
    })
}

/// A variant of Chat Completions: the parts of a request that differ between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatVariant {
    /// Field for the maximum tokens of a reply.
    limit: &'static str,
    /// Field for the session, if the provider's cache uses one.
    cache_key: Option<&'static str>,
    /// Field for the amount of thinking.
    thinking: ThinkingField,
    /// Models that accept a temperature.
    temperature: Temperature,
    /// Maximum characters of a call's id.
    longest_id: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingField {
    /// `reasoning_effort: "low"`.
    Effort,
    /// `reasoning: {…}`, which accepts a number of tokens as well.
    Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temperature {
    AllModels,
    /// Models that think refuse it.
    UnlessThinking,
}

impl ChatVariant {
    /// `OpenAI` itself.
    pub const OPENAI: Self = Self {
        limit: "max_completion_tokens",
        cache_key: Some("prompt_cache_key"),
        thinking: ThinkingField::Effort,
        temperature: Temperature::UnlessThinking,
        longest_id: 40,
    };

    /// `OpenRouter`.
    pub const OPENROUTER: Self = Self {
        limit: "max_tokens",
        cache_key: None,
        thinking: ThinkingField::Object,
        temperature: Temperature::AllModels,
        longest_id: 64,
    };

    /// All other servers.
    pub const COMPATIBLE: Self = Self {
        limit: "max_tokens",
        cache_key: None,
        thinking: ThinkingField::Effort,
        temperature: Temperature::AllModels,
        longest_id: 64,
    };

    /// Adds the fields of the configuration that the model accepts.
    fn configure(
        self,
        head: &mut Map<String, Value>,
        route: &ConversationRoute,
        config: &ModelConfig,
    ) {
        let model = &route.model;
        if let Some(limit) = config.max_tokens {
            head.insert(self.limit.to_owned(), json!(limit));
        }
        if let Some(temperature) = config.temperature.filter(|_| self.takes_temperature(model)) {
            head.insert("temperature".to_owned(), request::decimal(temperature));
        }
        if let Some(seed) = config.seed {
            head.insert("seed".to_owned(), json!(seed));
        }
        if let Some(thinking) = config.thinking.filter(|_| model.abilities.thinking) {
            let (field, value) = self.thinking.request(thinking, &model.reference.model);
            head.insert(field.to_owned(), value);
        }
        if let Some(field) = self.cache_key {
            head.insert(field.to_owned(), json!(route.session));
        }
    }

    fn takes_temperature(self, model: &ModelInfo) -> bool {
        match self.temperature {
            Temperature::AllModels => true,
            Temperature::UnlessThinking => !model.abilities.thinking,
        }
    }
}

impl ThinkingField {
    fn request(self, thinking: Thinking, model: &str) -> (&'static str, Value) {
        match (self, thinking) {
            (Self::Effort, _) => ("reasoning_effort", json!(effort(thinking, model))),
            (Self::Object, Thinking::Off) => ("reasoning", json!({ "enabled": false })),
            (Self::Object, Thinking::Tokens(most)) => ("reasoning", json!({ "max_tokens": most })),
            (Self::Object, Thinking::Low | Thinking::Medium | Thinking::High) => {
                ("reasoning", json!({ "effort": effort(thinking, model) }))
            }
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
