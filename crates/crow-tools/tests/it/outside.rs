//! Paths outside the workspace: a permission is for the file at planning time, not for a file put there later.

use std::fs;

use crow_core::tool::{CallPlan, ToolStatus};
use serde_json::{Value, json};

use crate::bench::Bench;

const MOVED: &str = "leads to another place than when the call was allowed";

/// A workspace with two folders outside, each with a file.
fn bench_with_outside_files() -> Bench {
    let bench = Bench::new();
    fs::create_dir_all(bench.outside("out/d")).unwrap();
    fs::write(bench.outside("out/d/file"), "allowed").unwrap();
    fs::create_dir_all(bench.outside("other")).unwrap();
    fs::write(bench.outside("other/file"), "private").unwrap();
    bench
}

async fn execute(bench: &Bench, tool: &str, input: Value, plan: &CallPlan) -> (ToolStatus, String) {
    let result = bench.tool(tool).execute(input, plan, &bench.ctx).await;
    (result.status, result.output)
}

#[tokio::test]
async fn a_file_outside_that_was_replaced_after_the_plan_is_refused() {
    for (tool, path, input) in [
        ("read_file", "out/d/file", json!({})),
        ("grep", "out/d/file", json!({ "pattern": "." })),
        ("grep", "out/d", json!({ "pattern": "." })),
        ("glob", "out/d", json!({ "pattern": "*" })),
        ("list_directory", "out/d", json!({})),
        ("write_file", "out/d/new", json!({ "content": "x" })),
        ("write_file", "out/d/deep/new", json!({ "content": "x" })),
        ("edit_file", "out/d/file", json!({ "old_string": "p", "new_string": "q" })),
    ] {
        let bench = bench_with_outside_files();
        let mut input = input;
        input["path"] = json!(bench.outside(path));
        let plan = bench.plan(tool, &input).await.unwrap();
        fs::rename(bench.outside("out/d"), bench.outside("out/before")).unwrap();
        fs::rename(bench.outside("other"), bench.outside("out/d")).unwrap();
        let (status, output) = execute(&bench, tool, input, &plan).await;
        assert_eq!(status, ToolStatus::Error, "{tool} {path}: {output}");
        assert!(output.contains(MOVED) && !output.contains("private"), "{tool} {path}: {output}");
        assert_eq!(fs::read_dir(bench.outside("out/d")).unwrap().count(), 1, "{tool} {path}");
        assert_eq!(fs::read_to_string(bench.outside("out/d/file")).unwrap(), "private");
    }
}

#[tokio::test]
async fn a_file_outside_that_appeared_after_the_plan_is_not_read() {
    let bench = bench_with_outside_files();
    let input = json!({ "path": bench.outside("out/d/late") });
    let plan = bench.plan("read_file", &input).await.unwrap();
    fs::hard_link(bench.outside("other/file"), bench.outside("out/d/late")).unwrap();
    let (_, output) = execute(&bench, "read_file", input, &plan).await;
    assert!(output.contains(MOVED), "{output}");
}

#[tokio::test]
async fn calls_of_one_reply_may_change_the_same_outside_file_in_turn() {
    let bench = bench_with_outside_files();
    let path = bench.outside("out/d/new");
    let calls = [
        ("write_file", json!({ "path": path, "content": "one\n" })),
        ("edit_file", json!({ "path": path, "old_string": "one", "new_string": "two" })),
        ("edit_file", json!({ "path": path, "old_string": "two", "new_string": "three" })),
        ("read_file", json!({ "path": path })),
    ];
    let mut plans = Vec::new();
    for (tool, input) in &calls {
        plans.push(bench.plan(tool, input).await.unwrap());
    }
    for ((tool, input), plan) in calls.into_iter().zip(&plans) {
        let (status, output) = execute(&bench, tool, input, plan).await;
        assert_eq!(status, ToolStatus::Success, "{output}");
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "three\n");
}
