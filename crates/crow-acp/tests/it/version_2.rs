//! Version 2 of the protocol.

use agent_client_protocol::v2::schema as v2;
use crow_testkit::{
    scripted::{call, reply, text},
    wait_until,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::client::{Client, Product, message_text};

async fn connect(product: &Product) -> Client {
    let mut client = product.connect_with(1 << 20);
    client.check = conforms;
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": 2, "info": info, "capabilities": {} });
    let hello = client.request("initialize", params).await;
    assert_eq!(hello["result"]["protocolVersion"], 2, "{hello}");
    assert_eq!(hello["result"]["authMethods"][0]["methodId"], "configured");
    client
}

/// Checks that the types of version 2 know the kind of a message, and read it without losing a field.
fn conforms(message: &Value) {
    let (params, result) = (&message["params"], &message["result"]);
    match message["method"].as_str() {
        Some("session/update") => {
            let read = same::<v2::UpdateSessionNotification>(params);
            assert!(!matches!(read.update, v2::SessionUpdate::Other(_)), "{message}");
        }
        Some("session/request_permission") => {
            let read = same::<v2::RequestPermissionRequest>(params);
            assert!(matches!(read.subject, Some(v2::RequestPermissionSubject::ToolCall(_))));
        }
        Some("elicitation/create") => drop(same::<v2::CreateElicitationRequest>(params)),
        Some(method) => panic!("unknown method {method}"),
        None if result["protocolVersion"].is_number() => {
            drop(same::<v2::InitializeResponse>(result));
        }
        None if result["sessionId"].is_string() => drop(same::<v2::NewSessionResponse>(result)),
        None if result["configOptions"].is_array() => {
            drop(same::<v2::ResumeSessionResponse>(result));
        }
        None if result["providers"].is_array() => drop(same::<v2::ListProvidersResponse>(result)),
        None if result["sessions"].is_array() => drop(same::<v2::ListSessionsResponse>(result)),
        None if result["messageId"].is_string() => drop(same::<v2::PromptResponse>(result)),
        None if result["outcome"].is_string() => {}
        None => assert!(*result == json!({}) || message["error"].is_object(), "{message}"),
    }
}

fn same<T: DeserializeOwned + Serialize>(value: &Value) -> T {
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"));
    assert_eq!(&serde_json::to_value(&read).unwrap(), value);
    read
}

fn is_state(message: &Value, state: &str) -> bool {
    let update = &message["params"]["update"];
    update["sessionUpdate"] == "state_update" && update["state"] == state
}

#[tokio::test]
async fn a_prompt_is_answered_when_it_is_read_and_the_idle_state_ends_the_turn() {
    let product = Product::new([reply([text("Hello.")])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    client.until(|message| is_state(message, "idle")).await;
    let accepted = client.prompt(&session, "hi").await;
    let id = accepted["result"]["messageId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let user = client.await_update("user_message").await;
    assert_eq!(user["params"]["update"]["messageId"], id);
    client.until(|message| is_state(message, "running")).await;
    let end = client.until(|message| is_state(message, "idle")).await;
    assert_eq!(end["params"]["update"]["stopReason"], "end_turn");
    assert_eq!(message_text(&client.updates()), "Hello.");
}

#[tokio::test]
async fn a_cancel_answers_a_queued_prompt_that_was_not_read() {
    let sleep = json!({ "command": "touch begun; exec sleep 1000" });
    let product = Product::new([reply([call("1", "bash", sleep)])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    client.prompt(&session, "sleep").await;
    let second = client.begin_prompt(&session, "and then").await;
    wait_until(|| product.cwd().join("begun").exists()).await;
    client.until(|message| is_state(message, "running")).await;
    client.inbox.clear();
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let end = client.until(|message| is_state(message, "idle")).await;
    assert_eq!(end["params"]["update"]["stopReason"], "cancelled");
    let refused = client.answer(second).await;
    assert_eq!(refused["error"]["code"], -32800, "{refused}");
    let updates = client.updates();
    let call = updates.iter().rfind(|update| update["toolCallId"].is_string()).unwrap();
    assert_eq!(call["status"], "cancelled", "{call}");
}

#[tokio::test]
async fn a_change_is_shown_as_a_patch_live_and_in_a_replay() {
    let write = json!({ "path": "a.txt", "content": "new\n" });
    let product = Product::new([reply([call("1", "write_file", write)]), reply([text("Done.")])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    client.prompt(&session, "write").await;
    client.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
    let live = serde_json::to_string(&client.updates()).unwrap();
    assert!(live.contains("+new"), "{live}");
    client.disconnect().await;
    let mut client = connect(&product).await;
    let params = json!({
        "sessionId": session, "cwd": product.cwd(), "mcpServers": [],
        "replayFrom": { "type": "start" },
    });
    let resumed = client.request("session/resume", params).await;
    assert!(resumed.get("error").is_none(), "{resumed}");
    let shown = serde_json::to_string(&client.updates()).unwrap();
    assert!(shown.contains("+new") && shown.contains("Done."), "{shown}");
}

#[tokio::test]
async fn a_question_sets_the_session_to_requires_action() {
    let write = json!({ "path": "a.txt", "content": "x" });
    let product = Product::new([reply([call("1", "write_file", write)]), reply([text("Done.")])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    let params = json!({
        "sessionId": session, "configId": "permissions", "type": "id", "value": "ask",
    });
    let set = client.request("session/set_config_option", params).await;
    assert_eq!(set["result"]["configOptions"][1]["configId"], "permissions", "{set}");
    client.prompt(&session, "write").await;
    let request = client.await_request("session/request_permission").await;
    assert_eq!(request["params"]["subject"]["type"], "tool_call", "{request}");
    client.until(|message| is_state(message, "requires_action")).await;
    let options = request["params"]["options"].as_array().unwrap();
    let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    let outcome = json!({ "outcome": "selected", "optionId": allow["optionId"] });
    client.respond(&request["id"], json!({ "outcome": outcome })).await;
    client.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
    assert!(product.cwd().join("a.txt").exists());
}

#[tokio::test]
async fn sessions_are_listed_and_closed_as_in_version_1() {
    let product = Product::new([reply([text("one")])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    client.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
    let listed = client.request("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session), "{listed}");
    for _ in 0..2 {
        let closed = client.request("session/close", json!({ "sessionId": session })).await;
        assert!(closed.get("error").is_none(), "closing is idempotent: {closed}");
    }
    let params = json!({ "sessionId": "nobody", "cwd": product.cwd(), "mcpServers": [] });
    let unknown = client.request("session/resume", params).await;
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}

#[tokio::test]
async fn providers_are_listed_and_set_as_in_version_1() {
    let product = Product::new([]);
    let mut client = connect(&product).await;
    let set = json!({
        "providerId": "main", "apiType": "openai", "baseUrl": "https://gateway.test/v1",
    });
    let set = client.request("providers/set", set).await;
    assert!(set.get("error").is_none(), "{set}");
    let listed = client.request("providers/list", json!({})).await;
    let current = json!({ "apiType": "openai", "baseUrl": "https://gateway.test/v1" });
    assert_eq!(listed["result"]["providers"][0]["current"], current, "{listed}");
}

#[tokio::test]
async fn steering_is_an_extension_method_in_version_2() {
    let product = Product::new([reply([text("Hello.")])]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let steered = client.request("_session/steering", params).await;
    assert_eq!(steered["result"]["outcome"], "startedNewTurn", "{steered}");
    let unknown = client.request("_no/such", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[tokio::test]
async fn methods_of_version_1_alone_are_refused() {
    let product = Product::new([]);
    let mut client = connect(&product).await;
    let session = client.session().await;
    let mode = json!({ "sessionId": session, "modeId": "loop" });
    let refused = client.request("session/set_mode", mode).await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
}
