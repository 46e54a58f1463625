//! Questions to the user.

use crow_testkit::scripted::{call, reply, text};
use serde_json::{Value, json};

use crate::client::{Client, Product};

async fn connect_in_ask_mode(product: &Product) -> (Client, String) {
    let mut client = product.connect().await;
    let session = client.session().await;
    let params = json!({ "sessionId": session, "configId": "permissions", "value": "ask" });
    client.request("session/set_config_option", params).await;
    (client, session)
}

fn option(request: &Value, kind: &str) -> Value {
    let options = request["params"]["options"].as_array().unwrap();
    let option = options.iter().find(|option| option["kind"] == kind);
    option.unwrap_or_else(|| panic!("{kind}: {options:?}"))["optionId"].clone()
}

fn two_writes() -> Vec<crow_testkit::scripted::Play> {
    let write = |name: &str| json!({ "path": name, "content": "x" });
    vec![
        reply([call("1", "write_file", write("a"))]),
        reply([call("2", "write_file", write("b"))]),
        reply([text("done")]),
    ]
}

#[tokio::test]
async fn an_allowed_call_runs_and_a_rejected_one_does_not() {
    let product = Product::new(two_writes());
    let (mut client, session) = connect_in_ask_mode(&product).await;
    let prompt = client.begin_prompt(&session, "write").await;
    let first = client.await_request("session/request_permission").await;
    let announced = client
        .updates()
        .iter()
        .any(|update| update["toolCallId"] == first["params"]["toolCall"]["toolCallId"]);
    assert!(announced, "the call is known before it is asked about");
    let selected = |id: Value| json!({ "outcome": { "outcome": "selected", "optionId": id } });
    client.respond(&first["id"], selected(option(&first, "allow_once"))).await;
    let second = client.await_request("session/request_permission").await;
    client.respond(&second["id"], selected(option(&second, "reject_once"))).await;
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(product.cwd().join("a").exists());
    assert!(!product.cwd().join("b").exists());
}

#[tokio::test]
async fn a_call_that_was_allowed_for_the_session_is_not_asked_about_again() {
    let product = Product::new(two_writes());
    let (mut client, session) = connect_in_ask_mode(&product).await;
    let prompt = client.begin_prompt(&session, "write").await;
    let first = client.await_request("session/request_permission").await;
    let options = first["params"]["options"].as_array().unwrap();
    let widest = options.iter().rfind(|option| option["kind"] == "allow_always").unwrap();
    let selected = json!({ "outcome": { "outcome": "selected", "optionId": widest["optionId"] } });
    client.respond(&first["id"], selected).await;
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert!(product.cwd().join("b").exists());
    assert!(client.inbox.iter().all(|message| message["method"] != "session/request_permission"));
}

#[tokio::test]
async fn a_cancel_withdraws_the_question() {
    let product = Product::new(two_writes());
    let (mut client, session) = connect_in_ask_mode(&product).await;
    let prompt = client.begin_prompt(&session, "write").await;
    let request = client.await_request("session/request_permission").await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let withdrawn = client.until(|message| message["method"] == "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_question_that_the_client_cancels_cancels_the_turn() {
    let product = Product::new(two_writes());
    let (mut client, session) = connect_in_ask_mode(&product).await;
    let prompt = client.begin_prompt(&session, "write").await;
    let request = client.await_request("session/request_permission").await;
    client.respond(&request["id"], json!({ "outcome": { "outcome": "cancelled" } })).await;
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_question_changes_nothing_and_loses_no_session() {
    let product = Product::new(two_writes());
    let (mut client, session) = connect_in_ask_mode(&product).await;
    client.begin_prompt(&session, "write").await;
    client.await_request("session/request_permission").await;
    client.disconnect().await;
    assert!(!product.cwd().join("a").exists());
    let mut client = product.connect().await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let loaded = client.request("session/load", params).await;
    assert!(loaded.get("error").is_none(), "{loaded}");
}

#[tokio::test]
async fn a_file_saved_while_a_command_ran_is_put_back_after_the_user_confirms_it() {
    let line = "touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let run = call("1", "bash", json!({ "command": line }));
    let product = Product::in_sandbox([reply([run]), reply([text("done")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let params = json!({ "sessionId": session, "configId": "permissions", "value": "full-auto" });
    client.request("session/set_config_option", params).await;
    let prompt = client.begin_prompt(&session, "run it").await;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !product.cwd().join("ready").exists() {
        assert!(std::time::Instant::now() < end, "the command does not run");
        tokio::task::yield_now().await;
    }
    std::fs::write(product.cwd().join(".envrc"), "mine\n").unwrap();
    std::fs::write(product.cwd().join("go"), "").unwrap();
    let request = client.await_request("session/request_permission").await;
    let title = request["params"]["toolCall"]["title"].as_str().unwrap();
    assert!(title.starts_with(".envrc appeared while `touch ready;"), "{title}");
    let options = request["params"]["options"].as_array().unwrap();
    let names: Vec<_> = options.iter().map(|option| option["name"].as_str().unwrap()).collect();
    let expected = [
        "put back: you made it, and know what it starts",
        "leave aside: a command made it, or you do not know",
        "None of these",
    ];
    assert_eq!(names, expected);
    let selected = json!({ "outcome": "selected", "optionId": options[0]["optionId"] });
    client.respond(&request["id"], json!({ "outcome": selected })).await;
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(product.cwd().join(".envrc")).unwrap(), "mine\n");
}
