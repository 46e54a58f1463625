//! What is no protocol, or not in its order.

use crow_testkit::scripted::{reply, text};
use serde_json::json;

use crate::client::{Product, said};

#[tokio::test]
async fn junk_is_answered_and_the_next_message_is_understood() {
    let product = Product::new([reply([text("fine")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    for junk in ["junk", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{1b}[31m", "[[[[[["] {
        client.line(junk).await;
        let answer = client.until(|message| message.get("error").is_some()).await;
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600].contains(&code), "{junk}: {answer}");
    }
    assert_eq!(client.prompt(&session, "x").await["result"]["stopReason"], "end_turn");
    assert_eq!(said(&client.updates()), "fine");
}

#[tokio::test]
async fn wrong_requests_get_their_errors() {
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
async fn nothing_is_done_before_the_client_has_introduced_itself() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 20);
    let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
    let refused = client.request("session/new", params).await;
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    assert!(product.host.asked().is_empty());
    client.introduce(json!({})).await;
    client.session().await;
}

#[tokio::test]
async fn a_prompt_of_three_megabytes_reaches_the_model() {
    let product = Product::new([reply([text("long")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let end = client.prompt(&session, &"x".repeat(3 << 20)).await;
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert_eq!(said(&client.updates()), "long");
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_no_session_open() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    client.leave().await;
    assert!(product.host.asked().contains(&format!("close {session}")));
}
