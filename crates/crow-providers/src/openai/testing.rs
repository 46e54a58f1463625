//! Fixtures for the tests of both formats.

use std::sync::Arc;

use crow_core::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Image, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
    model::{
        Abilities, ModelConfig, ModelEvent, ModelInfo, ModelRef, ModelReply, ProviderError,
        ToolCallFormat, ToolChoice, ToolDefinition,
    },
    usage::TokenUsage,
};
use serde_json::{Value, json};

use crate::{
    codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame},
    sse::EventReader,
};

pub(super) const PLAIN: Abilities = Abilities { tools: true, vision: false, thinking: false };
pub(super) const THINKS: Abilities = Abilities { tools: true, vision: true, thinking: true };

pub(super) fn route(model: &str, abilities: Abilities) -> ConversationRoute {
    ConversationRoute {
        model: ModelInfo {
            reference: ModelRef { provider: "test".to_owned(), model: model.to_owned() },
            context_window: None,
            max_output_tokens: None,
            abilities,
            tool_calls: Some(ToolCallFormat::Native),
        },
        origin: origin(model),
        session: "session-1".to_owned(),
    }
}

pub(super) fn origin(model: &str) -> Origin {
    Origin {
        dialect: "test".to_owned(),
        provider: "test".to_owned(),
        base_url: "http://test".to_owned(),
        model: model.to_owned(),
    }
}

/// Reads a stream as the driver does.
pub(super) fn read(
    mut decoder: Box<dyn Decoder>,
    stream: &str,
) -> Result<(Vec<ModelEvent>, ModelReply), Box<ProviderError>> {
    let (mut events, mut reader) = (Vec::new(), EventReader::new());
    let mut sink = |name: &str, data: &str| decoder.on_event(name, data, &mut events);
    reader.feed(stream.as_bytes(), &mut sink).and_then(|()| reader.finish(&mut sink))?;
    let reply = decoder.finish()?;
    Ok((events, reply))
}

/// Reads a stream and formats the result in lines: the events, then the reply.
pub(super) fn transcript(decoder: Box<dyn Decoder>, stream: &str) -> String {
    let (events, reply) = match read(decoder, stream) {
        Ok(outcome) => outcome,
        Err(error) => return format!("{:?}: {}", error.kind, error.message),
    };
    let mut lines: Vec<String> = events.iter().map(event_line).collect();
    lines.extend(reply.blocks.iter().map(block_line));
    lines.push(format!("= {:?}{}", reply.stop, usage_text(&reply.usage)));
    lines.join("\n")
}

fn event_line(event: &ModelEvent) -> String {
    match event {
        ModelEvent::TextDelta(text) => format!("~ {text:?}"),
        ModelEvent::ThinkingDelta(text) => format!("~ thinking {text:?}"),
        ModelEvent::CallStarted { name } => format!("~ call {name}"),
        ModelEvent::Accepted { .. }
        | ModelEvent::Waiting(_)
        | ModelEvent::Warning(_)
        | ModelEvent::Retrying(_)
        | ModelEvent::Completed(_) => {
            panic!("no decoder says this")
        }
    }
}

fn block_line(block: &ReplyBlock) -> String {
    let native = match block.native_item() {
        Some(item) => format!(" | {item}"),
        None => String::new(),
    };
    match &block.content {
        ReplyContent::Text { text } => format!("text {text:?}{native}"),
        ReplyContent::Thinking { text } => format!("thinking {text:?}{native}"),
        ReplyContent::Opaque => format!("opaque{native}"),
        ReplyContent::Call(ToolCall { id, name, arguments }) => {
            // A generated id differs each time.
            let id = if id.as_str().len() == 37 { "OURS" } else { id.as_str() };
            let arguments = match arguments {
                CallArguments::Json(value) => value.to_string(),
                CallArguments::Malformed(text) => format!("malformed {text:?}"),
            };
            format!("call {id} {name} {arguments}{native}")
        }
    }
}

fn usage_text(usage: &TokenUsage) -> String {
    if *usage == TokenUsage::default() {
        return String::new();
    }
    let totals = format!(" in {} out {}", usage.input_tokens, usage.output_tokens);
    let parts = [
        ("thought", usage.reasoning_tokens.unwrap_or(0)),
        ("read", usage.cache_read_tokens),
        ("written", usage.cache_write_tokens),
    ];
    let parts = parts.into_iter().filter(|(_, number)| *number > 0);
    let parts: Vec<String> = parts.map(|(name, number)| format!(" {name} {number}")).collect();
    totals + &parts.concat()
}

pub(super) fn user(id: &str, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message::User(UserMessage { id: MessageId::new(id), content }))
}

pub(super) fn assistant_message(blocks: Vec<ReplyBlock>) -> AssistantMessage {
    AssistantMessage {
        id: MessageId::new("a"),
        reply_id: ReplyId::new("a"),
        origin: origin("m"),
        blocks,
    }
}

pub(super) fn assistant(id: &str, origin: Origin, blocks: Vec<ReplyBlock>) -> Arc<Message> {
    Arc::new(Message::Assistant(AssistantMessage {
        id: MessageId::new(id),
        reply_id: ReplyId::new(id),
        origin,
        blocks,
    }))
}

pub(super) fn results(id: &str, results: Vec<ResultMessage>) -> Arc<Message> {
    Arc::new(Message::Results(ResultsMessage { id: MessageId::new(id), results }))
}

pub(super) fn result(call: &str, content: Vec<Block>) -> ResultMessage {
    ResultMessage {
        call_id: CallId::new(call),
        tool: "read_file".to_owned(),
        content,
        is_error: false,
    }
}

pub(super) fn text(text: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Text { text: text.to_owned() })
}

pub(super) fn call(id: &str, arguments: CallArguments) -> ReplyContent {
    let (id, name) = (CallId::new(id), "read_file".to_owned());
    ReplyContent::Call(ToolCall { id, name, arguments })
}

pub(super) fn picture() -> Block {
    Block::Image(Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() })
}

pub(super) fn tools() -> Vec<ToolDefinition> {
    vec![ToolDefinition {
        name: "read_file".to_owned(),
        description: "Reads a file.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    }]
}

/// Assembles a request as the driver does.
pub(super) fn body(
    codec: &mut dyn Codec,
    system: &str,
    messages: &[Arc<Message>],
    config: &ModelConfig,
    tool_choice: ToolChoice<'_>,
) -> Value {
    let encoded: Vec<EncodedMessage> =
        messages.iter().map(|message| codec.encode_message(message)).collect();
    let tools = tools();
    let frame = Frame { system, tools: &tools, config, tool_choice };
    serde_json::from_slice(&codec.assemble(frame, &encoded)).unwrap()
}
