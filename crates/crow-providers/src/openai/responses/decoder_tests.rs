//! Streams of `OpenAI` as documented, of llama.cpp as its server sends them, and of gateways.

use super::*;
use crate::{
    codec::Codec as _,
    openai::{ResponsesCodec, testing},
};

fn decoder() -> Box<dyn Decoder> {
    ResponsesCodec::new(testing::route("m", testing::THINKS)).decoder()
}

fn stream(events: &[&str]) -> String {
    let kind = |event: &str| {
        let value: Value = serde_json::from_str(event).unwrap();
        value["type"].as_str().unwrap().to_owned()
    };
    let events = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", kind(event)));
    events.collect::<Vec<_>>().concat()
}

fn check(name: &str, events: &[&str], expected: &[&str]) {
    assert_eq!(testing::transcript(decoder(), &stream(events)), expected.join("\n"), "{name}");
}

const COMPLETED: &str =
    r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}"#;

#[test]
fn a_reply_with_reasoning_text_and_calls_is_read_in_order() {
    check(
        "OpenAI",
        &[
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","error":null,"usage":null,"output":[]}}"#,
            r#"{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress"}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"provisional"}}"#,
            r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"One."}"#,
            r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"One."}"#,
            r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":1,"delta":"Two."}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"secret"}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#,
            r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"I ","logprobs":[],"obfuscation":"x"}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"look."}"#,
            r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"I look."}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"I look."}]}}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"read"}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\":1}"}"#,
            r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\":1}"}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","arguments":"{\"path\":1}","call_id":"call_1","name":"read"}}"#,
            r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":12}}}}"#,
        ],
        &[
            r#"~ thinking "One.""#,
            r#"~ thinking "\n\n""#,
            r#"~ thinking "Two.""#,
            r#"~ "I ""#,
            r#"~ "look.""#,
            "~ call read",
            r#"thinking "One.\n\nTwo." | {"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"secret"}"#,
            r#"text "I look." | {"id":"msg_1","type":"message","content":[{"type":"output_text","text":"I look."}]}"#,
            r#"call call_1 read {"path":1} | {"id":"fc_1","type":"function_call","arguments":"{\"path\":1}","call_id":"call_1","name":"read"}"#,
            "= ToolUse in 100 out 20 thought 12 read 64",
        ],
    );
}

#[test]
fn numbers_and_positions_that_llama_cpp_omits_are_not_needed() {
    check(
        "llama.cpp",
        &[
            r#"{"type":"response.created","response":{"id":"resp_x","object":"response","status":"in_progress"}}"#,
            r#"{"type":"response.output_item.added","item":{"id":"rs_x","summary":[],"type":"reasoning","content":[],"encrypted_content":"","status":"in_progress"}}"#,
            r#"{"type":"response.reasoning_text.delta","delta":"Hm","item_id":"rs_x"}"#,
            r#"{"type":"response.output_item.done","item":{"id":"rs_x","summary":[],"type":"reasoning","content":[{"text":"Hm","type":"reasoning_text"}],"encrypted_content":""}}"#,
            r#"{"type":"response.output_item.added","item":{"content":[],"id":"msg_x","role":"assistant","status":"in_progress","type":"message"}}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_x","delta":"Hi"}"#,
            r#"{"type":"response.output_item.done","item":{"type":"message","status":"completed","id":"msg_x","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hi"}],"role":"assistant"}}"#,
            r#"{"type":"response.output_item.added","item":{"arguments":"","call_id":"fc_a","name":"read","type":"function_call","status":"in_progress"}}"#,
            r#"{"type":"response.function_call_arguments.delta","delta":"{}","item_id":"fc_a"}"#,
            r#"{"type":"response.output_item.done","item":{"type":"function_call","status":"completed","arguments":"{}","call_id":"fc_a","name":"read"}}"#,
            r#"{"type":"response.completed","response":{"id":"resp_x","status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}}"#,
        ],
        &[
            r#"~ thinking "Hm""#,
            r#"~ "Hi""#,
            "~ call read",
            r#"thinking "Hm" | {"id":"rs_x","summary":[],"type":"reasoning","content":[{"text":"Hm","type":"reasoning_text"}],"encrypted_content":""}"#,
            r#"text "Hi" | {"type":"message","status":"completed","id":"msg_x","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hi"}],"role":"assistant"}"#,
            r#"call fc_a read {} | {"type":"function_call","status":"completed","arguments":"{}","call_id":"fc_a","name":"read"}"#,
            "= ToolUse in 9 out 3",
        ],
    );
}

#[test]
fn items_are_found_by_position_when_ids_change_with_every_event() {
    check(
        "a gateway",
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"a1","type":"message","content":[]}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"b1","type":"message","content":[]}}"#,
            r#"{"type":"response.output_text.delta","item_id":"a2","output_index":0,"delta":"one"}"#,
            r#"{"type":"response.output_text.delta","item_id":"b2","output_index":1,"delta":"two"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"b3","type":"message","content":[{"type":"output_text","text":"two"}]}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"a3","type":"message","content":[{"type":"output_text","text":"one"}]}}"#,
            COMPLETED,
        ],
        &[
            r#"~ "one""#,
            r#"~ "two""#,
            r#"text "one" | {"id":"a3","type":"message","content":[{"type":"output_text","text":"one"}]}"#,
            r#"text "two" | {"id":"b3","type":"message","content":[{"type":"output_text","text":"two"}]}"#,
            "= EndTurn",
        ],
    );
}

#[test]
fn missing_events_are_filled_in_from_the_final_response() {
    check(
        "a server that streams nothing",
        &[
            r#"{"type":"response.completed","response":{"id":"r","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"c","name":"read","arguments":"{}"}]}}"#,
        ],
        &[
            r#"~ "Hi""#,
            "~ call read",
            r#"text "Hi" | {"type":"message","content":[{"type":"output_text","text":"Hi"}]}"#,
            r#"call c read {} | {"type":"function_call","call_id":"c","name":"read","arguments":"{}"}"#,
            "= ToolUse",
        ],
    );
    check(
        "an item without its end",
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","call_id":"c","name":"read","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"{\"path\": 1"}"#,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
        ],
        &["~ call read", r#"call c read malformed "{\"path\": 1""#, "= MaxTokens"],
    );
    check(
        "text without any item",
        &[r#"{"type":"response.output_text.delta","delta":"Hi"}"#, COMPLETED],
        &[r#"~ "Hi""#, r#"text "Hi""#, "= EndTurn"],
    );
}

#[test]
fn a_call_id_that_is_missing_or_taken_is_replaced_in_the_item_too() {
    let events = [
        r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"read","arguments":"{}"}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"list","arguments":"{}"}}"#,
        COMPLETED,
    ];
    let (_, reply) = testing::read(decoder(), &stream(&events)).unwrap();
    let ids: Vec<&str> = reply.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids[0], "c");
    assert_ne!(ids[1], "c");
    let natives: Vec<&Value> = reply.blocks.iter().filter_map(ReplyBlock::native_item).collect();
    assert_eq!(natives[1]["call_id"], ids[1]);
}

#[test]
fn items_that_only_the_provider_can_read_are_kept() {
    check(
        "OpenAI without a summary, and a tool of its own",
        &[
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs","type":"reasoning","summary":[],"encrypted_content":"s"}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"ws","type":"web_search_call","status":"completed"}}"#,
            COMPLETED,
        ],
        &[
            r#"opaque | {"id":"rs","type":"reasoning","summary":[],"encrypted_content":"s"}"#,
            r#"opaque | {"id":"ws","type":"web_search_call","status":"completed"}"#,
            "= EndTurn",
        ],
    );
}

#[test]
fn every_way_to_end_has_its_reason() {
    let text = r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"x"}]}}"#;
    let refusal = r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"refusal","refusal":"x"}]}}"#;
    let delta = r#"{"type":"response.refusal.delta","delta":"x"}"#;
    let incomplete = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    let without_status = r#"{"type":"response.incomplete","response":{}}"#.to_owned();
    for (event, end, expected) in [
        (text, COMPLETED.to_owned(), StopReason::EndTurn),
        (refusal, COMPLETED.to_owned(), StopReason::Refusal),
        (delta, COMPLETED.to_owned(), StopReason::Refusal),
        (text, incomplete("max_output_tokens"), StopReason::MaxTokens),
        (text, incomplete("content_filter"), StopReason::Refusal),
        (text, without_status, StopReason::MaxTokens),
    ] {
        let (events, reply) = testing::read(decoder(), &stream(&[event, &end])).unwrap();
        assert_eq!(reply.stop, expected, "{end}");
        assert_eq!(events, [ModelEvent::TextDelta("x".to_owned())]);
    }
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    use ProviderErrorKind::{ContextLength, Decode, RateLimited, Server};
    for (data, kind) in [
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}"#,
            Server,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"}}}"#,
            RateLimited,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"too long"}}}"#,
            ContextLength,
        ),
        (r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#, Server),
        (
            r#"{"type":"error","code":"server_error","message":"boom","param":null,"sequence_number":3}"#,
            Server,
        ),
        (r#"{"type":"error","error":{"type":"server_error","message":"boom"}}"#, Server),
        (r#"{"error":{"type":"server_error","message":"boom","code":500}}"#, Server),
        (r#"{"type":"#, Decode),
    ] {
        let error = testing::read(decoder(), &format!("data: {data}\n\n")).unwrap_err();
        assert_eq!(error.kind, kind, "{data}: {error}");
        assert!(!error.message.is_empty(), "{data}");
    }
}

#[test]
fn a_stream_without_its_end_mark_is_truncated() {
    for events in [
        &[][..],
        &[r#"{"type":"response.output_text.delta","delta":"Hi"}"#],
        &[r#"{"type":"response.in_progress","response":{"status":"completed"}}"#],
    ] {
        let error = testing::read(decoder(), &stream(events)).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Truncated, "{events:?}");
    }
}

#[test]
fn unknown_events_and_done_are_skipped() {
    let stream = "data: {\"type\":\"response.novel\",\"x\":1}\n\n\
        event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n\
        event: response.completed\ndata: {\"response\":{}}\n\ndata: [DONE]\n\n";
    assert_eq!(testing::transcript(decoder(), stream), "= EndTurn");
}
