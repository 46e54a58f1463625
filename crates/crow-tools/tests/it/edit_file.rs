//! `edit_file` without the text matcher, which has its own tests.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::Arc,
};

use crow_core::ids::CallId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bench::Bench;

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a.txt", "old_string": old, "new_string": new})
}

fn numbered_lines(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|line| format!("line {line:02}")).collect();
    lines.join("\n")
}

#[tokio::test]
async fn an_exact_edit_reports_lines_and_diff() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "one\ntwo\nthree\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let result = bench.run("edit_file", edit("two", "2\nzwei")).await;
    assert_eq!(result.output, "Edited a.txt: +2 -1 lines, first change in line 2.");
    assert_eq!(bench.content("a.txt"), "one\n2\nzwei\nthree\n");
    assert_eq!(result.metadata.extra["match_type"], "exact");
    assert_eq!(result.metadata.files_modified, [path]);
    assert_eq!(
        result.metadata.diff.unwrap().files[0].hunks,
        "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+zwei\n three\n"
    );
}

#[tokio::test]
async fn several_edits_apply_together_or_not_at_all() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\nthree\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let good = json!({"path": "a.txt", "edits": [
        {"old_string": "one", "new_string": "1"},
        {"oldText": "three", "newText": "3"},
    ]});
    let output = bench.ok("edit_file", good).await;
    assert!(output.contains("2 replacements"), "{output}");
    assert_eq!(bench.content("a.txt"), "1\ntwo\n3\n");
    let bad = json!({"path": "a.txt", "edits": [
        {"old_string": "1", "new_string": "x"},
        {"old_string": "nowhere to be found", "new_string": "y"},
    ]});
    let output = bench.fails("edit_file", bad).await;
    assert!(
        output.starts_with("a.txt was not changed: no edit was applied; edit 2 of 2"),
        "{output}"
    );
    assert_eq!(bench.content("a.txt"), "1\ntwo\n3\n");
}

#[tokio::test]
async fn an_exact_edit_of_an_unread_file_applies_and_says_so() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    let output = bench.ok("edit_file", edit("two", "2")).await;
    assert!(output.contains("had not been read in this session"), "{output}");
    let output = bench.fails("write_file", json!({"path": "a.txt", "content": "x"})).await;
    assert!(output.contains("was not read"), "{output}");
}

#[tokio::test]
async fn an_exact_edit_after_an_external_change_applies_and_says_so() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    bench.write("a.txt", "ONE\ntwo\n");
    let output = bench.ok("edit_file", edit("two", "2")).await;
    assert!(output.contains("had been changed by something else"), "{output}");
    assert_eq!(bench.content("a.txt"), "ONE\n2\n");
    let output = bench.fails("write_file", json!({"path": "a.txt", "content": "x"})).await;
    assert!(output.contains("changed by something else"), "{output}");
}

#[tokio::test]
async fn an_inexact_edit_needs_a_current_read_and_shows_the_lines() {
    let bench = Bench::new();
    bench.write("a.txt", "fn a() {\n    one();\n    two();\n}\n");
    let call = edit("one();\ntwo();", "one();\n2();");
    let output = bench.fails("edit_file", call.clone()).await;
    assert!(output.contains("fits only inexactly") && output.contains("was not read"), "{output}");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let result = bench.run("edit_file", call).await;
    assert!(!result.is_error(), "{}", result.output);
    assert_eq!(bench.content("a.txt"), "fn a() {\n    one();\n    2();\n}\n");
    assert!(result.output.contains("fitted only inexactly"), "{}", result.output);
    assert!(result.output.contains("3\t    2();"), "{}", result.output);
    assert_ne!(result.metadata.extra["match_type"], "exact");
}

#[tokio::test]
async fn consecutive_edits_need_no_read_in_between() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    for (old, new) in [("one", "two"), ("two", "three")] {
        let output = bench.ok("edit_file", edit(old, new)).await;
        assert!(output.ends_with("first change in line 1."), "{output}");
    }
    bench.ok("write_file", json!({"path": "a.txt", "content": "x"})).await;
}

#[tokio::test]
async fn a_refused_edit_of_an_unread_file_says_that_it_was_not_read() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n");
    let output = bench.fails("edit_file", edit("absent text", "x")).await;
    assert!(output.contains("not read in this session; read it before"), "{output}");
}

#[tokio::test]
async fn an_empty_old_string_creates_a_file() {
    let bench = Bench::new();
    let call = json!({"path": "new/a.txt", "old_string": "", "new_string": "one\n"});
    let result = bench.run("edit_file", call.clone()).await;
    assert_eq!(result.output, "Created new/a.txt: 1 lines.");
    assert_eq!(result.metadata.extra["match_type"], "create");
    assert_eq!(bench.content("new/a.txt"), "one\n");
    let output = bench.fails("edit_file", call).await;
    assert!(output.contains("old text is empty but the file is not"), "{output}");
}

#[tokio::test]
async fn editing_a_missing_file_suggests_similar_names() {
    let bench = Bench::new();
    bench.write("b.txt", "");
    let output = bench.fails("edit_file", edit("x", "y")).await;
    assert_eq!(output, "a.txt does not exist; did you mean b.txt?");
}

#[tokio::test]
async fn incomplete_arguments_are_explained() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    for (input, message) in [
        (json!({"path": "a.txt"}), "old_string and new_string are missing"),
        (json!({"path": "a.txt", "old_string": "x"}), "new_string is missing"),
        (json!({"path": "a.txt", "new_string": "x"}), "old_string is missing"),
        (
            json!({"path": "a.txt", "old_string": "x", "new_string": "y", "edits": [{"old_string": "a", "new_string": "b"}]}),
            "not both",
        ),
        (
            json!({"path": "a.txt", "edits": [{"old_string": "a"}]}),
            "edits[0]: missing field `new_string`",
        ),
    ] {
        let output = bench.fails("edit_file", input).await;
        assert!(output.contains(message), "{output}");
    }
}

#[tokio::test]
async fn edit_file_accepts_the_parameter_names_of_other_agents() {
    let bench = Bench::new();
    bench.write("a.txt", "0");
    for (round, (path, old, new)) in [
        ("file_path", "old_string", "new_string"),
        ("filePath", "oldString", "newString"),
        ("path", "old_str", "new_str"),
        ("path", "oldText", "newText"),
    ]
    .into_iter()
    .enumerate()
    {
        let (before, after) = (round.to_string(), (round + 1).to_string());
        bench.ok("edit_file", json!({(path): "a.txt", (old): before, (new): after})).await;
    }
    assert_eq!(bench.content("a.txt"), "4");
}

#[tokio::test]
async fn an_edit_keeps_the_mode_and_the_link_of_a_file() {
    let bench = Bench::new();
    let path = bench.write("real.sh", "one\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    symlink("real.sh", bench.path("a.txt")).unwrap();
    bench.ok("edit_file", edit("one", "two")).await;
    assert_eq!((bench.content("real.sh"), bench.mode("real.sh")), ("two\n".into(), 0o755));
    assert!(bench.path("a.txt").is_symlink());
}

#[tokio::test]
async fn a_file_changed_after_the_preview_of_an_edit_is_refused() {
    let mut bench = Bench::new();
    bench.write("a.txt", "one\n");
    let preview = bench.preview("edit_file", &edit("one", "two")).await.unwrap();
    assert_eq!(preview.patch.files[0].hunks, "@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(bench.content("a.txt"), "one\n");
    bench.ctx.preview = Some(preview);
    bench.write("a.txt", "one\nmore\n");
    let output = bench.fails("edit_file", edit("one", "two")).await;
    assert!(output.contains("changed after this edit was allowed"), "{output}");
    assert_eq!(bench.content("a.txt"), "one\nmore\n");
}

#[tokio::test]
async fn an_edit_that_creates_a_file_is_refused_if_the_file_appeared_after_its_preview() {
    let mut bench = Bench::new();
    bench.ctx.preview = Some(bench.preview("edit_file", &edit("", "one\n")).await.unwrap());
    bench.write("a.txt", "");
    let output = bench.fails("edit_file", edit("", "one\n")).await;
    assert!(output.contains("changed after this edit was allowed"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_concurrent_edits_lose_no_change() {
    let bench = Arc::new(Bench::new());
    let text = numbered_lines(50);
    bench.write("a.txt", &text);
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let mut calls = JoinSet::new();
    for line in 0..50 {
        let bench = Arc::clone(&bench);
        calls.spawn(async move {
            let mut ctx = bench.ctx.clone();
            ctx.call_id = CallId::new(format!("c{line}"));
            let input = edit(&format!("line {line:02}"), &format!("LINE {line:02}"));
            bench.run_in("edit_file", input, &ctx).await
        });
    }
    for result in calls.join_all().await {
        assert!(!result.is_error(), "{}", result.output);
        assert!(!result.output.contains("something else"), "{}", result.output);
    }
    assert_eq!(bench.content("a.txt"), text.replace("line", "LINE"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_edits_of_different_tool_sets_lose_no_change() {
    let bench = Arc::new(Bench::new());
    bench.write("a.txt", numbered_lines(40));
    let mut calls = JoinSet::new();
    for line in 0..40 {
        let bench = Arc::clone(&bench);
        calls.spawn(async move {
            let tools = crow_tools::builtin_tools();
            let tool = tools.iter().find(|tool| tool.name() == "edit_file").unwrap();
            let input = edit(&format!("line {line:02}"), &format!("LINE {line:02}"));
            let plan = tool.plan(&input, &bench.ctx).await.unwrap();
            tool.execute(input, &plan, &bench.ctx).await
        });
    }
    for result in calls.join_all().await {
        assert!(!result.is_error(), "{}", result.output);
    }
    assert_eq!(bench.content("a.txt"), numbered_lines(40).replace("line", "LINE"));
}
