//! Invalid messages, and requests in the wrong order.

use crow_testkit::scripted::{reply, text};
use serde_json::json;

use crate::client::{Product, message_text};

#[tokio::test]
async fn junk_is_answered_with_an_error_and_the_next_message_is_handled() {
    let product = Product::new([reply([text("fine")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    for junk in ["junk", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{1b}[31m", "[[[[[["] {
        client.send_line(junk).await;
        let answer = client.until(|message| message.get("error").is_some()).await;
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600].contains(&code), "{junk}: {answer}");
    }
    assert_eq!(client.prompt(&session, "x").await["result"]["stopReason"], "end_turn");
    assert_eq!(message_text(&client.updates()), "fine");
}

#[tokio::test]
async fn invalid_requests_get_the_error_codes_of_the_protocol() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let table = [
        ("no/such/method", json!({}), -32601),
        ("_no/such/extension", json!({}), -32601),
        ("session/new", json!({ "cwd": 7, "mcpServers": [] }), -32602),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602),
        ("session/prompt", json!({ "sessionId": session, "prompt": "no list" }), -32602),
        ("session/prompt", json!({ "sessionId": "nobody", "prompt": [] }), -32002),
        ("session/close", json!({ "sessionId": "nobody" }), -32002),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "nonsense" }), -32602),
        ("authenticate", json!({ "methodId": "nonsense" }), -32602),
    ];
    for (method, params, code) in table {
        let answer = client.request(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn requests_before_initialize_are_refused() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 20);
    let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
    let refused = client.request("session/new", params).await;
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    assert!(product.host.requests().is_empty());
    client.initialize(json!({})).await;
    client.session().await;
}

#[tokio::test]
async fn a_prompt_of_three_megabytes_reaches_the_model() {
    let product = Product::new([reply([text("long")])]);
    product.model.set_window(None);
    let mut client = product.connect().await;
    let session = client.session().await;
    let end = client.prompt(&session, &"x".repeat(3 << 20)).await;
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert_eq!(message_text(&client.updates()), "long");
}

#[tokio::test]
async fn a_disconnected_client_leaves_no_session_open() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    client.disconnect().await;
    assert!(product.host.requests().contains(&format!("close {session}")));
}
