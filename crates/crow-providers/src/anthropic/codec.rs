//! The codec of a conversation, and the body of its requests.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use crow_core::{
    message::Message,
    model::{ModelConfig, ModelInfo, ToolChoice, ToolDefinition},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    decoder::AnthropicDecoder,
    message::MessageEncoder,
    thinking::{self, SamplingFields, sampling},
};
use crate::codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame, to_bytes};

const VERSION: &str = "2023-06-01";

/// Codec of the Anthropic Messages format.
pub(crate) struct AnthropicCodec {
    messages: MessageEncoder,
    route: ConversationRoute,
}

impl AnthropicCodec {
    pub(crate) fn new(route: ConversationRoute) -> Self {
        Self { messages: MessageEncoder::new(&route), route }
    }
}

impl Codec for AnthropicCodec {
    fn path(&self) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        if let Some(beta) = thinking::beta(&self.route) {
            headers.push(("anthropic-beta", beta.to_owned()));
        }
        headers
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        self.messages.encode(message)
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        assemble(&self.route.model, frame, messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(AnthropicDecoder::new(self.route.origin.clone()))
    }
}

/// Cache mark, inserted before the closing brace of a block.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Request fields other than the messages, in the order in which the service caches them.
#[derive(Serialize)]
struct AnthropicRequestHead<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[System<'a>; 1]>,
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<TypedObject>,
}

#[derive(Serialize)]
struct System<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    cache_control: TypedObject,
}

/// An object with only a type.
#[derive(Serialize)]
struct TypedObject {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: TypedObject = TypedObject { kind: "ephemeral" };

/// Assembles a request body. The service caches tools, system and messages in this order, up to each mark.
fn assemble(model: &ModelInfo, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
    let mut body = to_bytes(&head(model, frame));
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    body.reserve(size + 128);
    // Reopens the object for one more field; its closing brace follows at the end.
    body.pop();
    body.extend_from_slice(b",\"messages\":[");
    let marked = cache_mark_indices(messages);
    let nonempty = messages.iter().enumerate().filter(|(_, message)| !message.json.is_empty());
    for (position, (index, message)) in nonempty.enumerate() {
        if position > 0 {
            body.push(b',');
        }
        let mark = message.cache_mark_offset.filter(|_| marked.contains(&Some(index)));
        match mark {
            Some(offset) => message.json.append_with(MARK, offset, &mut body),
            None => message.json.append_to(&mut body),
        }
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

fn head<'a>(model: &'a ModelInfo, frame: Frame<'a>) -> AnthropicRequestHead<'a> {
    let tool_choice = tool_choice(frame);
    let is_forced = matches!(frame.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
    // The service refuses a forced call with thinking, so thinking is left out.
    let without_thinking;
    let config = if is_forced && tool_choice.is_some() {
        without_thinking = ModelConfig { thinking: None, ..frame.config.clone() };
        &without_thinking
    } else {
        frame.config
    };
    let SamplingFields { max_tokens, thinking, effort, temperature } = sampling(model, config);
    let system = System { kind: "text", text: frame.system, cache_control: EPHEMERAL };
    AnthropicRequestHead {
        model: &model.reference.model,
        max_tokens,
        stream: true,
        thinking,
        output_config: effort.map(|effort| json!({"effort": effort})),
        temperature,
        tool_choice,
        tools: tools(frame.tools),
        system: (!frame.system.trim().is_empty()).then_some([system]),
    }
}

fn tool_choice(frame: Frame<'_>) -> Option<Value> {
    let choice = match frame.tool_choice {
        _ if frame.tools.is_empty() => return None,
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    Some(choice)
}

/// Returns the indices of the first and the last message that can carry a mark. The content of the first never changes.
fn cache_mark_indices(messages: &[EncodedMessage]) -> [Option<usize>; 2] {
    let can_be_marked = |message: &EncodedMessage| message.cache_mark_offset.is_some();
    [messages.iter().position(can_be_marked), messages.iter().rposition(can_be_marked)]
}

fn tools(tools: &[ToolDefinition]) -> Vec<AnthropicTool<'_>> {
    let mut tools: Vec<_> = tools.iter().map(AnthropicTool::new).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    tools
}

impl<'a> AnthropicTool<'a> {
    fn new(tool: &'a ToolDefinition) -> Self {
        let ToolDefinition { name, description, parameters } = tool;
        Self { name, description, input_schema: schema(parameters), cache_control: None }
    }
}

/// Adds `"type": "object"` to a schema of arguments without a type: the service requires it.
fn schema(schema: &Value) -> Cow<'_, Value> {
    if schema.get("type").is_some() {
        return Cow::Borrowed(schema);
    }
    let mut object = schema.as_object().cloned().unwrap_or_default();
    object.insert("type".to_owned(), json!("object"));
    Cow::Owned(Value::Object(object))
}
