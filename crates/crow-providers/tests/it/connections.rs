//! Connections and headers, and bodies as bytes.

use crow_providers::{ApiKey, Endpoint, ExtraHeader, HttpClient, HttpProvider};
use crow_testkit::{BodyChunk, ModelServer, Script, ScriptStep, ScriptedReply, VendorError};

use serde_json::json;

use crate::support::{DIALECTS, KEY, Talk, model, user};

#[tokio::test]
async fn three_hundred_requests_share_one_connection() {
    for (dialect, count) in DIALECTS.into_iter().zip([300, 20, 20, 20]) {
        let server = ModelServer::start(Script::repeating(ScriptedReply::new().text("Hi"))).await;
        let mut talk = Talk::with(&server, dialect);
        for _ in 0..count {
            assert!(talk.ask().await.reply.is_ok());
        }
        assert_eq!(server.connections(), 1);
        assert_eq!(server.finish().await.unwrap().len(), count);
    }
}

#[tokio::test]
async fn a_refused_request_leaves_the_connection_open() {
    let script = vec![
        ScriptStep::Error(VendorError::Overloaded),
        ScriptStep::from(ScriptedReply::new().text("Hi")),
    ];
    let server = ModelServer::start(script).await;
    Talk::with(&server, DIALECTS[0]).step().await;
    assert_eq!(server.connections(), 1);
    server.assert_clean();
}

#[tokio::test]
async fn a_rewritten_history_is_encoded_anew() {
    for dialect in DIALECTS {
        let call =
            |n: usize| ScriptedReply::new().call("same_id", "read_file", &json!({"path": n}));
        let script = vec![
            call(1),
            call(2),
            ScriptedReply::new().text("Hi"),
            ScriptedReply::new().text("Hi"),
        ];
        let server = ModelServer::start(script).await;
        let mut talk = Talk::with(&server, dialect);
        for _ in 0..3 {
            talk.step().await;
        }
        let original = talk.messages.clone();
        // A summary replaces the first step; the rest stays.
        talk.messages.splice(0..3, [user("summary", "What was done")]);
        server.allow_prefix_break();
        let mut fresh = Talk::with(&server, dialect);
        fresh.messages.clone_from(&talk.messages);
        server.push(ScriptedReply::new().text("Hi"));
        let (_, _) = (talk.ask().await.reply.unwrap(), fresh.ask().await.reply.unwrap());
        let requests = server.finish().await.unwrap();
        assert_eq!(original.len(), 7);
        assert_eq!(requests[3].raw_body, requests[4].raw_body, "as if it had never been otherwise");
    }
}

#[tokio::test]
async fn requests_have_a_content_length_and_the_key_in_one_header_only() {
    for (dialect, header) in [(DIALECTS[0], "x-api-key"), (DIALECTS[1], "x-goog-api-key")] {
        let server = ModelServer::start([ScriptedReply::new().text("Hi")]).await;
        Talk::with(&server, dialect).step().await;
        let requests = server.finish().await.unwrap();
        let request = &requests[0];
        assert_eq!(request.header(header), Some(KEY));
        assert_eq!(
            request.header("content-length"),
            Some(request.raw_body.len().to_string().as_str())
        );
        assert!(request.header("user-agent").unwrap().starts_with("crow-agent/"));
        let values = request.headers.iter().filter(|(_, value)| value.contains(KEY));
        assert_eq!(values.count(), 1);
        assert!(!String::from_utf8_lossy(&request.raw_body).contains(KEY));
    }
}

#[tokio::test]
async fn configured_headers_override_the_defaults() {
    let server = ModelServer::start([ScriptedReply::new().text("Hi")]).await;
    let header =
        |name: &str, value: &str| ExtraHeader { name: name.to_owned(), value: value.to_owned() };
    let endpoint = Endpoint {
        provider: "tested".to_owned(),
        dialect: DIALECTS[0].0,
        base_url: server.base_url(DIALECTS[0].1),
        key: ApiKey::new(KEY),
        headers: vec![header("Anthropic-Version", "2099-01-01"), header("X-Team", "crows")],
    };
    let provider = HttpProvider::new(endpoint, HttpClient::default()).unwrap();
    Talk::of(&provider, &model("test-model")).step().await;
    let requests = server.finish().await.unwrap();
    assert_eq!(requests[0].header("anthropic-version"), Some("2099-01-01"));
    assert_eq!(requests[0].header("x-team"), Some("crows"));
}

/// Uses a stream as a llama.cpp server sent it on `/v1/messages`: no `message_start`, token counts at the end only.
#[tokio::test]
async fn a_stream_without_message_start_is_decoded() {
    let stream = concat!(
        "event: content_block_start\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "event: content_block_delta\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":2}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    let server = ModelServer::start([ScriptStep::Raw(vec![BodyChunk::data(stream)])]).await;
    let outcome = Talk::with(&server, DIALECTS[0]).ask().await;
    assert_eq!(outcome.streamed_text(), "Hi");
    assert_eq!(outcome.reply.unwrap().usage.output_tokens, 2);
    server.assert_clean();
}
