//! Sessions: created, listed, replayed, closed, forked, deleted.

use crow_testkit::scripted::{call, reply, text, thinking};
use serde_json::json;

use crate::client::{Product, message_text};

#[tokio::test]
async fn a_session_is_on_disk_before_the_client_knows_it() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let loaded = client.request("session/load", params).await;
    assert!(loaded.get("error").is_none(), "{loaded}");
    client.prompt(&session, "1").await;
    let listed = client.request("session/list", json!({ "cwd": product.cwd() })).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    let elsewhere = client.request("session/list", json!({ "cwd": "/elsewhere" })).await;
    assert_eq!(elsewhere["result"]["sessions"], json!([]));
}

#[tokio::test]
async fn loading_a_session_replays_its_history_before_the_response() {
    let edit = json!({ "path": "a.txt", "content": "new\n" });
    let product = Product::new([
        reply([thinking("hm"), text("I write."), call("1", "write_file", edit)]),
        reply([text("Done.")]),
    ]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "write it").await;
    client.disconnect().await;
    let mut client = product.connect().await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let loaded = client.request("session/load", params).await;
    assert!(loaded.get("error").is_none(), "{loaded}");
    let updates = client.updates();
    let kinds: Vec<_> =
        updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"user_message_chunk"), "{kinds:?}");
    assert!(kinds.contains(&"agent_thought_chunk"), "{kinds:?}");
    assert_eq!(message_text(&updates), "I write.Done.");
    let shown = serde_json::to_string(&updates).unwrap();
    assert!(shown.contains("\"newText\":\"new\\n\""), "{shown}");
    let ended = updates.iter().filter(|update| update["status"] == "completed").count();
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn a_resumed_session_continues_without_a_replay() {
    let product = Product::new([reply([text("one")]), reply([text("two")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    client.disconnect().await;
    let mut client = product.connect().await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    client.request("session/resume", params).await;
    let end = client.prompt(&session, "2").await;
    let updates = client.updates();
    assert_eq!(message_text(&updates), "two", "{end} {updates:#?}");
}

#[tokio::test]
async fn a_fork_has_the_history_and_an_id_of_its_own() {
    let product = Product::new([reply([text("one")]), reply([text("two")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let forked = client.request("session/fork", params).await;
    let fork = forked["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    client.prompt(&fork, "2").await;
    let outline = product.model.requests().last().unwrap().outline().join("\n");
    assert!(outline.contains("one"), "{outline}");
}

#[tokio::test]
async fn a_closed_session_takes_no_prompt_and_a_deleted_one_cannot_be_loaded() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    let closed = client.request("session/close", json!({ "sessionId": session })).await;
    assert!(closed.get("error").is_none(), "{closed}");
    let refused = client.prompt(&session, "2").await;
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    client.request("session/delete", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let unknown = client.request("session/load", params).await;
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
}

#[tokio::test]
async fn a_new_title_is_sent_and_listed() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.request("session/set_title", json!({ "sessionId": session, "title": "mine" })).await;
    let update = client.await_update("session_info_update").await;
    assert_eq!(update["params"]["update"]["title"], "mine");
    let listed = client.request("session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"][0]["title"], "mine");
}

#[tokio::test]
async fn long_lists_come_page_by_page_and_each_session_once() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let mut created = Vec::new();
    for _ in 0..60 {
        let session = client.session().await;
        client.request("session/set_title", json!({ "sessionId": session, "title": "t" })).await;
        created.push(session);
    }
    let mut listed = Vec::new();
    let mut cursor = json!(null);
    loop {
        let page = client.request("session/list", json!({ "cursor": cursor })).await;
        let sessions = page["result"]["sessions"].as_array().unwrap();
        assert!(sessions.len() <= 50);
        listed.extend(
            sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()),
        );
        cursor = page["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    listed.sort();
    created.sort();
    assert_eq!(listed, created);
    let refused = client.request("session/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn setting_an_option_is_answered_with_all_options() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let params = json!({ "sessionId": session, "configId": "permissions", "value": "read-only" });
    let set = client.request("session/set_config_option", params).await;
    let options = set["result"]["configOptions"].as_array().unwrap();
    let permissions = options.iter().find(|option| option["id"] == "permissions").unwrap();
    assert_eq!(permissions["currentValue"], "read-only");
    let params = json!({ "sessionId": session, "configId": "permissions", "value": "nonsense" });
    let refused = client.request("session/set_config_option", params).await;
    assert!(refused["error"]["message"].is_string(), "{refused}");
}

#[tokio::test]
async fn a_mode_is_sent_as_mode_and_as_option_whichever_way_it_is_set() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let set =
        client.request("session/set_mode", json!({ "sessionId": session, "modeId": "loop" })).await;
    assert!(set.get("error").is_none(), "{set}");
    let options = client.await_update("config_option_update").await;
    let options = options["params"]["update"]["configOptions"].as_array().unwrap().clone();
    let mode = options.iter().find(|option| option["id"] == "mode").unwrap();
    assert_eq!(mode["currentValue"], "loop");
    let mode = client.await_update("current_mode_update").await;
    assert_eq!(mode["params"]["update"]["currentModeId"], "loop");
    let params = json!({ "sessionId": session, "configId": "mode", "value": "hitl" });
    client.request("session/set_config_option", params).await;
    let mode = client.await_update("current_mode_update").await;
    assert_eq!(mode["params"]["update"]["currentModeId"], "hitl");
}

/// Returns the arguments of a command that waits until the file `go` exists.
fn wait_for_go() -> serde_json::Value {
    json!({ "command": "until [ -e go ]; do sleep 0.01; done" })
}

#[tokio::test]
async fn an_open_prompt_is_answered_at_the_end_of_its_run_after_its_session_is_opened_again() {
    for method in ["session/load", "session/resume"] {
        let replies = [reply([call("1", "bash", wait_for_go())]), reply([text("Done.")])];
        let product = Product::new(replies.into_iter().chain([reply([text("More.")])]));
        let mut client = product.connect().await;
        let session = client.session().await;
        let prompt = client.begin_prompt(&session, "work").await;
        let queued = client.begin_prompt(&session, "and this").await;
        client.await_update("tool_call").await;
        let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
        let opened = client.request(method, params).await;
        assert!(opened.get("error").is_none(), "{opened}");
        let is_response = |message: &serde_json::Value| message["id"] == prompt;
        assert!(!client.inbox.iter().any(is_response), "{method}: answered while the work goes on");
        let updates = client.updates();
        let failed = updates.iter().filter(|update| update["status"] == "failed").count();
        assert_eq!(failed, 0, "{method}: {updates:#?}");
        std::fs::write(product.cwd().join("go"), "").unwrap();
        for prompt in [prompt, queued] {
            let end = client.answer(prompt).await;
            assert_eq!(end["result"]["stopReason"], "end_turn", "{method}: {end}");
        }
        assert_eq!(message_text(&client.updates()), "Done.More.", "{method}");
    }
}

#[tokio::test]
async fn a_cancel_reaches_a_prompt_whose_session_was_loaded_again() {
    let product = Product::new([reply([call("1", "bash", wait_for_go())])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    let prompt = client.begin_prompt(&session, "work").await;
    client.await_update("tool_call").await;
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    client.request("session/load", params).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let end = client.answer(prompt).await;
    assert_eq!(end["result"]["stopReason"], "cancelled", "{end}");
}

#[tokio::test]
async fn an_unused_session_is_not_listed_and_is_deleted_with_its_connection() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let (used, unused) = (client.session().await, client.session().await);
    client.prompt(&used, "1").await;
    let listed = client.request("session/list", json!({})).await;
    let ids = |listed: &serde_json::Value| -> Vec<String> {
        let sessions = listed["result"]["sessions"].as_array().unwrap();
        sessions.iter().map(|one| one["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&listed), [used.as_str()]);
    client.disconnect().await;
    let mut client = product.connect().await;
    let params = json!({ "sessionId": unused, "cwd": product.cwd(), "mcpServers": [] });
    let gone = client.request("session/load", params).await;
    assert_eq!(gone["error"]["code"], -32002, "{gone}");
    let listed = client.request("session/list", json!({})).await;
    assert_eq!(ids(&listed), [used]);
}

#[tokio::test]
async fn opening_a_session_with_another_directory_is_refused_with_both_paths() {
    let product = Product::new([reply([text("one")])]);
    let mut client = product.connect().await;
    let session = client.session().await;
    client.prompt(&session, "1").await;
    let elsewhere = product.cwd().join("elsewhere");
    for method in ["session/load", "session/resume", "session/fork"] {
        let params = json!({ "sessionId": session, "cwd": elsewhere, "mcpServers": [] });
        let refused = client.request(method, params).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(product.cwd().to_str().unwrap()), "{message}");
        assert!(message.contains(elsewhere.to_str().unwrap()), "{message}");
    }
}
