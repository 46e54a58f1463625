//! Tests of the rendered streams of the four dialects, event by event.

use bytes::Bytes;
use crow_testkit::wire::{EncryptedReasoning, UsageChunk, WireOptions, frames};
use crow_testkit::{ChatFlavour, DeltaSize, ReplyUsage, ScriptedReply, ScriptedStop, WireDialect};
use serde_json::{Value, json};

use crate::client::{Event, events};

fn reply() -> ScriptedReply {
    ScriptedReply::new()
        .thinking("I should look.", "sig-1")
        .redacted("opaque")
        .text("I look at naïve 日本.")
        .call("call_1", "look", &json!({"path": "a b"}))
        .with_usage(ReplyUsage {
            input: 10,
            output: 30,
            reasoning: 12,
            cache_read: 200,
            cache_write: 40,
        })
}

/// Renders a reply and decodes its events.
fn stream(reply: &ScriptedReply, dialect: WireDialect, options: &WireOptions) -> Vec<Event> {
    let frames = frames(reply, dialect, options);
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    for frame in &frames {
        let end = text(frame);
        assert!(end.ends_with("\n\n") || end.ends_with("\r\n\r\n"), "{end:?}");
    }
    events(&frames.iter().map(text).collect::<String>())
}

/// Concatenates the texts at a JSON pointer of all events.
fn joined(events: &[Event], pointer: &str) -> String {
    events.iter().filter_map(|event| event.data.pointer(pointer)?.as_str()).collect()
}

/// Returns the types of the events, without consecutive duplicates.
fn kinds(events: &[Event]) -> Vec<String> {
    let mut kinds: Vec<String> = events
        .iter()
        .map(|event| {
            let kind = event.data["type"].as_str().unwrap().to_owned();
            assert_eq!(event.name.as_deref(), Some(kind.as_str()), "the name is the type");
            kind
        })
        .collect();
    kinds.dedup();
    kinds
}

#[test]
fn anthropic_streams_blocks_in_order_with_signature_and_usage() {
    let events = stream(&reply(), WireDialect::AnthropicMessages, &WireOptions::default());
    assert_eq!(
        kinds(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert_eq!(joined(&events, "/delta/thinking"), "I should look.");
    assert_eq!(joined(&events, "/delta/signature"), "sig-1");
    assert_eq!(joined(&events, "/content_block/data"), "opaque");
    assert_eq!(joined(&events, "/delta/text"), "I look at naïve 日本.");
    assert_eq!(joined(&events, "/delta/partial_json"), r#"{"path":"a b"}"#);
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 200,
        "output_tokens": 30,
    });
    let last = &events[events.len() - 2].data;
    assert_eq!((&last["usage"], &last["delta"]["stop_reason"]), (&usage, &json!("tool_use")));
    let indices: Vec<_> = events
        .iter()
        .filter(|event| event.data["type"] == "content_block_start")
        .map(|event| event.data["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, [0, 1, 2, 3]);
}

#[test]
fn responses_number_their_events_and_end_with_the_whole_output() {
    let events = stream(&reply(), WireDialect::OpenAiResponses, &WireOptions::default());
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers: Vec<_> =
        events.iter().map(|event| event.data["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let last = &events.last().unwrap().data["response"];
    assert_eq!(last["status"], "completed");
    assert_eq!(
        last["usage"],
        json!({
            "input_tokens": 250, "input_tokens_details": {"cached_tokens": 200},
            "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 280,
        })
    );
    let done: Vec<_> = events
        .iter()
        .filter(|event| event.data["type"] == "response.output_item.done")
        .map(|event| event.data["item"].clone())
        .collect();
    assert_eq!(last["output"], Value::Array(done));
    assert_eq!(last["output"][0]["encrypted_content"], "sig-1");
    assert_eq!(last["output"][1]["encrypted_content"], "opaque");
    assert_eq!(last["output"][2]["content"][0]["text"], "I look at naïve 日本.");
    assert_eq!(last["output"][3]["arguments"], r#"{"path":"a b"}"#);
}

#[test]
fn responses_omit_encrypted_content_unless_it_was_requested() {
    let options = WireOptions { encrypted: EncryptedReasoning::Omitted, ..WireOptions::default() };
    let events = stream(&reply(), WireDialect::OpenAiResponses, &options);
    assert!(!format!("{events:?}").contains("encrypted_content"));
}

#[test]
fn responses_end_as_incomplete_or_failed() {
    let options = WireOptions::default();
    let cut = ScriptedReply::new().text("half").with_stop(ScriptedStop::MaxTokens);
    let last = stream(&cut, WireDialect::OpenAiResponses, &options).pop().unwrap();
    assert_eq!(last.name.as_deref(), Some("response.incomplete"));
    assert_eq!(last.data["response"]["incomplete_details"]["reason"], "max_output_tokens");
    let failed = ScriptedReply::new().text("half").with_stop(ScriptedStop::Failed);
    let last = stream(&failed, WireDialect::OpenAiResponses, &options).pop().unwrap();
    assert_eq!(last.name.as_deref(), Some("response.failed"));
    assert_eq!(last.data["response"]["error"]["code"], "server_error");
}

#[test]
fn chat_streams_call_pieces_by_index_and_ends_with_usage_and_done() {
    let events = stream(&reply(), WireDialect::OpenAiChat, &WireOptions::default());
    assert_eq!(events[0].data["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(joined(&events, "/choices/0/delta/content"), "I look at naïve 日本.");
    let call = "/choices/0/delta/tool_calls/0";
    assert_eq!(joined(&events, &format!("{call}/id")), "call_1");
    assert_eq!(joined(&events, &format!("{call}/function/name")), "look");
    assert_eq!(joined(&events, &format!("{call}/function/arguments")), r#"{"path":"a b"}"#);
    assert_eq!(joined(&events, "/choices/0/finish_reason"), "tool_calls");
    assert!(!format!("{events:?}").contains("I should look"), "OpenAI hides the reasoning");
    let [.., usage, done] = events.as_slice() else { panic!() };
    assert_eq!(done.data, json!("[DONE]"));
    assert_eq!(usage.data["choices"], json!([]));
    assert_eq!(usage.data["usage"]["prompt_tokens_details"]["cached_tokens"], 200);
    assert_eq!(usage.data["usage"]["total_tokens"], 280);
}

#[test]
fn chat_has_no_usage_unless_it_was_requested() {
    let options = WireOptions { usage: UsageChunk::Omitted, ..WireOptions::default() };
    let events = stream(&reply(), WireDialect::OpenAiChat, &options);
    assert!(events.iter().all(|event| event.data.get("usage").is_none()));
}

#[test]
fn chat_flavours_show_reasoning_in_their_own_fields() {
    let of = |chat| {
        let options = WireOptions { chat, ..WireOptions::default() };
        stream(&reply(), WireDialect::OpenAiChat, &options)
    };
    let content = of(ChatFlavour::ReasoningContent);
    assert_eq!(joined(&content, "/choices/0/delta/reasoning_content"), "I should look.");
    let router = of(ChatFlavour::OpenRouter);
    let detail = "/choices/0/delta/reasoning_details/0";
    assert_eq!(joined(&router, "/choices/0/delta/reasoning"), "I should look.");
    assert_eq!(joined(&router, &format!("{detail}/text")), "I should look.");
    assert_eq!(joined(&router, &format!("{detail}/signature")), "sig-1");
    assert_eq!(joined(&router, &format!("{detail}/data")), "opaque");
    assert_eq!(joined(&router, "/choices/0/native_finish_reason"), "tool_calls");
}

#[test]
fn gemini_signs_the_part_after_the_thought_and_closes_with_usage() {
    let reply = reply().thinking("Now the call.", "sig-2").call("", "look", &json!({"n": 1}));
    let events = stream(&reply, WireDialect::Gemini, &WireOptions::default());
    assert!(events.iter().all(|event| event.name.is_none()));
    let parts: Vec<_> =
        events.iter().map(|event| &event.data["candidates"][0]["content"]["parts"][0]).collect();
    let thought: String = parts
        .iter()
        .filter(|part| part["thought"] == true)
        .map(|part| part["text"].as_str().unwrap())
        .collect();
    assert_eq!(thought, "I should look.Now the call.");
    let signed: Vec<_> =
        parts.iter().filter(|part| part.get("thoughtSignature").is_some()).collect();
    assert_eq!(signed[0], &&json!({"text": "", "thoughtSignature": "opaque"}));
    assert_eq!(signed[1]["thoughtSignature"], "sig-2");
    assert_eq!(signed[1]["functionCall"], json!({"name": "look", "args": {"n": 1}}));
    let last = &events.last().unwrap().data;
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["promptTokenCount"], 250);
    assert_eq!(last["usageMetadata"]["candidatesTokenCount"], 18);
    assert_eq!(last["usageMetadata"]["thoughtsTokenCount"], 12);
    assert_eq!(last["usageMetadata"]["cachedContentTokenCount"], 200);
}

#[test]
fn gemini_reports_arguments_that_are_no_json_as_a_malformed_call() {
    let reply = ScriptedReply::new().raw_call("c", "look", "{oops");
    let last = stream(&reply, WireDialect::Gemini, &WireOptions::default()).pop().unwrap();
    assert_eq!(last.data["candidates"][0]["finishReason"], "MALFORMED_FUNCTION_CALL");
}

#[test]
fn other_dialects_send_malformed_arguments_unchanged() {
    let reply = ScriptedReply::new().raw_call("c", "look", r#"{"path": "un"#);
    let pointers = [
        (WireDialect::AnthropicMessages, "/delta/partial_json"),
        (WireDialect::OpenAiResponses, "/delta"),
        (WireDialect::OpenAiChat, "/choices/0/delta/tool_calls/0/function/arguments"),
    ];
    for (dialect, pointer) in pointers {
        let events = stream(&reply, dialect, &WireOptions::default());
        assert_eq!(joined(&events, pointer), r#"{"path": "un"#, "{dialect:?}");
    }
}

#[test]
fn the_size_of_pieces_changes_the_number_of_events_and_nothing_else() {
    for dialect in WireDialect::ALL {
        let count = |pieces| {
            let options = WireOptions { pieces, ..WireOptions::default() };
            stream(&reply(), dialect, &options).len()
        };
        assert!(count(DeltaSize::chars(1)) > count(DeltaSize::Words), "{dialect:?}");
        assert!(count(DeltaSize::Words) > count(DeltaSize::Whole), "{dialect:?}");
    }
}

#[test]
fn a_refusal_has_each_dialects_form() {
    let reply = ScriptedReply::new().text("I will not.").with_stop(ScriptedStop::Refusal);
    let options = WireOptions::default();
    let responses = stream(&reply, WireDialect::OpenAiResponses, &options);
    assert!(responses.iter().any(|event| event.data["type"] == "response.refusal.done"));
    let chat = stream(&reply, WireDialect::OpenAiChat, &options);
    assert_eq!(joined(&chat, "/choices/0/delta/refusal"), "I will not.");
    let anthropic = stream(&reply, WireDialect::AnthropicMessages, &options);
    assert_eq!(joined(&anthropic, "/delta/stop_reason"), "refusal");
    let gemini = stream(&reply, WireDialect::Gemini, &options);
    assert_eq!(joined(&gemini, "/candidates/0/finishReason"), "PROHIBITED_CONTENT");
}

#[test]
fn gemini_blocks_a_prompt_without_any_candidate() {
    let blocked = ScriptedReply::new().with_stop(ScriptedStop::ContentFilter);
    let events = stream(&blocked, WireDialect::Gemini, &WireOptions::default());
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["promptFeedback"]["blockReason"], "SAFETY");
    assert_eq!(events[0].data.get("candidates"), None);
}

#[test]
fn chat_numbers_calls_and_reasoning_details() {
    let options = WireOptions { chat: ChatFlavour::OpenRouter, ..WireOptions::default() };
    let reply = reply().thinking("Again.", "sig-2").call("call_2", "list", &json!({}));
    let events = stream(&reply, WireDialect::OpenAiChat, &options);
    let numbers = |pointer: &str| {
        let mut numbers: Vec<_> =
            events.iter().filter_map(|event| event.data.pointer(pointer)?.as_u64()).collect();
        numbers.dedup();
        numbers
    };
    assert_eq!(numbers("/choices/0/delta/tool_calls/0/index"), [0, 1]);
    assert_eq!(numbers("/choices/0/delta/reasoning_details/0/index"), [0, 1, 2]);
}
