//! Peculiarities of Responses and Chat Completions: reasoning that is sent back, and the variants of Chat.

use std::{collections::BTreeSet, path::Path};

use crow_core::{
    message::{CallArguments, Origin, ReplyContent, ToolCall},
    model::{ModelReply, Models as _, ProviderErrorKind, StopReason, Thinking, ToolChoice},
    usage::TokenUsage,
};
use crow_providers::{
    ChatVariant, Dialect, HttpClient, ProviderConfig, ProviderModels, RetryPolicy, Timeouts,
};
use crow_testkit::{
    ChatFlavour, ModelServer, RecordedRequest, ReplyUsage, ScriptStep, ScriptedReply, ScriptedStop,
    ServerOptions,
};
use serde_json::{Value, json};

use crate::{
    history::Natives,
    requests::check_histories,
    support::{DIALECTS, Talk},
};

const RESPONSES: usize = 2;
const CHAT: usize = 3;

/// Variants of Chat, each with the flavour of the server for which it is made.
const CHAT_VARIANTS: [(ChatVariant, ChatFlavour); 4] = [
    (ChatVariant::OPENAI, ChatFlavour::OpenAi),
    (ChatVariant::OPENROUTER, ChatFlavour::OpenRouter),
    (ChatVariant::COMPATIBLE, ChatFlavour::ReasoningContent),
    (ChatVariant::COMPATIBLE, ChatFlavour::OpenAi),
];

#[test]
fn any_history_makes_legal_responses_requests() {
    check_histories(RESPONSES, responses, check_responses);
}

#[test]
fn any_history_makes_legal_chat_requests() {
    check_histories(CHAT, chat, check_chat);
}

fn responses(origin: Origin) -> Natives {
    Natives {
        origin,
        thinking: |mark| reasoning("signed", mark),
        opaque: |mark| reasoning("opaque", mark),
        call: |mark, call: &ToolCall| {
            let arguments = match &call.arguments {
                CallArguments::Json(value) => value.to_string(),
                CallArguments::Malformed(text) => text.clone(),
            };
            let item = json!({
                "id": format!("fc_{mark}"), "type": "function_call", "status": "completed",
                "call_id": call.id.as_str(), "name": call.name, "arguments": arguments,
            });
            (mark % 2 == 0 && !call.name.is_empty()).then_some(item)
        },
    }
}

fn reasoning(kind: &str, mark: u32) -> Value {
    json!({
        "id": format!("rs_{mark}"), "type": "reasoning", "summary": [],
        "encrypted_content": format!("{kind}-{mark}"),
    })
}

fn chat(origin: Origin) -> Natives {
    Natives {
        origin,
        thinking: |mark| json!({ "reasoning_content": format!("thought-{mark}") }),
        opaque: |mark| json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": mark.to_string() }] }),
        call: |_, _| None,
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_object(text: &Value) -> bool {
    let text = text.as_str().unwrap_or_default();
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

fn is_plain(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(is_sign)
}

/// Checks that ids are unique and not too long, that arguments are objects, that names have the alphabet of the service
/// unless it gave them, and that reasoning has its content.
fn check_responses(request: &RecordedRequest) {
    let mut ids = BTreeSet::new();
    for item in list(&request.body, "input") {
        assert_ne!(item["content"], json!([]), "{item}");
        assert_ne!(item["content"], json!(""), "{item}");
        match item["type"].as_str().unwrap() {
            "function_call" => {
                let id = item["call_id"].as_str().unwrap();
                assert!((1..=64).contains(&id.chars().count()), "{id}");
                assert!(ids.insert(id), "{id} comes twice");
                assert!(is_object(&item["arguments"]), "{item}");
                let is_native = item.get("id").is_some();
                assert!(is_native || is_plain(item["name"].as_str().unwrap()), "{item}");
            }
            "reasoning" => {
                assert!(!item["encrypted_content"].as_str().unwrap().is_empty(), "{item}");
            }
            _ => {}
        }
    }
}

/// Checks the same for Chat, where the service has no ids of its own.
fn check_chat(request: &RecordedRequest) {
    let mut ids = BTreeSet::new();
    for message in list(&request.body, "messages") {
        assert_ne!(message["content"], json!(""), "{message}");
        for call in list(message, "tool_calls") {
            let id = call["id"].as_str().unwrap();
            assert!((1..=64).contains(&id.chars().count()), "{id}");
            assert!(ids.insert(id), "{id} comes twice");
            assert!(is_object(&call["function"]["arguments"]), "{call}");
            assert!(is_plain(call["function"]["name"].as_str().unwrap()), "{call}");
        }
    }
}

async fn server(script: Vec<ScriptedReply>, chat: ChatFlavour) -> ModelServer {
    let script = script.into_iter().map(ScriptStep::from).collect::<Vec<_>>();
    ModelServer::start_with(script, ServerOptions { chat, ..ServerOptions::default() }).await
}

fn talk(server: &ModelServer, variant: ChatVariant) -> Talk {
    let base_url = server.base_url(crow_testkit::WireDialect::OpenAiChat);
    let dialect = Dialect::OpenAiChat(variant);
    Talk::at(&base_url, dialect, RetryPolicy::never(), Timeouts::default())
}

fn thoughts(reply: &ModelReply) -> String {
    let thoughts = reply.blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Thinking { text } => Some(text.as_str()),
        ReplyContent::Text { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    thoughts.collect()
}

#[tokio::test]
async fn every_chat_variant_gets_its_reasoning_back_over_many_steps() {
    for (variant, flavour) in CHAT_VARIANTS {
        let call = |n: usize| {
            ScriptedReply::new()
                .thinking(format!("First {n}."), format!("signature-a-{n}"))
                .text("Now.")
                .thinking(format!("Second {n}."), format!("signature-b-{n}"))
                .call(format!("call_{n}"), "read_file", &json!({"path": n.to_string()}))
        };
        let script = vec![
            call(1),
            call(2).redacted("only-for-the-vendor").call("call_2b", "write_file", &json!({})),
            ScriptedReply::new().thinking("Last.", "signature-c").text("Done."),
            call(3),
            ScriptedReply::new().text("Bye."),
        ];
        let server = server(script, flavour).await;
        let mut talk = talk(&server, variant);
        let first = talk.step().await;
        let expected = if flavour == ChatFlavour::OpenAi { "" } else { "First 1.Second 1." };
        assert_eq!(thoughts(&first), expected, "{flavour:?}");
        for _ in 0..4 {
            talk.step().await;
        }
        let requests = server.finish().await.unwrap();
        let last = requests.last().unwrap();
        let messages = list(&last.body, "messages");
        let with_reasoning = messages.iter().filter(|message| {
            message.get("reasoning_content").or(message.get("reasoning_details")).is_some()
        });
        let expected = if flavour == ChatFlavour::OpenAi { 0 } else { 4 };
        assert_eq!(with_reasoning.count(), expected, "{flavour:?}");
    }
}

#[tokio::test]
async fn usage_includes_cached_and_reasoning_tokens() {
    let usage =
        ReplyUsage { input: 10, output: 50, reasoning: 30, cache_read: 100, cache_write: 0 };
    let expected = TokenUsage {
        input_tokens: 110,
        output_tokens: 50,
        reasoning_tokens: Some(30),
        cache_read_tokens: 100,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
    };
    for (variant, flavour) in CHAT_VARIANTS {
        let server = server(vec![ScriptedReply::new().text("Hi").with_usage(usage)], flavour).await;
        let reply = talk(&server, variant).step().await;
        assert_eq!(reply.usage, expected, "{flavour:?}");
    }
    let server = ModelServer::start([ScriptedReply::new().text("Hi").with_usage(usage)]).await;
    let reply = Talk::with(&server, DIALECTS[RESPONSES]).step().await;
    assert_eq!(reply.usage, expected);
}

#[tokio::test]
async fn openai_tools_stay_in_the_request_when_they_may_not_be_called() {
    for dialect in [DIALECTS[RESPONSES], DIALECTS[CHAT]] {
        let server = ModelServer::start([ScriptedReply::new().text("Hi")]).await;
        let mut talk = Talk::with(&server, dialect);
        talk.tool_choice = ToolChoice::None;
        talk.step().await;
        let requests = server.finish().await.unwrap();
        assert_eq!(requests[0].at("/tool_choice"), "none");
        assert_eq!(list(&requests[0].body, "tools").len(), 2);
    }
}

#[tokio::test]
async fn a_failed_response_is_retried() {
    for dialect in [DIALECTS[RESPONSES], DIALECTS[CHAT]] {
        let failing = ScriptedReply::new().text("Hal").with_stop(ScriptedStop::Failed);
        let server = ModelServer::start([failing, ScriptedReply::new().text("Hello")]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.retries()[0].error.kind, ProviderErrorKind::Server);
        assert_eq!(outcome.streamed_text(), "Hello");
        assert_eq!(outcome.reply.unwrap().stop, StopReason::EndTurn);
        server.assert_clean();
    }
}

#[tokio::test]
async fn the_session_id_is_the_prompt_cache_key() {
    let server = ModelServer::start([ScriptedReply::new(), ScriptedReply::new()]).await;
    let mut chat = talk(&server, ChatVariant::OPENAI);
    chat.config.thinking = Some(Thinking::Low);
    chat.step().await;
    Talk::with(&server, DIALECTS[RESPONSES]).step().await;
    for request in server.finish().await.unwrap() {
        assert_eq!(request.at("/prompt_cache_key"), "session-1");
    }
}

#[tokio::test]
async fn a_provider_file_sets_address_key_headers_and_limits() {
    let server = ModelServer::start([ScriptedReply::new(), ScriptedReply::new()]).await;
    let base_url = server.base_url(crow_testkit::WireDialect::OpenAiChat);
    let file = format!(
        "[provider]\nname = 'work'\ntype = 'openai-chat'\nbase_url = '{base_url}/'\n\
         [auth]\napi_key = {{ env = 'WORK_KEY' }}\n[defaults]\nmodel = 'm'\nmax_tokens = 4096\n\
         [models.m]\nmax_output_tokens = 1000\n[headers]\nx-team = 'crow'\n"
    );
    let config = ProviderConfig::parse(Path::new("work.toml"), &file).unwrap();
    let lookup = |name: &str| (name == "WORK_KEY").then(|| "sk-work\n".to_owned());
    let models = ProviderModels::new(vec![config], lookup, HttpClient::default()).unwrap();
    let reference = models.default_model().unwrap();
    assert_eq!(reference.to_string(), "work/m");
    let resolved = models.resolve(&reference).await.unwrap();
    let mut talk = Talk::of(&*resolved.provider, &resolved.info);
    talk.step().await;
    talk.config.max_tokens = Some(7);
    talk.step().await;
    let requests = server.finish().await.unwrap();
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-work"));
    assert_eq!(requests[0].header("x-team"), Some("crow"));
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].at("/max_tokens"), 1000, "the model cannot say more");
    assert_eq!(requests[1].at("/max_tokens"), 7, "the caller's word wins");
}
