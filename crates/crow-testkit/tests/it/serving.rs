//! Tests of connections, records, scripts and the life cycle of a server.

use std::time::Instant;

use crow_testkit::{
    AnswerState, BodyChunk, BodyEnd, Delivery, ModelServer, Rule, Script, ScriptStep,
    ScriptedReply, ServerOptions, StreamGate, VendorError, WireDialect, refused_base_url,
};
use serde_json::json;
use tokio::net::TcpStream;

use crate::bodies::{assistant_text, first_request, user_text, with_messages};
use crate::client::{Client, End};

#[tokio::test]
async fn two_turns_share_a_connection_and_are_recorded() {
    for dialect in WireDialect::ALL {
        let server = ModelServer::start([
            ScriptedReply::new().text("One."),
            ScriptedReply::new().text("Two."),
        ])
        .await;
        let mut client = Client::connect(&server).await;
        let before = Instant::now();
        let body = first_request(dialect, "Begin.");
        let one = client.ask(dialect, &body).await;
        assert_eq!((one.status, one.end), (200, End::Complete));
        assert!(one.header("content-type").unwrap().starts_with("text/event-stream"));
        let more = [assistant_text(dialect, "One."), user_text(dialect, "Go on.")];
        let two = client.ask(dialect, &with_messages(dialect, &body, &more)).await;
        assert!(two.text().contains("Two."));
        assert_eq!((server.connections(), server.remaining_steps()), (1, 0));
        let requests = server.finish().await.unwrap();
        let indices: Vec<_> = requests.iter().map(|request| request.index).collect();
        assert_eq!(indices, [0, 1]);
        let request = &requests[0];
        assert_eq!((request.dialect, request.model()), (dialect, "test-model"));
        assert_eq!((request.connection, &request.body), (0, &body));
        assert_eq!(request.raw_body, body.to_string());
        assert_eq!(request.header("host"), Some("loopback"));
        assert!(before <= request.first_byte_at && request.first_byte_at <= request.received_at);
    }
}

#[tokio::test]
async fn a_chunked_request_body_is_joined() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(WireDialect::OpenAiChat, "Begin.").to_string();
    let (left, right) = body.split_at(10);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write(&format!("{head}{:x};ext=1\r\n{left}\r\n", left.len())).await;
    client.write(&format!("{:X}\r\n{right}\r\n0\r\n\r\n", right.len())).await;
    assert_eq!(client.response().await.status, 200);
    assert_eq!(server.finish().await.unwrap()[0].raw_body, body);
}

#[tokio::test]
async fn a_request_may_come_in_pieces_cut_anywhere() {
    let dialect = WireDialect::OpenAiChat;
    let body = first_request(dialect, "Begin.").to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for cut in head.len() - 5..head.len() + 3 {
        let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
        let mut client = Client::connect(&server).await;
        let request = format!("{head}{body}");
        let (left, right) = request.split_at(cut);
        client.write(left).await;
        assert!(client.is_silent().await);
        client.write(right).await;
        assert_eq!(client.response().await.status, 200);
        server.assert_clean();
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server =
        ModelServer::start([ScriptedReply::new().text("One."), ScriptedReply::new().text("Two.")])
            .await;
    let mut client = Client::connect(&server).await;
    let body = first_request(WireDialect::OpenAiChat, "Begin.");
    client.send(WireDialect::OpenAiChat, &body).await;
    client.send(WireDialect::OpenAiChat, &body).await;
    assert!(client.response().await.text().contains("One."));
    assert!(client.response().await.text().contains("Two."));
    server.assert_clean();
}

#[tokio::test]
async fn a_client_that_expects_continue_gets_it() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(WireDialect::OpenAiChat, "Begin.").to_string();
    let length = body.len();
    client.write(&format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n")).await;
    assert_eq!(client.head().await.0, 100);
    client.write(&body).await;
    assert_eq!(client.response().await.status, 200);
    server.assert_clean();
}

#[tokio::test]
async fn connection_close_is_honoured_and_connections_are_counted() {
    let server = ModelServer::start(Script::repeating(ScriptedReply::new().text("One."))).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(WireDialect::OpenAiChat, "Begin.").to_string();
    let length = body.len();
    client.write(&format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    client.response().await;
    assert_eq!(client.end().await, End::Closed);
    Client::connect(&server)
        .await
        .ask(WireDialect::OpenAiChat, &first_request(WireDialect::OpenAiChat, "Begin."))
        .await;
    assert_eq!(server.connections(), 2);
    server.assert_clean();
}

#[tokio::test]
async fn a_responder_decides_from_the_request_after_the_steps() {
    let script =
        Script::new().then(ScriptedReply::new().text("scripted")).then_respond(|request| {
            let text = format!("{} {}", request.index, request.at("/messages/1/content"));
            ScriptedReply::new().text(text).into()
        });
    let server = ModelServer::start(script).await;
    let mut client = Client::connect(&server).await;
    let dialect = WireDialect::OpenAiChat;
    assert!(client.ask(dialect, &first_request(dialect, "A")).await.text().contains("scripted"));
    let answer = client.ask(dialect, &first_request(dialect, "B")).await.text();
    assert!(answer.contains('1') && answer.contains(r#"\"B\""#), "{answer}");
    server.assert_clean();
}

#[tokio::test]
async fn a_step_can_be_pushed_while_the_server_runs() {
    let server = ModelServer::start(Script::new()).await;
    server.push(ScriptedReply::new().text("late"));
    let mut client = Client::connect(&server).await;
    let dialect = WireDialect::Gemini;
    assert!(client.ask(dialect, &first_request(dialect, "A")).await.text().contains("late"));
    server.assert_clean();
}

#[tokio::test]
async fn after_the_script_comes_a_500_and_a_violation() {
    let server = ModelServer::start(Script::new()).await;
    let dialect = WireDialect::AnthropicMessages;
    let answer = Client::connect(&server).await.ask(dialect, &first_request(dialect, "A")).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("the script is over"));
    let violations = server.finish().await.unwrap_err();
    assert_eq!(violations.0[0].rule, Rule::Script);
    assert_eq!(violations.0[0].request, Some(0));
}

#[tokio::test]
async fn a_failed_assertion_in_a_responder_is_a_violation() {
    let script = Script::responder(|request| {
        assert_eq!(request.model(), "another-model");
        ScriptStep::Error(VendorError::Server)
    });
    let server = ModelServer::start(script).await;
    let dialect = WireDialect::OpenAiChat;
    let answer = Client::connect(&server).await.ask(dialect, &first_request(dialect, "A")).await;
    assert_eq!(answer.status, 500);
    let violations = server.finish().await.unwrap_err();
    assert_eq!(violations.0[0].rule, Rule::Script);
    assert!(violations.0[0].detail.contains("another-model"), "{violations}");
}

#[tokio::test]
async fn an_unknown_endpoint_is_a_404_and_a_violation() {
    let server = ModelServer::start(Script::new()).await;
    let mut client = Client::connect(&server).await;
    client.write("POST /v1/embeddings HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").await;
    assert_eq!(client.response().await.status, 404);
    assert_eq!(server.finish().await.unwrap_err().0[0].rule, Rule::Http);
}

#[tokio::test]
async fn a_malformed_request_is_refused_and_a_violation() {
    let server = ModelServer::start(Script::new()).await;
    let mut client = Client::connect(&server).await;
    client.write("HELLO\r\n\r\n").await;
    assert_eq!(client.response().await.status, 400);
    assert_eq!(client.end().await, End::Closed);
    assert_eq!(server.finish().await.unwrap_err().0[0].rule, Rule::Http);
}

#[tokio::test]
async fn the_list_of_models_has_each_vendors_form_and_is_no_model_request() {
    let options = ServerOptions {
        models: vec!["small".to_owned(), "large".to_owned()],
        ..ServerOptions::default()
    };
    let server = ModelServer::start_with(Script::new(), options).await;
    let mut client = Client::connect(&server).await;
    client.write("GET /v1/models HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.response().await.json()["data"][1]["id"], "large");
    client.write("GET /v1/models?limit=9 HTTP/1.1\r\nanthropic-version: x\r\n\r\n").await;
    assert_eq!(client.response().await.json()["first_id"], "small");
    client.write("GET /v1beta/models HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.response().await.json()["models"][0]["name"], "models/small");
    assert_eq!((server.model_lists(), server.requests().len()), (3, 0));
    server.assert_clean();
}

#[tokio::test]
async fn waiting_for_requests_and_answers_needs_no_sleep() {
    let gate = StreamGate::new();
    let chunks = vec![BodyChunk::data("data: 1\n\n"), BodyChunk::Gate(gate.clone())];
    let server = ModelServer::start([ScriptStep::Raw(chunks)]).await;
    let mut client = Client::connect(&server).await;
    let dialect = WireDialect::OpenAiChat;
    let body = first_request(dialect, "A");
    let (request, ()) = tokio::join!(server.wait_for_request(0), client.send(dialect, &body));
    assert_eq!(request.index, 0);
    gate.wait_for_arrival(1).await;
    let answer = server.answer(0).unwrap();
    assert_eq!((answer.state, answer.ended_at), (AnswerState::Open, None));
    assert!(answer.began_at.unwrap() >= request.received_at);
    gate.open();
    assert_eq!(client.response().await.bytes(), b"data: 1\n\n");
    let answer = server.wait_for_answer(0).await;
    assert_eq!(answer.state, AnswerState::Sent);
    assert!(answer.ended_at >= answer.began_at);
    server.assert_clean();
}

#[tokio::test]
async fn a_request_is_announced_before_its_answer() {
    let silence = ScriptStep::Silence { gate: Some(StreamGate::new()), ending: BodyEnd::Close };
    let server = ModelServer::start([ScriptedReply::new().text("One.").into(), silence]).await;
    let mut client = Client::connect(&server).await;
    let dialect = WireDialect::OpenAiChat;
    let body = first_request(dialect, "A");
    client.ask(dialect, &body).await;
    server.wait_for_answer(0).await;
    let (request, ()) = tokio::join!(server.wait_for_request(1), client.send(dialect, &body));
    assert_eq!((request.index, request.connection), (1, 0));
    server.assert_clean();
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_the_stream_waits() {
    let step = ScriptStep::Silence { gate: Some(StreamGate::new()), ending: BodyEnd::Close };
    let server = ModelServer::start([step]).await;
    let mut client = Client::connect(&server).await;
    client.send(WireDialect::OpenAiChat, &first_request(WireDialect::OpenAiChat, "A")).await;
    server.wait_for_request(0).await;
    drop(client);
    assert_eq!(server.wait_for_answer(0).await.state, AnswerState::ClientDisconnected);
    server.assert_clean();
}

#[tokio::test]
async fn together_sends_the_same_chunks_as_each() {
    let mut bodies = Vec::new();
    for delivery in [Delivery::Each, Delivery::Together] {
        let options = ServerOptions { delivery, ..ServerOptions::default() };
        let script = [ScriptedReply::new().text("one two three")];
        let server = ModelServer::start_with(script, options).await;
        let dialect = WireDialect::OpenAiResponses;
        let answer =
            Client::connect(&server).await.ask(dialect, &first_request(dialect, "A")).await;
        bodies.push(answer.chunks);
        server.assert_clean();
    }
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test]
async fn finish_ends_all_connections() {
    let step = ScriptStep::Silence { gate: Some(StreamGate::new()), ending: BodyEnd::Close };
    let server = ModelServer::start([step]).await;
    let address = server.address();
    let mut client = Client::connect(&server).await;
    client.send(WireDialect::OpenAiChat, &first_request(WireDialect::OpenAiChat, "A")).await;
    server.wait_for_request(0).await;
    assert_eq!(server.finish().await.unwrap().len(), 1);
    assert_eq!(client.end().await, End::Closed);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
#[should_panic(expected = "stream is false, not true")]
async fn a_server_dropped_with_unread_violations_fails_the_test() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let dialect = WireDialect::OpenAiChat;
    let mut body = first_request(dialect, "A");
    body["stream"] = json!(false);
    Client::connect(&server).await.ask(dialect, &body).await;
}

#[tokio::test]
async fn a_refused_base_url_refuses_connections() {
    let url = refused_base_url(WireDialect::OpenAiChat).await;
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn base_urls_are_what_the_vendors_clients_expect() {
    let server = ModelServer::start([ScriptStep::Error(VendorError::Server)]).await;
    let address = server.address();
    let expected = [
        (WireDialect::AnthropicMessages, format!("http://{address}")),
        (WireDialect::OpenAiResponses, format!("http://{address}/v1")),
        (WireDialect::OpenAiChat, format!("http://{address}/v1")),
        (WireDialect::Gemini, format!("http://{address}")),
    ];
    for (dialect, url) in expected {
        assert_eq!(server.base_url(dialect), url);
    }
}
