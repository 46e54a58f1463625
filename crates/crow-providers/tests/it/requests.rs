//! Requests made of any history: each is legal in its dialect, and a prefix of the next.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use crow_core::message::{Message, Origin, ToolCall};
use crow_testkit::{ModelServer, RecordedRequest, Script, ScriptedReply};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use crate::{
    history::{Natives, histories, request_points},
    support::{DIALECTS, Talk},
};

#[test]
fn any_history_makes_legal_anthropic_requests() {
    check_histories(0, anthropic, check_anthropic);
}

#[test]
fn any_history_makes_legal_gemini_requests() {
    check_histories(1, gemini, check_gemini);
}

/// Sends each generated history request by request. The server checks roles, pairing, cache marks and the frozen
/// prefix; `check` covers what only the real service would refuse.
pub(crate) fn check_histories(
    dialect: usize,
    natives: fn(Origin) -> Natives,
    check: fn(&RecordedRequest),
) {
    let dialect = DIALECTS[dialect];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(ModelServer::start(Script::repeating(
        ScriptedReply::new().text("noted by the server"),
    )));
    let origin = Origin {
        dialect: dialect.0.name().to_owned(),
        provider: "tested".to_owned(),
        base_url: server.base_url(dialect.1),
        model: "test-model".to_owned(),
    };
    let case = Cell::new(0);
    let send = |messages: Vec<Arc<Message>>| {
        case.set(case.get() + 1);
        let (requests_before, violations_before) =
            (server.requests().len(), server.violations().len());
        let mut talk = Talk::with(&server, dialect);
        talk.system = format!("Conversation {}", case.get());
        runtime.block_on(async {
            for length in request_points(&messages) {
                talk.messages = messages[..length].to_vec();
                prop_assert!(talk.ask().await.reply.is_ok());
            }
            Ok(())
        })?;
        let violations = server.violations().split_off(violations_before);
        prop_assert!(violations.is_empty(), "{violations:#?}");
        server.requests()[requests_before..].iter().for_each(|request| check(request));
        Ok(())
    };
    let mut runner =
        TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&histories(natives(origin)), send);
    // Shrinking causes further violations; after this call the server does not panic for them when it is dropped.
    drop(server.violations());
    outcome.unwrap();
}

fn anthropic(origin: Origin) -> Natives {
    Natives {
        origin,
        thinking: |mark| json!({"type": "thinking", "signature": format!("signed-{mark}")}),
        opaque: |mark| json!({"type": "redacted_thinking", "data": format!("opaque-{mark}")}),
        call: |_, _| None,
    }
}

fn gemini(origin: Origin) -> Natives {
    Natives {
        origin,
        thinking: |mark| json!({"thought": true, "thoughtSignature": format!("signed-{mark}")}),
        opaque: |mark| json!({"text": "", "thoughtSignature": format!("opaque-{mark}")}),
        call: |mark, call: &ToolCall| {
            let function = json!({"name": call.name, "id": call.id.as_str()});
            (mark % 2 == 0 && !call.name.is_empty()).then(
                || json!({"functionCall": function, "thoughtSignature": format!("signed-{mark}")}),
            )
        },
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_plain(text: &str, most: usize, further: &str) -> bool {
    (1..=most).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || further.contains(c))
}

/// Checks that ids and names have the alphabet of the service, that reasoning has no cache mark and is never last, and
/// the number of cache marks.
fn check_anthropic(request: &RecordedRequest) {
    let messages = list(&request.body, "messages");
    let mut ids = BTreeSet::new();
    for message in messages {
        let blocks = list(message, "content");
        for block in blocks {
            let kind = block["type"].as_str().unwrap();
            match kind {
                "tool_use" => {
                    let id = block["id"].as_str().unwrap();
                    assert!(is_plain(id, 128, "_-"), "{id}");
                    assert!(ids.insert(id), "{id} comes twice");
                    assert!(is_plain(block["name"].as_str().unwrap(), 128, "_-"), "{block}");
                    assert!(block["input"].is_object());
                }
                "tool_result" => {
                    let content = list(block, "content");
                    assert!(!content.is_empty());
                    let is_error = block["is_error"] == true;
                    assert!(!is_error || content.iter().all(|part| part["type"] == "text"));
                }
                "thinking" => {
                    assert!(block["thinking"].is_string() && block["signature"].is_string());
                    assert!(block.get("cache_control").is_none());
                }
                _ => {}
            }
        }
        let last = blocks.last().unwrap()["type"].as_str().unwrap();
        assert!(!last.contains("thinking"), "{message}");
    }
    assert!(messages.last().unwrap()["role"] == "user");
    let marks = String::from_utf8_lossy(&request.raw_body).matches("\"cache_control\"").count();
    assert_eq!(marks, if messages.len() > 1 { 4 } else { 3 }, "{}", request.body);
}

/// Checks that names have the alphabet of the service, and that every part has exactly one kind of content.
fn check_gemini(request: &RecordedRequest) {
    for content in list(&request.body, "contents") {
        for part in list(content, "parts") {
            let kinds = ["text", "functionCall", "functionResponse", "inlineData"];
            let count = kinds.iter().filter(|kind| part.get(**kind).is_some()).count();
            assert_eq!(count, 1, "{part}");
            let is_ours = part.get("thoughtSignature").is_some();
            for kind in ["functionCall", "functionResponse"] {
                let Some(name) = part[kind]["name"].as_str() else { continue };
                // The service accepts names that it wrote itself.
                let is_known = is_ours || part[kind].get("id").is_some();
                assert!(is_known || is_plain(name, 64, "_-."), "{name}");
            }
        }
    }
}
