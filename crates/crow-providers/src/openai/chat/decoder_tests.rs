//! Streams of many servers. Each case names the server with that form; the forms are documented or taken from its
//! source.

use super::*;
use crate::{
    codec::Codec as _,
    openai::{ChatCodec, ChatVariant, testing},
};

fn decoder() -> Box<dyn Decoder> {
    ChatCodec::new(testing::route("m", testing::PLAIN), ChatVariant::COMPATIBLE).decoder()
}

/// Returns the chunks as events, with `[DONE]` at the end.
fn stream(chunks: &[&str]) -> String {
    let events = chunks.iter().chain(&["[DONE]"]).map(|chunk| format!("data: {chunk}\n\n"));
    events.collect::<Vec<_>>().concat()
}

/// Returns deltas of the first choice as events, followed by the reason for the end.
fn deltas(deltas: &[&str], finish: &str) -> String {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|delta| {
            format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
        })
        .collect();
    let end = format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}"#);
    chunks.push(end);
    stream(&chunks.iter().map(String::as_str).collect::<Vec<_>>())
}

fn check(name: &str, stream: &str, expected: &[&str]) {
    assert_eq!(testing::transcript(decoder(), stream), expected.join("\n"), "{name}");
}

#[test]
fn text_and_usage_are_read_and_unknown_fields_are_ignored() {
    check(
        "OpenAI",
        &stream(&[
            r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o","service_tier":"default","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}"#,
            r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"usage":null}"#,
            r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}],"usage":null}"#,
            r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
            r#"{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":8},"completion_tokens_details":{"reasoning_tokens":12}}}"#,
        ]),
        &[
            r#"~ "Hel""#,
            r#"~ "lo""#,
            r#"text "Hello""#,
            "= EndTurn in 100 out 20 thought 12 read 64 written 8",
        ],
    );
    check(
        "llama.cpp",
        &stream(&[
            r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],"created":1,"id":"chatcmpl-x","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#,
            r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"chatcmpl-x"}"#,
            r#"{"choices":[],"usage":{"completion_tokens":1,"prompt_tokens":9,"total_tokens":10},"timings":{"prompt_n":9,"prompt_ms":1.5}}"#,
        ]),
        &[r#"~ "Hi""#, r#"text "Hi""#, "= EndTurn in 9 out 1"],
    );
    check(
        "DeepSeek",
        &stream(&[
            r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}}"#,
        ]),
        &[r#"~ "Hi""#, r#"text "Hi""#, "= EndTurn in 10 out 2 read 4"],
    );
    check(
        "Mistral",
        &deltas(&[r#"{"content":[{"type":"text","text":"Hi"},{"type":"reference"}]}"#], "stop"),
        &[r#"~ "Hi""#, r#"text "Hi""#, "= EndTurn"],
    );
}

#[test]
fn reasoning_is_read_from_each_field_and_kept_unchanged() {
    check(
        "DeepSeek, llama.cpp",
        &deltas(
            &[
                r#"{"role":"assistant","content":null,"reasoning_content":""}"#,
                r#"{"content":null,"reasoning_content":"Let "}"#,
                r#"{"content":null,"reasoning_content":"me."}"#,
                r#"{"content":"Yes","reasoning_content":null}"#,
            ],
            "stop",
        ),
        &[
            r#"~ thinking "Let ""#,
            r#"~ thinking "me.""#,
            r#"~ "Yes""#,
            r#"thinking "Let me." | {"reasoning_content":"Let me."}"#,
            r#"text "Yes""#,
            "= EndTurn",
        ],
    );
    check(
        "vLLM",
        &deltas(
            &[r#"{"reasoning":"Hm","reasoning_content":"Hm"}"#, r#"{"reasoning":"m"}"#],
            "stop",
        ),
        &[
            r#"~ thinking "Hm""#,
            r#"~ thinking "m""#,
            r#"thinking "Hmm" | {"reasoning_content":"Hmm"}"#,
            "= EndTurn",
        ],
    );
    check(
        "OpenRouter",
        &format!(
            ": OPENROUTER PROCESSING\n\n{}",
            deltas(
                &[
                    r#"{"content":"","reasoning":"Le","reasoning_details":[{"type":"reasoning.text","text":"Le","format":"f","index":0}]}"#,
                    r#"{"content":"","reasoning":"t","reasoning_details":[{"type":"reasoning.text","text":"t","format":"f","index":0}]}"#,
                    r#"{"content":"","reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"sig","format":"f","index":0}]}"#,
                    r#"{"content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"xyz","index":1}]}"#,
                    r#"{"content":"Yes"}"#,
                ],
                "stop"
            )
        ),
        &[
            r#"~ thinking "Le""#,
            r#"~ thinking "t""#,
            r#"~ "Yes""#,
            r#"thinking "Let" | {"reasoning_details":[{"type":"reasoning.text","text":"Let","format":"f","index":0,"signature":"sig"},{"type":"reasoning.encrypted","data":"xyz","index":1}]}"#,
            r#"text "Yes""#,
            "= EndTurn",
        ],
    );
    check(
        "OpenRouter, details alone",
        &deltas(
            &[
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"A","index":0},{"type":"reasoning.summary","summary":"B","index":1}]}"#,
                r#"{"content":"x"}"#,
                r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"d","id":"call_1"}]}"#,
            ],
            "stop",
        ),
        &[
            r#"~ thinking "AB""#,
            r#"~ "x""#,
            r#"thinking "AB" | {"reasoning_details":[{"type":"reasoning.summary","summary":"A","index":0},{"type":"reasoning.summary","summary":"B","index":1}]}"#,
            r#"text "x""#,
            r#"opaque | {"reasoning_details":[{"type":"reasoning.encrypted","data":"d","id":"call_1"}]}"#,
            "= EndTurn",
        ],
    );
}

#[test]
fn calls_are_put_together_from_their_pieces() {
    check(
        "OpenAI",
        &deltas(
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"list","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"th\":1}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#,
            ],
            "tool_calls",
        ),
        &[
            "~ call read",
            "~ call list",
            r#"call call_a read {"path":1}"#,
            "call call_b list {}",
            "= ToolUse",
        ],
    );
    check(
        "Ollama: whole calls, each with index 0, the reason is stop",
        &deltas(
            &[
                r#"{"content":"","tool_calls":[{"id":"call_a","index":0,"type":"function","function":{"name":"read","arguments":"{\"path\":1}"}}]}"#,
                r#"{"content":"","tool_calls":[{"id":"call_b","index":0,"type":"function","function":{"name":"read","arguments":"{\"path\":2}"}}]}"#,
            ],
            "stop",
        ),
        &[
            "~ call read",
            "~ call read",
            r#"call call_a read {"path":1}"#,
            r#"call call_b read {"path":2}"#,
            "= ToolUse",
        ],
    );
    check(
        "older Ollama: no id, no index, arguments as an object",
        &deltas(
            &[
                r#"{"tool_calls":[{"function":{"name":"read","arguments":{"path":1}}},{"function":{"name":"read","arguments":{"path":2}}}]}"#,
            ],
            "stop",
        ),
        &[
            "~ call read",
            "~ call read",
            r#"call OURS read {"path":1}"#,
            r#"call OURS read {"path":2}"#,
            "= ToolUse",
        ],
    );
}

#[test]
fn irregular_pieces_are_assigned_to_their_calls() {
    check(
        "gateways that say id and name with every piece",
        &deltas(
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"read","arguments":"{\"a\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"read","arguments":":1}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":""}}]}"#,
            ],
            "tool_calls",
        ),
        &["~ call read", r#"call call_a read {"a":1}"#, "= ToolUse"],
    );
    check(
        "one id for two calls",
        &deltas(
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"read","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_a","function":{"name":"list","arguments":"{}"}}]}"#,
            ],
            "tool_calls",
        ),
        &["~ call read", "~ call list", "call call_a read {}", "call OURS list {}", "= ToolUse"],
    );
    check(
        "no index, pieces without id",
        &deltas(
            &[
                r#"{"tool_calls":[{"id":"call_a","function":{"name":"read","arguments":"{\"a"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"\":1}"}}]}"#,
                r#"{"tool_calls":[{"id":"call_b","function":{"name":"list"}}]}"#,
            ],
            "tool_calls",
        ),
        &[
            "~ call read",
            "~ call list",
            r#"call call_a read {"a":1}"#,
            "call call_b list {}",
            "= ToolUse",
        ],
    );
    check(
        "text, reasoning and call keep their order",
        &deltas(
            &[
                r#"{"content":"I look."}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\": tru"}}]}"#,
            ],
            "length",
        ),
        &[
            r#"~ "I look.""#,
            "~ call read",
            r#"text "I look.""#,
            r#"call a read malformed "{\"x\": tru""#,
            "= MaxTokens",
        ],
    );
}

#[test]
fn an_id_of_an_earlier_reply_is_not_used_again() {
    let mut codec = ChatCodec::new(testing::route("m", testing::PLAIN), ChatVariant::COMPATIBLE);
    let arguments = crow_core::message::CallArguments::parse("{}");
    let call = ReplyBlock::without_native_item(testing::call("call_0", arguments));
    codec.encode_message(&testing::assistant("1", testing::origin("m"), vec![call]));
    let stream = deltas(
        &[
            r#"{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"read","arguments":"{}"}}]}"#,
        ],
        "tool_calls",
    );
    let transcript = testing::transcript(codec.decoder(), &stream);
    assert_eq!(transcript, "~ call read\ncall OURS read {}\n= ToolUse");
}

#[test]
fn every_way_to_end_has_its_reason() {
    for (delta, finish, expected) in [
        (r#"{"content":"x"}"#, "stop", "EndTurn"),
        (r#"{"content":"x"}"#, "tool_calls", "EndTurn"),
        (r#"{"content":"x"}"#, "eos", "EndTurn"),
        (r#"{"content":"x"}"#, "length", "MaxTokens"),
        (r#"{"content":"x"}"#, "content_filter", "Refusal"),
        (r#"{"refusal":"x"}"#, "stop", "Refusal"),
    ] {
        let transcript = testing::transcript(decoder(), &deltas(&[delta], finish));
        assert_eq!(transcript, format!("~ \"x\"\ntext \"x\"\n= {expected}"), "{delta} {finish}");
    }
}

#[test]
fn a_stream_without_its_end_mark_is_truncated() {
    let whole = deltas(&[r#"{"content":"x"}"#], "stop");
    let without_done = whole.strip_suffix("data: [DONE]\n\n").unwrap();
    assert!(testing::read(decoder(), without_done).is_ok(), "finish_reason is an end mark");
    let only_done = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    assert!(testing::read(decoder(), only_done).is_ok(), "so is [DONE]");
    for stream in ["", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"] {
        let error = testing::read(decoder(), stream).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Truncated, "{stream}");
    }
}

#[test]
fn the_reply_is_complete_only_when_nothing_can_follow() {
    let mut decoder = decoder();
    let mut out = Vec::new();
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    decoder.on_event("", end, &mut out).unwrap();
    assert!(!decoder.is_complete(), "usage may follow");
    decoder.on_event("", "[DONE]", &mut out).unwrap();
    assert!(decoder.is_complete());
}

#[test]
fn an_error_inside_the_stream_is_an_error() {
    use ProviderErrorKind::{Decode, Overloaded, RateLimited, Server};
    for (origin, data, kind) in [
        (
            "OpenAI",
            r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
            Server,
        ),
        (
            "OpenRouter",
            r#"{"id":"gen-1","error":{"code":429,"message":"Rate limited"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            RateLimited,
        ),
        (
            "OpenRouter",
            r#"{"choices":[{"index":0,"error":{"code":502,"message":"bad upstream"},"delta":{},"finish_reason":"error"}]}"#,
            Server,
        ),
        (
            "vLLM",
            r#"{"object":"error","message":"boom","type":"InternalServerError","code":500}"#,
            Server,
        ),
        (
            "DeepSeek",
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            Overloaded,
        ),
        ("any", r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#, Server),
        ("any", "{\"choices\":", Decode),
    ] {
        let error = testing::read(decoder(), &stream(&[data])).unwrap_err();
        assert_eq!(error.kind, kind, "{origin}: {data}: {error}");
        assert!(!error.message.is_empty(), "{origin}");
    }
}

#[test]
fn further_choices_are_ignored() {
    check(
        "n > 1",
        &stream(&[
            r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{},"finish_reason":"length"},{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ]),
        &[r#"~ "yes""#, r#"text "yes""#, "= EndTurn"],
    );
}

#[test]
fn only_a_lone_piece_of_text_is_read() {
    let text = |text: &'static str| Some(QuickText::Text(text.into()));
    for (delta, around, expected) in [
        (r#"{"content":"Hi"}"#, "", text("Hi")),
        (r#"{"content":"\u00e4\n"}"#, r#","id":"x","usage":null,"timings":{}"#, text("ä\n")),
        (r#"{"role":"assistant","content":"Hi","refusal":null,"novel":[1]}"#, "", text("Hi")),
        (
            r#"{"content":null,"reasoning_content":"Hm"}"#,
            "",
            Some(QuickText::Reasoning("Hm".into())),
        ),
        (r#"{"content":"a","reasoning_content":"b"}"#, "", None),
        (r#"{"content":""}"#, "", None),
        (r#"{"content":["x"]}"#, "", None),
        (r#"{"content":"Hi","tool_calls":[]}"#, "", None),
        (r#"{"content":"Hi","reasoning":"x"}"#, "", None),
        (r#"{"content":"Hi"}"#, r#","usage":{}"#, None),
        (r#"{"content":"Hi"}"#, r#","error":{}"#, None),
    ] {
        let data = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]{around}}}"#);
        assert_eq!(read_quick(&data), expected, "{data}");
    }
    for data in [
        "[DONE]",
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"Hi"}}]}"#,
        r#"{"choices":[{"delta":{"content":"Hi"}},{"delta":{"content":"Hi"}}]}"#,
        r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"content":"Hi"},"error":{}}]}"#,
    ] {
        assert_eq!(read_quick(data), None, "{data}");
    }
}
