//! Encoding of messages and requests.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    message::{
        AssistantMessage, Block, CallArguments, Message, ReplyBlock, ReplyContent, ResultMessage,
        ToolCall,
    },
    model::{ToolChoice, ToolDefinition},
};
use serde_json::{Map, Value, json};

use super::{decoder::ResponsesDecoder, output};
use crate::{
    codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame, joined, with_array},
    openai::{
        reply::CallIds,
        request::{self, ContentPart, effort, parameters},
    },
    wire_json::WireJson,
};

/// Maximum characters of a call's id.
const LONGEST_ID: usize = 64;

/// Codec of the format in one conversation.
#[derive(Debug)]
pub(crate) struct ResponsesCodec {
    route: ConversationRoute,
    ids: CallIds,
}

impl ResponsesCodec {
    pub(crate) fn new(route: ConversationRoute) -> Self {
        Self { route, ids: CallIds::new(LONGEST_ID) }
    }

    fn parts<'a>(&self, blocks: &'a [Block]) -> Vec<ContentPart<'a>> {
        request::parts(blocks, self.route.model.abilities.vision)
    }

    fn user(&self, blocks: &[Block]) -> Value {
        let parts = request::user_parts(blocks, self.route.model.abilities.vision);
        let content: Vec<Value> = parts.iter().map(input_part).collect();
        json!({ "type": "message", "role": "user", "content": content })
    }

    /// Returns the items of a reply: as received if they are of this origin and their reasoning is complete, otherwise
    /// rebuilt from the content. An item with its id is refused when the reasoning before it is missing: so either all
    /// items keep their ids, or none.
    fn assistant(&self, message: &AssistantMessage) -> Vec<Value> {
        let is_ours = message.origin == self.route.origin;
        let mut items: Vec<Value> = if is_ours && has_all_reasoning(&message.blocks) {
            message.blocks.iter().filter_map(|block| self.received_item(block)).collect()
        } else {
            message.blocks.iter().filter_map(|block| self.rebuilt_item(&block.content)).collect()
        };
        // Reasoning is refused without the item that followed from it.
        while items.last().is_some_and(output::is_reasoning) {
            items.pop();
        }
        items
    }

    fn received_item(&self, block: &ReplyBlock) -> Option<Value> {
        let Some(native) = block.native_item() else {
            return self.rebuilt_item(&block.content);
        };
        match &block.content {
            ReplyContent::Text { text } if text.trim().is_empty() => None,
            ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => {
                Some(native.clone())
            }
            ReplyContent::Call(call) => {
                let mut item = native.clone();
                if let Some(fields) = item.as_object_mut() {
                    fields.insert("call_id".to_owned(), json!(self.ids.wire(&call.id)));
                    if !is_object(&call.arguments) {
                        fields.insert("arguments".to_owned(), json!(arguments_text(call)));
                    }
                }
                Some(item)
            }
        }
    }

    fn rebuilt_item(&self, content: &ReplyContent) -> Option<Value> {
        match content {
            ReplyContent::Text { text } if text.trim().is_empty() => None,
            ReplyContent::Text { text } => {
                Some(json!({ "type": "message", "role": "assistant", "content": text }))
            }
            ReplyContent::Call(call) => Some(json!({
                "type": "function_call", "call_id": self.ids.wire(&call.id),
                "name": request::wire_name(&call.name), "arguments": arguments_text(call),
            })),
            ReplyContent::Thinking { .. } | ReplyContent::Opaque => None,
        }
    }

    fn result(&self, result: &ResultMessage) -> Value {
        let parts = self.parts(&result.content);
        let text = request::result_text(result, &parts);
        let pictures: Vec<Value> = request::pictures(&parts)
            .map(|url| input_part(&ContentPart::Image(url.to_owned())))
            .collect();
        let output = if pictures.is_empty() {
            json!(text)
        } else {
            let text = (!text.is_empty()).then(|| input_part(&ContentPart::Text(&text)));
            text.into_iter().chain(pictures).collect()
        };
        let id = self.ids.wire(&result.call_id);
        json!({ "type": "function_call_output", "call_id": id, "output": output })
    }

    fn head(&self, frame: Frame<'_>) -> Map<String, Value> {
        let mut head = Map::new();
        let mut set = |name: &str, value: Value| head.insert(name.to_owned(), value);
        let model = &self.route.model;
        set("model", json!(model.reference.model));
        if !frame.system.trim().is_empty() {
            set("instructions", json!(frame.system));
        }
        set("stream", json!(true));
        set("store", json!(false));
        set("prompt_cache_key", json!(self.route.session));
        if let Some(limit) = frame.config.max_tokens {
            set("max_output_tokens", json!(limit));
        }
        if model.abilities.thinking {
            // Models without thinking refuse this.
            set("include", json!(["reasoning.encrypted_content"]));
            if let Some(thinking) = frame.config.thinking {
                let effort = effort(thinking, &model.reference.model);
                set("reasoning", json!({ "effort": effort, "summary": "auto" }));
            }
        } else if let Some(temperature) = frame.config.temperature {
            // Models with thinking refuse this.
            set("temperature", request::decimal(temperature));
        }
        if !frame.tools.is_empty() && model.abilities.tools {
            set("tools", frame.tools.iter().map(tool).collect());
            set("parallel_tool_calls", json!(true));
            match frame.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => {
                    set("tool_choice", json!("none"));
                }
                ToolChoice::Any => {
                    set("tool_choice", json!("required"));
                }
                ToolChoice::Tool(name) => {
                    set("tool_choice", json!({"type": "function", "name": name}));
                }
            }
        }
        head
    }
}

impl Codec for ResponsesCodec {
    fn path(&self) -> String {
        "/responses".to_owned()
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        let items = match &**message {
            Message::User(user) => vec![self.user(&user.content)],
            Message::Assistant(assistant) => {
                self.ids.on_message(assistant);
                self.assistant(assistant)
            }
            Message::Results(results) => {
                results.results.iter().map(|result| self.result(result)).collect()
            }
        };
        EncodedMessage {
            id: message.id().clone(),
            json: WireJson::new(joined("", &items, "").json),
            cache_mark_offset: None,
        }
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        with_array(&self.head(frame), "input", None, messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(self.route.origin.clone(), self.ids.for_reply()))
    }
}

/// Returns true if all reasoning can be sent back.
fn has_all_reasoning(blocks: &[ReplyBlock]) -> bool {
    blocks.iter().all(|block| match &block.content {
        ReplyContent::Text { .. } | ReplyContent::Call(_) => true,
        ReplyContent::Thinking { .. } | ReplyContent::Opaque => {
            block.native_item().is_some_and(output::is_resendable)
        }
    })
}

/// Returns true for an object. Only an object is sent back as the model wrote it.
fn is_object(arguments: &CallArguments) -> bool {
    matches!(arguments, CallArguments::Json(Value::Object(_)))
}

fn arguments_text(call: &ToolCall) -> String {
    call.arguments.to_object().to_string()
}

fn input_part(part: &ContentPart<'_>) -> Value {
    match part {
        ContentPart::Text(text) => json!({ "type": "input_text", "text": text }),
        ContentPart::Image(url) => {
            json!({ "type": "input_image", "image_url": url, "detail": "auto" })
        }
    }
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": parameters(&tool.parameters), "strict": false,
    })
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
