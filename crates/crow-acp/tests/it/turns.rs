//! Turns.

use crow_core::model::{ProviderError, ProviderErrorKind, StopReason};
use crow_testkit::{
    scripted::{Play, call, reply, text, thinking},
    wait_until,
};
use serde_json::json;

use crate::client::{Product, message_text};

#[tokio::test]
async fn a_turn_streams_thoughts_and_text_and_ends() {
    let product = Product::new([reply([thinking("hm"), text("Hello.")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let end = client.prompt(&session, "hi").await;
    assert_eq!(end["result"]["stopReason"], "end_turn");
    let updates = client.updates();
    assert_eq!(message_text(&updates), "Hello.");
    let thought =
        updates.iter().find(|update| update["sessionUpdate"] == "agent_thought_chunk").unwrap();
    assert_eq!(thought["content"]["text"], "hm");
    let message =
        updates.iter().find(|update| update["sessionUpdate"] == "agent_message_chunk").unwrap();
    assert!(message["messageId"].is_string());
}

#[tokio::test]
async fn commands_are_sent_after_the_response_that_names_the_session() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    client.session().await;
    assert!(client.updates().is_empty(), "nothing comes before the answer");
    let update = client.await_update("available_commands_update").await;
    let commands = update["params"]["update"]["availableCommands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["name"] == "echo"));
}

#[tokio::test]
async fn a_command_runs_without_a_request_to_the_model() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let end = client.prompt(&session, "/echo once more").await;
    assert_eq!(end["result"]["stopReason"], "end_turn");
    assert_eq!(message_text(&client.updates()), "once more");
    assert!(product.model.requests().is_empty());
}

#[tokio::test]
async fn an_edit_shows_both_texts_and_ends_once() {
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    let read = json!({ "path": "a.txt" });
    let product = Product::new([
        reply([call("1", "read_file", read)]),
        reply([call("2", "edit_file", edit)]),
        reply([text("done")]),
    ]);
    std::fs::write(product.cwd().join("a.txt"), "one\n").unwrap();
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "edit").await;
    let updates = client.updates();
    let ends: Vec<_> = updates
        .iter()
        .filter(|update| update["status"] == "completed" || update["status"] == "failed")
        .collect();
    assert_eq!(ends.len(), 2, "{ends:#?}");
    let diffs: Vec<_> = updates
        .iter()
        .filter_map(|update| update["content"].as_array())
        .flatten()
        .filter(|content| content["type"] == "diff")
        .collect();
    let diff = diffs.last().unwrap();
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("one\n"), &json!("two\n")));
    assert_eq!(diff["path"], json!(product.cwd().join("a.txt")));
}

#[tokio::test]
async fn a_cancelled_turn_kills_its_command_and_settles_its_call() {
    let sleep = json!({ "command": "echo $$ > pid; exec sleep 1000" });
    let product = Product::new([reply([call("1", "bash", sleep)])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let prompt = client.begin_prompt(&session, "sleep").await;
    let pid = product.cwd().join("pid");
    wait_until(|| !std::fs::read_to_string(&pid).unwrap_or_default().is_empty()).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let end = client.answer(prompt).await;
    assert_eq!(end["result"]["stopReason"], "cancelled");
    let updates = client.updates();
    let last = updates.iter().rfind(|update| update["toolCallId"].is_string()).unwrap();
    assert_eq!(last["status"], "failed", "{last}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let alive = std::path::Path::new("/proc").join(pid.trim());
    assert!(!alive.exists() || is_zombie(&alive), "the command lives");
}

/// Number of prompts that are followed by a cancel in the same write. `CROW_RACE_ROUNDS` overrides it.
#[expect(clippy::disallowed_methods, reason = "how long a test takes is said from outside")]
fn rounds() -> usize {
    std::env::var("CROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[tokio::test]
async fn a_cancel_covers_every_prompt_that_was_received_before_it() {
    let ran = json!({ "command": "echo ran >> ran" });
    let replies =
        (0..rounds()).map(|number| reply([call(&number.to_string(), "bash", ran.clone())]));
    let product = Product::new(replies);
    let mut client = product.connect().await;
    let session = client.session().await;
    for _ in 0..rounds() {
        let prompt = client.begin_prompt_and_cancel(&session, "run it").await;
        let end = client.answer(prompt).await;
        assert_eq!(end["result"]["stopReason"], "cancelled", "{end}");
    }
    assert!(!product.cwd().join("ran").exists(), "a command ran after its cancel");
}

fn is_zombie(process: &std::path::Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

#[tokio::test]
async fn prompts_sent_during_a_turn_are_queued_and_answered_in_order() {
    let product = Product::new([reply([text("one")]), reply([text("two")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let first = client.begin_prompt(&session, "1").await;
    let second = client.begin_prompt(&session, "2").await;
    assert_eq!(client.answer(first).await["result"]["stopReason"], "end_turn");
    assert_eq!(client.answer(second).await["result"]["stopReason"], "end_turn");
    assert_eq!(message_text(&client.updates()), "onetwo");
}

#[tokio::test]
async fn one_queued_prompt_can_be_cancelled_without_affecting_the_others() {
    let wait = json!({ "command": "until [ -e go ]; do sleep 0.01; done" });
    let replies = [reply([call("1", "bash", wait)]), reply([text("one")]), reply([text("three")])];
    let product = Product::new(replies);
    let mut client = product.connect().await;
    let session = client.session().await;
    let first = client.begin_prompt(&session, "1").await;
    client.await_update("tool_call").await;
    let second = client.begin_prompt(&session, "taken back").await;
    client.notify("$/cancel_request", json!({ "requestId": second })).await;
    // The response to a request that was sent after the cancel shows that the cancel has arrived.
    client.request("session/list", json!({})).await;
    std::fs::write(product.cwd().join("go"), "").unwrap();
    assert_eq!(client.answer(first).await["result"]["stopReason"], "end_turn");
    assert_eq!(client.answer(second).await["result"]["stopReason"], "cancelled");
    client.prompt(&session, "3").await;
    let outline = product.model.requests().last().unwrap().outline().join("\n");
    assert!(!outline.contains("taken back"), "{outline}");
}

#[tokio::test]
async fn steering_input_reaches_the_agent_during_a_turn() {
    let wait = json!({ "command": "until [ -e go ]; do sleep 0.01; done" });
    let product = Product::new([reply([call("1", "bash", wait)]), reply([text("ok")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let prompt = client.begin_prompt(&session, "work").await;
    client.await_update("tool_call").await;
    let content = json!([{ "type": "text", "text": "and faster" }]);
    let params = json!({ "sessionId": session, "prompt": content });
    let steered = client.request("_session/steering", params).await;
    assert_eq!(steered["result"]["outcome"], "injected");
    std::fs::write(product.cwd().join("go"), "").unwrap();
    client.answer(prompt).await;
    let requests = product.model.requests();
    assert!(requests.last().unwrap().outline().join("\n").contains("and faster"));
}

#[tokio::test]
async fn a_prompt_that_the_model_refuses_ends_with_a_refusal() {
    let error = ProviderError::new(ProviderErrorKind::Refusal, "blocked by a filter");
    for play in [reply([text("No.")]).stopping(StopReason::Refusal), Play::Fail(error)] {
        let product = Product::new([play]);
        let mut client = product.connect().await;
        let session = client.session().await;
        let end = client.prompt(&session, "do it").await;
        assert_eq!(end["result"]["stopReason"], "refusal", "{end}");
    }
}

#[tokio::test]
async fn a_failure_has_the_error_code_of_its_kind_and_is_reported_once() {
    for (kind, code) in [
        (ProviderErrorKind::Auth, -32000),
        (ProviderErrorKind::Permission, -32000),
        (ProviderErrorKind::InvalidRequest, -32603),
    ] {
        let product = Product::new([Play::Fail(ProviderError::new(kind, "of the provider"))]);
        let mut client = product.connect().await;
        let session = client.session().await;
        let end = client.prompt(&session, "do it").await;
        assert_eq!(end["error"]["code"], code, "{end}");
        let message = end["error"]["message"].as_str().unwrap();
        assert!(message.contains("of the provider"), "{message}");
        let updates = serde_json::to_string(&client.updates()).unwrap();
        assert!(!updates.contains("of the provider"), "it is said twice: {updates}");
    }
}
