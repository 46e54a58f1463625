//! `todo_write`, `todo_read` and `think`.

use crow_core::tool::{CallPlan, Effects};
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn todo_write_replaces_the_list_and_answers_with_counts() {
    let bench = Bench::new();
    assert_eq!(bench.ok("todo_read", json!({})).await, "The todo list is empty.");
    let todos = json!([
        {"content": "Read", "status": "completed"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
        {"content": "Test", "status": "pending"},
    ]);
    let result = bench.run("todo_write", json!({"todos": todos})).await;
    assert_eq!(result.output, "3 todos: 1 completed, 1 in progress, 1 pending.");
    assert_eq!(result.metadata.extra["todos"], todos);
    assert_eq!(bench.ok("todo_read", json!({})).await, "[x] Read\n[~] Write\n[ ] Test\n");
    assert_eq!(bench.ok("todo_write", json!({"todos": []})).await, "The todo list is empty now.");
}

#[tokio::test]
async fn an_invalid_todo_list_changes_nothing() {
    let bench = Bench::new();
    bench.ok("todo_write", json!({"todos": [{"content": "a", "status": "pending"}]})).await;
    for todos in [
        json!([{"content": "", "status": "pending"}]),
        json!([{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]),
        json!([{"content": "a", "status": "someday"}]),
    ] {
        bench.fails("todo_write", json!({"todos": todos})).await;
    }
    assert_eq!(bench.ok("todo_read", json!({})).await, "[ ] a\n");
}

#[tokio::test]
async fn session_tools_have_no_effects() {
    let bench = Bench::new();
    assert_eq!(bench.ok("think", json!({"thought": "hm"})).await, "ok");
    for (tool, input) in [
        ("think", json!({"thought": "hm"})),
        ("todo_write", json!({"todos": []})),
        ("todo_read", json!({})),
    ] {
        let plan: CallPlan = bench.plan(tool, &input).await.unwrap();
        assert_eq!(plan.effects, Effects::None);
    }
}
