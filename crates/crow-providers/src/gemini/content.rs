//! Encoding of messages.

use std::collections::HashMap;

use bytes::Bytes;
use crow_core::{
    ids::CallId,
    message::{
        AssistantMessage, Block, Image, Message, Origin, ReplyBlock, ReplyContent, ResultMessage,
        ToolCall,
    },
};
use serde_json::{Map, Value, json};

use super::codec::{NO_SIGNATURE, wants_signatures};
use crate::{
    codec::{ConversationRoute, EMPTY_MESSAGE, EncodedMessage, IMAGE_OMITTED, joined, wire_name},
    wire_json::WireJson,
};

/// User turn that is inserted between two replies in a row: calls must follow a turn of the user.
const GO_ON: &str = "Continue.";
/// One less than the service accepts: an underscore may be prepended.
const LONGEST_NAME: usize = 63;

/// Encoder of a conversation's messages, to be called in their order.
#[derive(Debug)]
pub(super) struct ContentEncoder {
    origin: Origin,
    has_vision: bool,
    wants_signatures: bool,
    follows_user: bool,
    /// Names and ids on the wire of the last reply's calls.
    open: HashMap<CallId, WireCall>,
}

#[derive(Debug)]
struct WireCall {
    name: String,
    /// The id that the service assigned.
    id: Option<String>,
}

impl ContentEncoder {
    pub(super) fn new(route: &ConversationRoute) -> Self {
        Self {
            origin: route.origin.clone(),
            has_vision: route.model.abilities.vision,
            wants_signatures: wants_signatures(&route.model.reference.model),
            follows_user: false,
            open: HashMap::new(),
        }
    }

    pub(super) fn encode(&mut self, message: &Message) -> EncodedMessage {
        let json = match message {
            Message::User(user) => {
                let mut parts: Vec<_> =
                    user.content.iter().filter_map(|block| self.user_part(block)).collect();
                if parts.is_empty() {
                    parts.push(json!({"text": EMPTY_MESSAGE}));
                }
                self.content("user", &parts)
            }
            Message::Assistant(reply) => {
                let parts = self.reply(reply);
                self.content("model", &parts)
            }
            Message::Results(message) => {
                let parts = self.results(&message.results);
                self.content("user", &parts)
            }
        };
        let json = WireJson::new(json);
        EncodedMessage { id: message.id().clone(), json, cache_mark_offset: None }
    }

    fn content(&mut self, role: &str, parts: &[Value]) -> Bytes {
        if parts.is_empty() {
            return Bytes::new();
        }
        let is_model = role == "model";
        let content = json!({"role": role, "parts": parts});
        // Calls must follow a turn of the user, so one is inserted where it is missing.
        let contents = if is_model && !self.follows_user {
            vec![json!({"role": "user", "parts": [{"text": GO_ON}]}), content]
        } else {
            vec![content]
        };
        self.follows_user = !is_model;
        joined("", &contents, "").json
    }

    fn user_part(&self, block: &Block) -> Option<Value> {
        match block {
            Block::Text { text } => (!text.trim().is_empty()).then(|| json!({"text": text})),
            Block::Image(image) => Some(self.picture(image)),
        }
    }

    fn picture(&self, image: &Image) -> Value {
        if self.has_vision {
            json!({"inlineData": {"mimeType": image.media_type, "data": image.data}})
        } else {
            json!({"text": IMAGE_OMITTED})
        }
    }

    fn reply(&mut self, message: &AssistantMessage) -> Vec<Value> {
        self.open.clear();
        let is_ours = message.origin == self.origin;
        let mut parts = Vec::new();
        // Only the first call of a reply needs a signature.
        let mut unsigned = self.wants_signatures;
        for block in &message.blocks {
            let native = block.native_item().filter(|_| is_ours).and_then(Value::as_object);
            let is_foreign = native.is_none();
            let part = self.reply_part(block, native.cloned());
            parts.extend(part);
            if matches!(block.content, ReplyContent::Call(_))
                && std::mem::take(&mut unsigned)
                && is_foreign
                && let Some(part) = parts.last_mut()
            {
                sign(part);
            }
        }
        parts
    }

    fn reply_part(
        &mut self,
        block: &ReplyBlock,
        native: Option<Map<String, Value>>,
    ) -> Option<Value> {
        match (&block.content, native) {
            (ReplyContent::Text { text }, Some(native)) => Some(with_text(native, text)),
            (ReplyContent::Text { text }, None) => {
                (!text.trim().is_empty()).then(|| json!({"text": text}))
            }
            // Reasoning without a signature is only for display, so it is not sent.
            (ReplyContent::Thinking { text }, native) => Some(with_text(native?, text)),
            (ReplyContent::Call(call), native) => Some(self.call(call, native)),
            (ReplyContent::Opaque, native) => native.map(Value::Object),
        }
    }

    fn call(&mut self, call: &ToolCall, native: Option<Map<String, Value>>) -> Value {
        let mut part = native.unwrap_or_default();
        let mut function = match part.shift_remove("functionCall") {
            Some(Value::Object(function)) => function,
            _ => Map::from_iter([("name".to_owned(), json!(function_name(&call.name)))]),
        };
        let text = |name: &str| function.get(name).and_then(Value::as_str).map(str::to_owned);
        let wire = WireCall { name: text("name").unwrap_or_default(), id: text("id") };
        self.open.insert(call.id.clone(), wire);
        function.insert("args".to_owned(), call.arguments.to_object());
        part.insert("functionCall".to_owned(), Value::Object(function));
        Value::Object(part)
    }

    /// Returns one response for each call, in order. Images follow, since not every model accepts them inside.
    fn results(&self, results: &[ResultMessage]) -> Vec<Value> {
        let mut parts = Vec::new();
        let mut trailing = Vec::new();
        for result in results {
            let mut texts = Vec::new();
            for block in &result.content {
                match block {
                    Block::Text { text } => texts.push(text.as_str()),
                    Block::Image(image) => trailing.push(self.picture(image)),
                }
            }
            let wire = self.open.get(&result.call_id);
            let name = wire.map_or_else(|| function_name(&result.tool), |wire| wire.name.clone());
            let field = if result.is_error { "error" } else { "output" };
            let mut response = Map::from_iter([("name".to_owned(), json!(name))]);
            if let Some(id) = wire.and_then(|wire| wire.id.as_ref()) {
                response.insert("id".to_owned(), json!(id));
            }
            response.insert("response".to_owned(), json!({field: texts.join("\n")}));
            parts.push(json!({"functionResponse": response}));
        }
        parts.append(&mut trailing);
        parts
    }
}

/// Inserts the text into a signed part, which must be sent back as the service sent it.
fn with_text(mut part: Map<String, Value>, text: &str) -> Value {
    part.insert("text".to_owned(), json!(text));
    Value::Object(part)
}

/// Adds a placeholder signature. The first call of a reply must have a signature: one of another model has none, and
/// one of the service itself is sent back unchanged.
fn sign(part: &mut Value) {
    if let Some(part) = part.as_object_mut() {
        part.insert("thoughtSignature".to_owned(), json!(NO_SIGNATURE));
    }
}

/// Converts a name to a legal one. The service requires a letter or an underscore at its start.
fn function_name(name: &str) -> String {
    let legal = wire_name(name, "_-.", LONGEST_NAME);
    let is_legal_start = legal.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_legal_start { legal } else { format!("_{legal}") }
}
