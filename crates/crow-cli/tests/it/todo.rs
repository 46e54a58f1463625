//! The todo list in the real program.

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{
    program::Fixture,
    undo_fixture::{bash, run},
};

/// Returns the replies of a model that takes steps with the shell and then ends.
fn replies(first: Option<ScriptStep>, steps: usize) -> Vec<ScriptStep> {
    let steps = (0..steps).map(|step| bash(&format!("c{step}"), &format!("echo {step}")));
    let ends = (0..2).map(|_| ScriptedReply::new().text("I stop here.").into());
    first.into_iter().chain(steps).chain(ends).collect()
}

/// Returns the numbers of the requests that are the first to have another reminder, counted from 0.
async fn reminded_requests(replies: Vec<ScriptStep>) -> Vec<usize> {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    run(&fixture, "go").await;
    let requests = server.finish().await.unwrap_or_default();
    let counts = requests
        .iter()
        .map(|request| request.body.to_string().matches("was not updated for 10 steps").count());
    let mut known = 0;
    let mut reminded = Vec::new();
    for (number, count) in counts.enumerate() {
        if count > known {
            reminded.push(number);
        }
        known = count;
    }
    reminded
}

#[tokio::test]
async fn a_model_is_reminded_of_open_todos_after_ten_steps_and_after_ten_more() {
    let todos = json!({"todos": [
        {"content": "Look", "status": "in_progress"},
        {"content": "Write", "status": "pending"},
    ]});
    let write: ScriptStep = ScriptedReply::new().call("t", "todo_write", &todos).into();
    // Request 0 is answered with the list, and request 10 with the last of ten steps after it.
    assert_eq!(reminded_requests(replies(Some(write), 22)).await, [11, 21]);
}

#[tokio::test]
async fn without_a_todo_list_nothing_is_recalled() {
    assert_eq!(reminded_requests(replies(None, 12)).await, [0; 0]);
}
