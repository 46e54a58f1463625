use std::sync::Arc;

use crow_core::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Image, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
    model::{
        Abilities, ModelConfig, ModelEvent, ModelInfo, ModelRef, ModelReply, ProviderError,
        ProviderErrorKind, StopReason, Thinking, ToolCallFormat, ToolChoice, ToolDefinition,
    },
    usage::TokenUsage,
};
use serde_json::{Value, json};

use super::AnthropicCodec;
use crate::{
    codec::{Codec as _, ConversationRoute, EncodedMessage, Frame},
    sse::EventReader,
};

fn route(vision: bool) -> ConversationRoute {
    ConversationRoute {
        model: ModelInfo {
            reference: ModelRef {
                provider: "anthropic".to_owned(),
                model: "claude-sonnet-4-5".to_owned(),
            },
            context_window: None,
            max_output_tokens: Some(64_000),
            abilities: Abilities { tools: true, vision, thinking: true },
            tool_calls: Some(ToolCallFormat::Native),
        },
        origin: origin("claude-sonnet-4-5"),
        session: "session-1".to_owned(),
    }
}

fn origin(model: &str) -> Origin {
    Origin {
        dialect: "anthropic-messages".to_owned(),
        provider: "anthropic".to_owned(),
        base_url: "https://api.anthropic.com".to_owned(),
        model: model.to_owned(),
    }
}

fn read(stream: &str) -> Result<(Vec<ModelEvent>, ModelReply), Box<ProviderError>> {
    let mut decoder = AnthropicCodec::new(route(true)).decoder();
    let (mut events, mut reader) = (Vec::new(), EventReader::new());
    reader.feed(stream.as_bytes(), &mut |name, data| decoder.on_event(name, data, &mut events))?;
    Ok((events, decoder.finish()?))
}

fn stream(events: &[Value]) -> String {
    let event = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(event).collect()
}

fn user(id: &str, content: Vec<Block>) -> Message {
    Message::User(UserMessage { id: MessageId::new(id), content })
}

fn assistant(origin: Origin, blocks: Vec<ReplyBlock>) -> Message {
    let (id, reply_id) = (MessageId::new("a"), ReplyId::new("a"));
    Message::Assistant(AssistantMessage { id, reply_id, origin, blocks })
}

fn call(id: &str, arguments: CallArguments) -> ReplyBlock {
    let name = "read_file".to_owned();
    ReplyBlock::without_native_item(ReplyContent::Call(ToolCall {
        id: CallId::new(id),
        name,
        arguments,
    }))
}

fn result(id: &str, content: Vec<Block>, is_error: bool) -> ResultMessage {
    let tool = "read_file".to_owned();
    ResultMessage { call_id: CallId::new(id), tool, content, is_error }
}

fn text(text: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Text { text: text.to_owned() })
}

fn thinking(text: &str) -> ReplyBlock {
    let content = ReplyContent::Thinking { text: text.to_owned() };
    ReplyBlock::with_native(content, json!({"type": "thinking", "signature": "sig"}))
}

fn encode(messages: Vec<Message>, vision: bool) -> Vec<EncodedMessage> {
    let mut codec = AnthropicCodec::new(route(vision));
    messages.into_iter().map(|message| codec.encode_message(&Arc::new(message))).collect()
}

fn json_of(encoded: &EncodedMessage) -> Value {
    serde_json::from_slice(&encoded.json.to_vec()).unwrap()
}

fn body(messages: Vec<Message>, config: &ModelConfig, tool_choice: ToolChoice<'_>) -> Value {
    let mut codec = AnthropicCodec::new(route(true));
    let encoded: Vec<_> =
        messages.into_iter().map(|message| codec.encode_message(&Arc::new(message))).collect();
    let tools = ["edit", "read"].map(|name| ToolDefinition {
        name: name.to_owned(),
        description: "Does.".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
    });
    let frame = Frame { system: "Be terse.", tools: &tools, config, tool_choice };
    serde_json::from_slice(&codec.assemble(frame, &encoded)).unwrap()
}

/// From the streaming examples of the vendor's documentation, shortened.
#[test]
fn blocks_keep_their_order_and_signatures() {
    let stream = stream(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 25, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "see."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "Emwk"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "I look."}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":"}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": " \"a\"}"}}),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 89}}),
        json!({"type": "message_stop"}),
    ]);
    let (events, reply) = read(&stream).unwrap();
    assert_eq!(
        events,
        [
            ModelEvent::ThinkingDelta("Let me ".to_owned()),
            ModelEvent::ThinkingDelta("see.".to_owned()),
            ModelEvent::TextDelta("I look.".to_owned()),
            ModelEvent::CallStarted { name: "read_file".to_owned() },
        ]
    );
    let redacted = json!({"type": "redacted_thinking", "data": "Emwk"});
    let signed = json!({"type": "thinking", "signature": "EqQB"});
    let thought = ReplyContent::Thinking { text: "Let me see.".to_owned() };
    assert_eq!(
        reply.blocks,
        [
            ReplyBlock::with_native(thought, signed),
            ReplyBlock::with_native(ReplyContent::Opaque, redacted),
            text("I look."),
            call("toolu_1", CallArguments::Json(json!({"path": "a"}))),
        ]
    );
    assert_eq!((reply.stop, reply.response_id.as_deref()), (StopReason::ToolUse, Some("msg_1")));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (25, 89));
}

#[test]
fn usage_is_merged_and_split() {
    let stream = stream(&[
        json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 10, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 1000,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
            "input_tokens": 0, "cache_creation_input_tokens": null, "output_tokens": 40}}),
        json!({"type": "message_stop"}),
    ]);
    let expected = TokenUsage {
        input_tokens: 1310,
        output_tokens: 40,
        reasoning_tokens: None,
        cache_read_tokens: 1000,
        cache_write_tokens: 300,
        cache_write_1h_tokens: 200,
    };
    assert_eq!(read(&stream).unwrap().1.usage, expected);
}

#[test]
fn every_reason_for_stopping_has_its_meaning() {
    for (reason, expected) in [
        (json!("end_turn"), StopReason::EndTurn),
        (json!("max_tokens"), StopReason::MaxTokens),
        (json!("model_context_window_exceeded"), StopReason::MaxTokens),
        (json!("stop_sequence"), StopReason::StopSequence),
        (json!("pause_turn"), StopReason::Pause),
        (json!("refusal"), StopReason::Refusal),
        (json!("novelty"), StopReason::EndTurn),
        (json!(null), StopReason::EndTurn),
    ] {
        let stream = stream(&[
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!(read(&stream).unwrap().1.stop, expected, "{reason}");
    }
}

#[test]
fn omitted_parts_of_blocks_are_filled_in() {
    let start =
        |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let stop = json!({"type": "message_stop"});
    for (event, expected) in [
        // A delta without the start of its block.
        (json!({"type": "content_block_delta", "delta": {"text": "Hi"}}), text("Hi")),
        // Text and input that are complete in the start event.
        (start(json!({"type": "text", "text": "Hi"})), text("Hi")),
        (
            start(json!({"type": "tool_use", "id": "c", "name": "read_file", "input": {"a": 1}})),
            call("c", CallArguments::Json(json!({"a": 1}))),
        ),
        (
            start(json!({"type": "tool_use", "id": "c", "name": "read_file"})),
            call("c", CallArguments::Json(json!({}))),
        ),
        // A block of an unknown type is returned unchanged.
        (
            start(json!({"type": "novel", "x": [1]})),
            ReplyBlock::with_native(ReplyContent::Opaque, json!({"type": "novel", "x": [1]})),
        ),
    ] {
        let stream = stream(&[event.clone(), stop.clone()]);
        assert_eq!(read(&stream).unwrap().1.blocks, [expected], "{event}");
    }
}

#[test]
fn calls_of_one_reply_never_share_an_id() {
    let start = |index: u32, id: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}});
        json!({"type": "content_block_start", "index": index, "content_block": block})
    };
    let stream =
        stream(&[start(0, "c"), start(1, "c"), start(2, ""), json!({"type": "message_stop"})]);
    let (_, reply) = read(&stream).unwrap();
    let mut ids: Vec<_> = reply.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids[0], "c");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn unknown_events_are_skipped_and_broken_ones_are_errors() {
    let stop = "data: {\"type\":\"message_stop\"}\n\n";
    for skipped in [
        "event: novel\ndata: not json\n\n",
        "data: {\"type\":\"novel\",\"index\":7,\"delta\":{\"type\":\"novel_delta\",\"x\":1}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":7,\"delta\":{\"type\":\"novel_delta\"}}\n\n",
        "data: [DONE]\n\n",
        "event: ping\ndata: {}\n\n",
    ] {
        assert!(read(&format!("{skipped}{stop}")).is_ok(), "{skipped}");
    }
    for broken in ["event: content_block_delta\ndata: {\n\n", "data: {\"type\": \n\n"] {
        let error = read(&format!("{broken}{stop}")).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Decode, "{broken}");
    }
}

#[test]
fn an_error_event_keeps_its_code_and_request() {
    let event = json!({"type": "error", "request_id": "req_1",
        "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = read(&stream(&[event])).unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Overloaded);
    // The form of llama.cpp.
    let bare = "data: {\"error\":{\"code\":500,\"message\":\"x\",\"type\":\"server_error\"}}\n\n";
    assert_eq!(read(bare).unwrap_err().kind, ProviderErrorKind::Server);
    assert_eq!(error.code.as_deref(), Some("overloaded_error"));
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
}

#[test]
fn reasoning_that_was_cut_is_not_sent_back() {
    let stream = stream(&[
        json!({"type": "content_block_delta", "index": 0, "delta": {"thinking": "Hm"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ]);
    let (_, reply) = read(&stream).unwrap();
    assert_eq!(
        reply.blocks,
        [ReplyBlock::without_native_item(ReplyContent::Thinking { text: "Hm".to_owned() })]
    );
    let encoded = encode(vec![assistant(origin("claude-sonnet-4-5"), reply.blocks)], true);
    assert!(encoded[0].json.is_empty());
}

#[test]
fn reasoning_is_sent_back_only_to_its_own_model() {
    let blocks = || vec![thinking("Hm."), text(" \n"), text("So."), thinking("Then.")];
    let spoken = json!({"type": "text", "text": "So."});
    let signed = json!({"type": "thinking", "signature": "sig", "thinking": "Hm."});
    for (model, expected) in
        [("claude-sonnet-4-5", json!([signed, spoken])), ("claude-opus-4-8", json!([spoken]))]
    {
        let encoded = encode(vec![assistant(origin(model), blocks())], true);
        assert_eq!(json_of(&encoded[0]), json!({"role": "assistant", "content": expected}));
    }
}

#[test]
fn ids_that_the_service_refuses_are_mapped_the_same_way_on_both_sides() {
    let json = || CallArguments::Json(json!({}));
    let reply = || assistant(origin("x"), vec![call("fc|1/ü", json()), call("ok", json())]);
    let results = || {
        let results = vec![result("fc|1/ü", vec![], false), result("ok", vec![], true)];
        Message::Results(ResultsMessage { id: MessageId::new("t"), results })
    };
    let encoded = encode(vec![reply(), results(), reply(), results()], true);
    let [first, answers, again, answers_again] = [0, 1, 2, 3].map(|at| json_of(&encoded[at]));
    let id = |message: &Value, at: usize, name: &str| {
        message["content"][at][name].as_str().unwrap().to_owned()
    };
    for at in [0, 1] {
        assert_eq!(id(&first, at, "id"), id(&answers, at, "tool_use_id"));
        assert_eq!(id(&again, at, "id"), id(&answers_again, at, "tool_use_id"));
        assert_ne!(id(&first, at, "id"), id(&again, at, "id"), "an id may not come again");
    }
    assert_eq!(id(&first, 1, "id"), "ok");
    assert!(id(&first, 0, "id").starts_with("call_"));
}

#[test]
fn results_contain_only_what_the_service_accepts() {
    let image =
        || Block::Image(Image { media_type: "image/png".to_owned(), data: "aGk=".to_owned() });
    let results = vec![
        result("a", vec![Block::text("out"), image()], false),
        result("b", vec![Block::text("bad"), image()], true),
        result("c", vec![Block::text("")], true),
    ];
    let message =
        || Message::Results(ResultsMessage { id: MessageId::new("t"), results: results.clone() });
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let words = |text: &str| json!({"type": "text", "text": text});
    let expected = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": [words("out"), picture]},
        {"type": "tool_result", "tool_use_id": "b", "content": [words("bad")], "is_error": true},
        {"type": "tool_result", "tool_use_id": "c", "content": [words("(no output)")], "is_error": true},
        picture,
    ]});
    assert_eq!(json_of(&encode(vec![message()], true)[0]), expected);
    let blind = json_of(&encode(vec![message()], false)[0]).to_string();
    assert!(blind.contains("cannot see pictures") && !blind.contains("aGk="), "{blind}");
}

#[test]
fn cache_marks_are_on_tools_system_first_and_last_message() {
    let mark = json!({"type": "ephemeral"});
    let messages = vec![
        user("1", vec![Block::text("a"), Block::text("b")]),
        assistant(origin("claude-sonnet-4-5"), vec![thinking("Hm."), text("c")]),
        user("2", vec![Block::text("d")]),
    ];
    let body = body(messages, &ModelConfig::default(), ToolChoice::Auto);
    for (pointer, is_marked) in [
        ("/tools/0", false),
        ("/tools/1", true),
        ("/system/0", true),
        ("/messages/0/content/0", false),
        ("/messages/0/content/1", true),
        ("/messages/1/content/0", false),
        ("/messages/1/content/1", false),
        ("/messages/2/content/0", true),
    ] {
        let found = body.pointer(&format!("{pointer}/cache_control"));
        assert_eq!(found, is_marked.then_some(&mark), "{pointer}");
    }
}

#[test]
fn a_paused_reply_ends_the_request_without_a_mark_on_its_reasoning() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let messages = vec![
        user("1", vec![Block::text("a")]),
        assistant(
            origin("claude-sonnet-4-5"),
            vec![thinking("Hm."), ReplyBlock::with_native(ReplyContent::Opaque, search)],
        ),
    ];
    let body = body(messages, &ModelConfig::default(), ToolChoice::Auto);
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 2);
    assert_eq!(body.to_string().matches("cache_control").count(), 3);
}

#[test]
fn the_fields_of_a_request_follow_the_configuration() {
    let hello = || vec![user("1", vec![Block::text("a")])];
    let plain = body(hello(), &ModelConfig::default(), ToolChoice::Auto);
    for (field, expected) in [
        ("model", json!("claude-sonnet-4-5")),
        ("max_tokens", json!(64_000)),
        ("stream", json!(true)),
        ("thinking", Value::Null),
        ("temperature", Value::Null),
        ("tool_choice", Value::Null),
    ] {
        assert_eq!(plain[field], expected, "{field}");
    }
    let config = ModelConfig {
        temperature: Some(0.7),
        seed: Some(7),
        max_tokens: Some(20_000),
        thinking: Some(Thinking::Medium),
    };
    let thinks = body(hello(), &config, ToolChoice::None);
    for (field, expected) in [
        ("max_tokens", json!(20_000)),
        ("thinking", json!({"type": "enabled", "budget_tokens": 12_288})),
        ("temperature", Value::Null),
        ("tool_choice", json!({"type": "none"})),
    ] {
        assert_eq!(thinks[field], expected, "{field}");
    }
    let config = ModelConfig { thinking: None, ..config };
    assert_eq!(body(hello(), &config, ToolChoice::Auto)["temperature"], json!(0.7));
}

#[test]
fn the_beta_header_is_sent_only_to_the_vendor() {
    let header = |base_url: &str| {
        let mut route = route(true);
        base_url.clone_into(&mut route.origin.base_url);
        AnthropicCodec::new(route).headers().len()
    };
    assert_eq!(header("https://api.anthropic.com"), 2);
    assert_eq!(header("http://127.0.0.1:8080"), 1);
}
