use std::sync::Arc;

use crow_core::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Image, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
    model::{
        Abilities, ModelConfig, ModelEvent, ModelInfo, ModelRef, ModelReply, ProviderError,
        ProviderErrorKind, StopReason, ToolCallFormat, ToolChoice, ToolDefinition,
    },
    usage::TokenUsage,
};
use serde_json::{Value, json};

use super::GeminiCodec;
use crate::codec::{Codec as _, ConversationRoute, Frame};

fn route(model: &str) -> ConversationRoute {
    ConversationRoute {
        model: ModelInfo {
            reference: ModelRef { provider: "gemini".to_owned(), model: model.to_owned() },
            context_window: None,
            max_output_tokens: None,
            abilities: Abilities { tools: true, vision: true, thinking: true },
            tool_calls: Some(ToolCallFormat::Native),
        },
        origin: origin(model),
        session: "session-1".to_owned(),
    }
}

fn origin(model: &str) -> Origin {
    Origin {
        dialect: "gemini".to_owned(),
        provider: "gemini".to_owned(),
        base_url: "https://generativelanguage.googleapis.com".to_owned(),
        model: model.to_owned(),
    }
}

fn read(chunks: &[Value]) -> Result<(Vec<ModelEvent>, ModelReply), Box<ProviderError>> {
    let mut decoder = GeminiCodec::new(route("gemini-3-flash")).decoder();
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.on_event("", &chunk.to_string(), &mut events)?;
    }
    Ok((events, decoder.finish()?))
}

fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}]})
}

fn text(text: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Text { text: text.to_owned() })
}

fn call(id: &str, name: &str) -> ToolCall {
    let arguments = CallArguments::Json(json!({"path": "a"}));
    ToolCall { id: CallId::new(id), name: name.to_owned(), arguments }
}

fn reply(origin: Origin, blocks: Vec<ReplyBlock>) -> Message {
    let (id, reply_id) = (MessageId::new("a"), ReplyId::new("a"));
    Message::Assistant(AssistantMessage { id, reply_id, origin, blocks })
}

fn user(words: &str) -> Message {
    Message::User(UserMessage { id: MessageId::new("u"), content: vec![Block::text(words)] })
}

/// Returns the contents of a request.
fn contents(model: &str, messages: Vec<Message>) -> Value {
    let mut codec = GeminiCodec::new(route(model));
    let encoded: Vec<_> =
        messages.into_iter().map(|message| codec.encode_message(&Arc::new(message))).collect();
    let config = ModelConfig::default();
    let frame = Frame { system: "", tools: &[], config: &config, tool_choice: ToolChoice::Auto };
    let body: Value = serde_json::from_slice(&codec.assemble(frame, &encoded)).unwrap();
    body["contents"].clone()
}

/// After the streaming examples of the vendor's documentation.
#[test]
fn parts_without_a_signature_are_joined_and_signed_ones_are_kept() {
    let chunks = [
        parts(&json!([{"text": "Let me ", "thought": true}])),
        parts(&json!([{"text": "see.", "thought": true}])),
        parts(&json!([{"text": "I "}, {"text": "look."}])),
        parts(&json!([{"text": "", "thoughtSignature": "c2ln"}])),
        parts(&json!([
            {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "Y2Fs"},
            {"functionCall": {"name": "read", "args": {"path": "a"}, "id": "c2"}},
        ])),
        json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}], "responseId": "r1",
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 5,
                "cachedContentTokenCount": 64, "totalTokenCount": 112}}),
    ];
    let (events, reply) = read(&chunks).unwrap();
    assert_eq!(
        events,
        [
            ModelEvent::ThinkingDelta("Let me ".to_owned()),
            ModelEvent::ThinkingDelta("see.".to_owned()),
            ModelEvent::TextDelta("I ".to_owned()),
            ModelEvent::TextDelta("look.".to_owned()),
            ModelEvent::CallStarted { name: "read".to_owned() },
            ModelEvent::CallStarted { name: "read".to_owned() },
        ]
    );
    let ids: Vec<_> = reply.calls().map(|call| call.id.as_str().to_owned()).collect();
    assert!(ids[0].starts_with("call_"));
    assert_eq!(
        reply.blocks,
        [
            ReplyBlock::without_native_item(ReplyContent::Thinking {
                text: "Let me see.".to_owned()
            }),
            text("I look."),
            ReplyBlock::with_native(
                ReplyContent::Opaque,
                json!({"thoughtSignature": "c2ln", "text": ""})
            ),
            ReplyBlock::with_native(
                ReplyContent::Call(call(&ids[0], "read")),
                json!({"thoughtSignature": "Y2Fs", "functionCall": {"name": "read"}})
            ),
            ReplyBlock::with_native(
                ReplyContent::Call(call("c2", "read")),
                json!({"functionCall": {"name": "read", "id": "c2"}})
            ),
        ]
    );
    assert_eq!((reply.stop, reply.response_id.as_deref()), (StopReason::ToolUse, Some("r1")));
    let expected = TokenUsage {
        input_tokens: 100,
        output_tokens: 12,
        reasoning_tokens: Some(5),
        cache_read_tokens: 64,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
    };
    assert_eq!(reply.usage, expected);
}

#[test]
fn a_reply_is_sent_back_unchanged() {
    let original = json!([
        {"text": "Signed.", "thoughtSignature": "YQ=="},
        {"text": "I look."},
        {"novel": {"x": 1}},
        {"text": "", "thoughtSignature": "Yg=="},
        {"functionCall": {"name": "read", "id": "c1", "args": {"path": "a"}}, "thoughtSignature": "Yw=="},
    ]);
    let (_, ours) = read(&[parts(&original), end("STOP")]).unwrap();
    let result = ResultMessage {
        call_id: CallId::new("c1"),
        tool: "read".to_owned(),
        content: vec![Block::text("x")],
        is_error: false,
    };
    let results =
        Message::Results(ResultsMessage { id: MessageId::new("t"), results: vec![result] });
    let messages = vec![user("Hi"), reply(ours.origin.clone(), ours.blocks), results];
    let contents = contents("gemini-3-flash", messages);
    assert_eq!(contents[1]["parts"], original);
    let response = json!({"name": "read", "id": "c1", "response": {"output": "x"}});
    assert_eq!(contents[2]["parts"], json!([{"functionResponse": response}]));
}

#[test]
fn a_foreign_call_gets_a_signature_where_one_is_wanted() {
    let blocks = || {
        let first = ReplyBlock::without_native_item(ReplyContent::Call(call("1", "read")));
        vec![first, ReplyBlock::without_native_item(ReplyContent::Call(call("2", "read")))]
    };
    for (model, expected) in [
        ("gemini-3-flash", json!("skip_thought_signature_validator")),
        ("gemini-2.5-flash", Value::Null),
    ] {
        let contents = contents(model, vec![user("Hi"), reply(origin("other"), blocks())]);
        assert_eq!(contents[1]["parts"][0]["thoughtSignature"], expected, "{model}");
        assert_eq!(contents[1]["parts"][1]["thoughtSignature"], Value::Null);
    }
}

#[test]
fn foreign_reasoning_is_not_sent() {
    let thought = ReplyContent::Thinking { text: "Hm.".to_owned() };
    let blocks = vec![
        ReplyBlock::with_native(thought, json!({"thought": true, "thoughtSignature": "x"})),
        ReplyBlock::with_native(ReplyContent::Opaque, json!({"text": "", "thoughtSignature": "x"})),
        text("So."),
    ];
    let contents = contents("gemini-3-flash", vec![user("Hi"), reply(origin("other"), blocks)]);
    assert_eq!(contents[1]["parts"], json!([{"text": "So."}]));
}

#[test]
fn a_user_turn_separates_replies_in_a_row() {
    let assistant = |words: &str| reply(origin("other"), vec![text(words)]);
    let contents = contents("gemini-3-flash", vec![assistant("a"), assistant("b"), user(" ")]);
    let roles: Vec<_> =
        contents.as_array().unwrap().iter().map(|content| content["role"].clone()).collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user"]);
}

#[test]
fn results_are_in_order_and_followed_by_their_images() {
    let blocks = ["1", "2"]
        .map(|id| ReplyBlock::without_native_item(ReplyContent::Call(call(id, "read it!"))));
    let image = Image { media_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let result = |id: &str, content: Vec<Block>, is_error| ResultMessage {
        call_id: CallId::new(id),
        tool: "read it!".to_owned(),
        content,
        is_error,
    };
    let results = vec![
        result("1", vec![Block::text("a"), Block::Image(image), Block::text("b")], false),
        result("2", vec![], true),
    ];
    let results = Message::Results(ResultsMessage { id: MessageId::new("t"), results });
    let messages = vec![user("Hi"), reply(origin("other"), blocks.to_vec()), results];
    let expected = json!([
        {"functionResponse": {"name": "read_it_", "response": {"output": "a\nb"}}},
        {"functionResponse": {"name": "read_it_", "response": {"error": ""}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]);
    let contents = contents("gemini-2.5-flash", messages);
    assert_eq!(contents[2]["parts"], expected);
    assert_eq!(contents[1]["parts"][0]["functionCall"]["name"], "read_it_");
}

#[test]
fn finish_reasons_become_stop_reasons_or_errors() {
    for (reason, expected) in [
        ("STOP", Ok(StopReason::EndTurn)),
        ("MAX_TOKENS", Ok(StopReason::MaxTokens)),
        ("SAFETY", Ok(StopReason::Refusal)),
        ("RECITATION", Ok(StopReason::Refusal)),
        ("PROHIBITED_CONTENT", Ok(StopReason::Refusal)),
        ("NOVELTY", Ok(StopReason::EndTurn)),
        ("MALFORMED_FUNCTION_CALL", Err(ProviderErrorKind::Server)),
        ("OTHER", Err(ProviderErrorKind::Server)),
    ] {
        let outcome = read(&[parts(&json!([{"text": "Hm"}])), end(reason)]);
        let outcome = outcome.map(|(_, reply)| reply.stop).map_err(|error| error.kind);
        assert_eq!(outcome, expected, "{reason}");
    }
}

#[test]
fn a_blocked_prompt_is_a_refusal_that_says_why() {
    let error = read(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]).unwrap_err();
    assert_eq!((error.kind, error.code.as_deref()), (ProviderErrorKind::Refusal, Some("SAFETY")));
    assert!(error.message.contains("blocked"), "{error}");
}

#[test]
fn chunks_without_content_are_skipped() {
    let chunks = [
        json!({"novel": true}),
        json!({"candidates": []}),
        json!({"candidates": [{"content": null, "finishReason": null}], "usageMetadata": null}),
        parts(&json!([{"text": ""}, {}])),
        end("STOP"),
    ];
    let (events, reply) = read(&chunks).unwrap();
    assert!(events.is_empty() && reply.blocks.is_empty());
}

#[test]
fn the_request_has_its_tools_system_and_limits() {
    let codec = GeminiCodec::new(route("models/gemini-2.5-pro"));
    assert_eq!(codec.path(), "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    let tools = [ToolDefinition {
        name: "read".to_owned(),
        description: "Reads.".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }];
    let config = ModelConfig {
        temperature: Some(0.7),
        seed: Some(7),
        max_tokens: Some(100),
        thinking: None,
    };
    let tool_choice = ToolChoice::None;
    let frame = Frame { system: "Be terse.", tools: &tools, config: &config, tool_choice };
    let body: Value = serde_json::from_slice(&codec.assemble(frame, &[])).unwrap();
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let declaration =
        json!({"name": "read", "description": "Reads.", "parametersJsonSchema": parameters});
    let expected = json!({
        "generationConfig": {
            "maxOutputTokens": 100, "temperature": 0.7, "seed": 7, "thinkingConfig": {"includeThoughts": true},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
        "tools": [{"functionDeclarations": [declaration]}],
        "systemInstruction": {"parts": [{"text": "Be terse."}]},
        "contents": [],
    });
    assert_eq!(body, expected);
}
