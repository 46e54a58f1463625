use std::{path::Path, sync::Arc};

use crow_core::{
    event::AgentEvent,
    ids::{CallId, SnapshotId},
    message::Image,
    permission::{Denial, DenialSource},
    todo::{TodoItem, TodoStatus},
    tool::{ChangeCounts, FileChange, FileDiff, Patch, ToolResult},
};
use serde_json::{Value, json};

use super::{
    sample::{Files, Story, bare, updates, view, view_with, zed},
    screen::Screen,
};
use crate::view::contents::{DiffContent, NoContents};

fn of_kind<'a>(updates: &'a [Value], kind: &str) -> Vec<&'a Value> {
    updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
}

/// Returns the result of a call that changed files, with snapshots and a bounded diff.
fn changed(files: &[(&str, &str, &str)]) -> ToolResult {
    let mut result = ToolResult::success("Done.");
    let metadata = &mut result.metadata;
    metadata.snapshot_before = Some(SnapshotId::new("before"));
    metadata.snapshot_after = Some(SnapshotId::new("after"));
    metadata.files_modified = files.iter().map(|(path, ..)| path.into()).collect();
    let count = files.len() as u64;
    metadata.changes = Some(ChangeCounts { modified: count, ..ChangeCounts::default() });
    let files = files.iter().map(|(path, old, new)| FileDiff::of_text(Path::new(path), old, new));
    metadata.diff = Some(Patch { files: files.collect() });
    result
}

fn known(text: &str) -> DiffContent {
    DiffContent::Known(text.into())
}

#[test]
fn a_call_goes_from_pending_over_in_progress_to_its_end() {
    let arguments = json!({"path": "src/a.rs", "offset": 7});
    let mut story = Story::new();
    story.begin("1", "read_file", "read src/a.rs", arguments).end(
        "1",
        "read_file",
        ToolResult::success("fn main() {}"),
    );
    let out = updates(&story.live(&mut view(bare())));
    assert_eq!(out.len(), 3);
    let call = &out[0];
    assert_eq!(call["name"], "read_file");
    assert_eq!(call["kind"], "read");
    assert_eq!(call["title"], "read src/a.rs");
    assert_eq!(call["locations"], json!([{"path": "/p/src/a.rs", "line": 7}]));
    assert_eq!(call["rawInput"]["path"], "src/a.rs");
    assert_eq!(call["_meta"]["crow"]["agent"], "builder");
    assert_eq!(out[1]["status"], "in_progress");
    assert_eq!(out[2]["status"], "completed");
    assert_eq!(out[2]["content"][0]["content"]["text"], "```\nfn main() {}\n```");
    assert_eq!(out[2]["rawOutput"]["output"], "fn main() {}");
}

#[test]
fn every_tool_has_its_kind() {
    let table = [
        ("read_file", "read"),
        ("grep", "search"),
        ("edit_file", "edit"),
        ("write_file", "edit"),
        ("bash", "execute"),
        ("think", "think"),
        ("web_fetch", "fetch"),
        ("time__now", "other"),
    ];
    for (tool, kind) in table {
        let mut story = Story::new();
        story.pending("1", tool, "t", json!({}));
        let out = updates(&story.live(&mut view(bare())));
        assert_eq!(out[0].get("kind").map_or("other", |kind| kind.as_str().unwrap()), kind);
    }
}

#[test]
fn the_title_of_a_command_is_the_command_and_a_long_one_is_shown_whole() {
    let mut story = Story::new();
    story.pending("1", "bash", "bash", json!({"command": "cargo test"}));
    story.pending("2", "bash", "bash", json!({"command": "cd a\ncargo test"}));
    let out = updates(&story.live(&mut view(bare())));
    assert_eq!(out[0]["title"], "cargo test");
    assert_eq!(out[0].get("content"), None);
    assert_eq!(out[1]["title"], "cd a …");
    assert_eq!(out[1]["content"][0]["content"]["text"], "```sh\ncd a\ncargo test\n```");
}

#[test]
fn a_call_that_was_never_started_is_shown_with_its_arguments() {
    let denial = Denial { source: DenialSource::Policy, reason: "it writes".into() };
    let mut story = Story::new();
    story.whole_reply("a", "", &[("1", "edit_file", json!({"path": "a"}))]).ended(
        "1",
        "edit_file",
        ToolResult::failure("no"),
        Some(denial),
    );
    let out = updates(&story.replay(&mut view(bare())));
    assert_eq!(out[0]["rawInput"], json!({"path": "a"}));
    assert_eq!(out[1]["status"], "failed");
    assert_eq!(out[1]["_meta"]["crow"]["denied"], "policy");
    let text = &out[1]["content"][0]["content"]["text"];
    assert_eq!(text, "Not permitted by policy: it writes");
}

#[test]
fn a_cancelled_call_is_failed_and_marked() {
    let mut story = Story::new();
    story.begin("1", "grep", "grep x", json!({})).end("1", "grep", ToolResult::cancelled());
    let out = updates(&story.live(&mut view(bare())));
    assert_eq!(out[2]["status"], "failed");
    assert_eq!(out[2]["_meta"]["crow"]["cancelled"], true);
}

#[test]
fn a_call_with_a_reused_id_gets_an_id_of_its_own() {
    let mut story = Story::new();
    for _ in 0..2 {
        story.whole_reply("a", "", &[("1", "glob", json!({}))]);
        story.begin("1", "glob", "glob", json!({})).end("1", "glob", ToolResult::success("x"));
    }
    let screen = Screen::of(&story.live(&mut view(bare())));
    let ids: Vec<_> = screen.calls.keys().map(|(_, id)| id.as_str()).collect();
    assert_eq!(ids, ["1", "1#2"]);
    assert_eq!(screen.ends, 2);
}

#[test]
fn an_edit_shows_the_whole_text_before_and_after_also_in_a_replay() {
    let (old, new) = ("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nX\n");
    let files = || {
        let files = Files::default().captured("before", "/p/a", known(old));
        Arc::new(files.captured("after", "/p/a", known(new)))
    };
    let mut story = Story::new();
    story.begin("1", "edit_file", "edit a", json!({"path": "a"})).end(
        "1",
        "edit_file",
        changed(&[("/p/a", old, new)]),
    );
    let live = updates(&story.live(&mut view_with(bare(), files())));
    let replayed = updates(&story.replay(&mut view_with(bare(), files())));
    for out in [&live, &replayed] {
        let end = out.last().unwrap();
        let diff = json!([{"type": "diff", "path": "/p/a", "oldText": old, "newText": new}]);
        assert_eq!(end["content"], diff);
        assert_eq!(end["locations"], json!([{"path": "/p/a", "line": 9}]));
    }
}

#[test]
fn the_end_of_a_call_keeps_the_previewed_diff() {
    let mut story = Story::new();
    let patch = Patch { files: vec![FileDiff::of_text(Path::new("/p/a"), "a\nb\n", "a\nc\n")] };
    story.tell(AgentEvent::CallPending {
        call_id: CallId::new("1"),
        tool: "edit_file".into(),
        title: "edit a".into(),
        arguments: json!({"path": "a"}),
        preview: Some(patch),
    });
    let files = Files::default()
        .on_disk("/p/a", "a\nb\n")
        .captured("before", "/p/a", known("a\nb\n"))
        .captured("after", "/p/a", known("a\nc\n"));
    story.end("1", "edit_file", changed(&[("/p/a", "a\nb\n", "a\nc\n")]));
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(files))));
    let diff = json!([{"type": "diff", "path": "/p/a", "oldText": "a\nb\n", "newText": "a\nc\n"}]);
    assert_eq!(out[0]["content"], diff);
    assert_eq!(out[1].get("content"), None);
}

#[test]
fn a_preview_of_a_long_change_is_completed_from_the_arguments() {
    let new = "line\n".repeat(1000);
    let patch = Patch { files: vec![FileDiff::of_text(Path::new("/p/a"), "", &new)] };
    assert!(patch.files[0].truncated);
    let preview = |content: &str| {
        let mut story = Story::new();
        story.tell(AgentEvent::CallPending {
            call_id: CallId::new("1"),
            tool: "write_file".into(),
            title: "write a".into(),
            arguments: json!({"path": "a", "content": content}),
            preview: Some(patch.clone()),
        });
        let out = updates(&story.live(&mut view_with(bare(), Arc::new(Files::default()))));
        out[0]["content"][0].clone()
    };
    assert_eq!(preview(&new), json!({"type": "diff", "path": "/p/a", "newText": new}));
    assert_eq!(preview("other")["_meta"]["crow"]["partial"], true);
}

#[test]
fn a_rejected_edit_still_shows_what_it_would_have_changed() {
    let mut story = Story::new();
    let patch = Patch { files: vec![FileDiff::of_text(Path::new("/p/a"), "", "new\n")] };
    story.tell(AgentEvent::CallPending {
        call_id: CallId::new("1"),
        tool: "write_file".into(),
        title: "write a".into(),
        arguments: json!({"path": "a"}),
        preview: Some(patch),
    });
    let denial = Denial { source: DenialSource::User, reason: String::new() };
    story.ended("1", "write_file", ToolResult::failure("no"), Some(denial));
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(Files::default()))));
    assert_eq!(out[0]["content"][0], json!({"type": "diff", "path": "/p/a", "newText": "new\n"}));
    assert_eq!(out[1]["content"][0]["newText"], "new\n");
    assert_eq!(out[1]["content"][1]["content"]["text"], "Rejected.");
}

#[test]
fn old_text_is_absent_only_for_a_file_that_is_new() {
    let table = [
        (DiffContent::Absent, known("b\n"), FileChange::Created, json!({"newText": "b\n"})),
        (known(""), known("b\n"), FileChange::Modified, json!({"oldText": "", "newText": "b\n"})),
        (
            known("a\n"),
            DiffContent::Absent,
            FileChange::Deleted,
            json!({"oldText": "a\n", "newText": "", "_meta": {"crow": {"deleted": true}}}),
        ),
        (
            DiffContent::Unknown,
            DiffContent::Unknown,
            FileChange::Modified,
            json!({"oldText": "a\n", "newText": "b\n", "_meta": {"crow": {"partial": true}}}),
        ),
        (
            DiffContent::Unknown,
            DiffContent::Unknown,
            FileChange::Created,
            json!({"newText": "b\n"}),
        ),
    ];
    for (before, after, change, expected) in table {
        let files = Files::default().captured("before", "/p/a", before);
        let files = files.captured("after", "/p/a", after);
        let old = if change == FileChange::Created { "" } else { "a\n" };
        let mut result = changed(&[("/p/a", old, "b\n")]);
        result.metadata.diff.as_mut().unwrap().files[0].change = change;
        let mut story = Story::new();
        story.end("1", "edit_file", result);
        let out = updates(&story.live(&mut view_with(bare(), Arc::new(files))));
        let mut diff = out[1]["content"][0].clone();
        let fields = diff.as_object_mut().unwrap();
        assert_eq!(fields.remove("type"), Some(json!("diff")));
        assert_eq!(fields.remove("path"), Some(json!("/p/a")));
        assert_eq!(diff, expected);
    }
}

#[test]
fn files_that_cannot_be_shown_are_named_with_the_reason() {
    let files = Files::default()
        .captured("before", "/p/a", DiffContent::TooLarge)
        .captured("after", "/p/a", DiffContent::TooLarge)
        .captured("before", "/p/b", DiffContent::Binary)
        .captured("after", "/p/b", DiffContent::Binary);
    let mut result = changed(&[]);
    result.metadata.files_modified = vec!["/p/a".into(), "/p/b".into()];
    result.metadata.changes.as_mut().unwrap().modified = 30;
    let mut story = Story::new();
    story.end("1", "edit_file", result);
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(files))));
    let texts: Vec<_> = out[1]["content"].as_array().unwrap().iter().collect();
    assert_eq!(texts[0]["content"]["text"], "/p/a: too large to be shown");
    assert_eq!(texts[1]["content"]["text"], "/p/b: not a text");
    assert_eq!(texts[2]["content"]["text"], "… and 28 more files changed");
}

#[test]
fn changes_of_a_command_are_shown_after_its_output() {
    let files = Files::default().captured("before", "/p/a", known("a\n"));
    let files = files.captured("after", "/p/a", known("b\n"));
    let mut story = Story::new();
    story.begin("1", "bash", "sed", json!({"command": "sed -i s/a/b/ a"})).end(
        "1",
        "bash",
        changed(&[("/p/a", "a\n", "b\n")]),
    );
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(files))));
    let content = &out[2]["content"];
    assert_eq!(content[0]["content"]["text"], "```\nDone.\n```");
    assert_eq!(content[1]["oldText"], "a\n");
}

#[test]
fn output_cannot_close_its_fence_or_contain_escape_sequences() {
    let mut story = Story::new();
    let output = "\u{1b}[31mred\u{1b}[0m ```` \u{1b}]0;title\u{7}# no heading\r\n\u{8}";
    story.end("1", "grep", ToolResult::success(output));
    let out = updates(&story.live(&mut view(bare())));
    let text = out[1]["content"][0]["content"]["text"].as_str().unwrap();
    assert_eq!(text, "`````\nred ```` # no heading\n`````");
}

#[test]
fn pictures_are_shown() {
    let mut result = ToolResult::success("a picture");
    result.images = vec![Image { media_type: "image/png".into(), data: "aGk=".into() }];
    let mut story = Story::new();
    story.end("1", "read_file", result);
    let out = updates(&story.live(&mut view(bare())));
    let image = &out[1]["content"][1]["content"];
    assert_eq!(*image, json!({"type": "image", "mimeType": "image/png", "data": "aGk="}));
}

#[test]
fn a_terminal_is_announced_with_the_call_fed_as_it_prints_and_ended() {
    let mut story = Story::new();
    let mut result = ToolResult::failure("one\ntwo\nthree\n[exit code 3]");
    result.metadata.extra = json!({"exit_code": 3});
    story
        .begin("1", "bash", "b", json!({"command": "build"}))
        .progress("1", "one\n")
        .progress("1", "two\n")
        .end("1", "bash", result);
    let out = updates(&story.live(&mut view(zed())));
    assert_eq!(out[0]["content"], json!([{"type": "terminal", "terminalId": "1"}]));
    assert_eq!(out[0]["_meta"]["terminal_info"], json!({"terminal_id": "1", "cwd": "/p"}));
    let data: Vec<_> = out
        .iter()
        .filter_map(|update| update["_meta"]["terminal_output"]["data"].as_str())
        .collect();
    assert_eq!(data, ["one\n", "two\n", "three\n[exit code 3]"]);
    let exit = json!({"terminal_id": "1", "exit_code": 3, "signal": null});
    assert_eq!(out[4]["_meta"]["terminal_exit"], exit);
    assert_eq!(out[4]["status"], "failed");
    assert_eq!(out[4].get("content"), None);
}

#[test]
fn missed_output_is_added_to_the_terminal_at_the_end() {
    let printed = "x".repeat(300);
    let table = [
        ("", "all\n", "all\n".to_owned()),
        (printed.as_str(), &format!("[cut]{printed}tail") as &str, "tail".to_owned()),
        ("one\n 10%\r 50%\r100% of all\n", "one\n100% of all\n[exit code 0]", "[exit code 0]".to_owned()),
        ("one\r\ntwo\r\n", "one\ntwo\nthree", "three".to_owned()),
        ("cut by\u{fffd} a boundary\n", "cut byé a boundary\nend", "\n[some of the output was not shown; this is what the call answered]\ncut byé a boundary\nend".to_owned()),
        (
            "other",
            "all\n",
            "\n[some of the output was not shown; this is what the call answered]\nall\n"
                .to_owned(),
        ),
    ];
    for (progress, output, expected) in table {
        let mut story = Story::new();
        story.begin("1", "bash", "b", json!({"command": "build"})).progress("1", progress).end(
            "1",
            "bash",
            ToolResult::success(output),
        );
        let out = updates(&story.live(&mut view(zed())));
        assert_eq!(out.last().unwrap()["_meta"]["terminal_output"]["data"], json!(expected));
    }
}

#[test]
fn without_terminals_every_flush_shows_the_whole_output() {
    let mut view = view(bare());
    let mut story = Story::new();
    story.begin("1", "bash", "b", json!({"command": "build"})).progress("1", "one\n");
    let out = updates(&story.live(&mut view));
    assert_eq!(out[2]["content"][0]["content"]["text"], "```\none\n```");
    let mut more = Vec::new();
    view.flush(&mut more);
    assert!(more.is_empty() && !view.is_behind());
}

#[test]
fn the_reason_why_a_call_waits_is_shown_until_it_starts() {
    let mut story = Story::new();
    let (call_id, reason) = (CallId::new("1"), "another agent changes files here".to_owned());
    story.pending("1", "bash", "b", json!({"command": "make"}));
    story.tell(AgentEvent::CallWait { call_id, reason });
    story.start("1", "bash", "b", json!({"command": "make"}));
    let out = updates(&story.live(&mut view(zed())));
    let terminal = json!({"type": "terminal", "terminalId": "1"});
    assert_eq!(out[1]["content"][0], terminal);
    let text = &out[1]["content"][1]["content"]["text"];
    assert_eq!(text, "Waiting: another agent changes files here");
    assert_eq!(out[2]["content"], json!([terminal]));
}

#[test]
fn todos_are_shown_once_as_a_plan_and_not_as_calls() {
    let item =
        |content: &str, status| TodoItem { content: content.into(), status, active_form: None };
    let items = vec![item("Read", TodoStatus::Completed), item("Write", TodoStatus::InProgress)];
    let mut result = ToolResult::success("2 todos");
    result.metadata.extra = json!({ "todos": items });
    let mut story = Story::new();
    story.begin("1", "todo_write", "todos", json!({})).end("1", "todo_write", result);
    story.tell(AgentEvent::Plan { items });
    let entries = json!([
        {"content": "Read", "priority": "medium", "status": "completed"},
        {"content": "Write", "priority": "high", "status": "in_progress"},
    ]);
    for out in [story.live(&mut view(bare())), story.replay(&mut view(bare()))] {
        let out = updates(&out);
        assert_eq!(out.len(), 1, "{out:?}");
        assert_eq!(out[0]["entries"], entries);
    }
}

#[test]
fn settling_ends_open_calls_and_hides_their_later_events() {
    let mut view = view(zed());
    let mut story = Story::new();
    story.begin("1", "bash", "b", json!({"command": "sleep 9"})).begin("2", "grep", "g", json!({}));
    let mut out = story.live(&mut view);
    view.settle(&mut out, "Cancelled.");
    let shown = updates(&out);
    let ends = of_kind(&shown, "tool_call_update");
    let failed: Vec<_> = ends.iter().filter(|update| update["status"] == "failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|update| update["_meta"]["crow"]["cancelled"] == true));
    assert_eq!(failed[0]["_meta"]["terminal_exit"]["terminal_id"], "1");
    let mut late = Story::new();
    late.progress("1", "x").end("1", "bash", ToolResult::cancelled());
    late.start("2", "grep", "g", json!({})).end("2", "grep", ToolResult::cancelled());
    assert!(late.live(&mut view).is_empty());
    assert_eq!(Screen::of(&out).open(), 0);
}

#[test]
fn long_arguments_are_cut_in_the_raw_input() {
    let mut story = Story::new();
    let content = "x".repeat(1_000_000);
    story.pending("1", "write_file", "write a", json!({"path": "a", "content": content}));
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(NoContents))));
    assert!(out[0].to_string().len() < 20_000);
}

#[test]
fn invisible_characters_of_arguments_are_visible_signs_in_the_raw_input() {
    let mut story = Story::new();
    let command = "touch \"a\u{202e}gpj.exe\u{200b}\" \u{1b}[31m";
    story.pending("1", "bash", "touch", json!({"command": command}));
    let out = updates(&story.live(&mut view_with(bare(), Arc::new(NoContents))));
    let shown = out[0]["rawInput"]["command"].as_str().unwrap();
    assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{shown:?}");
    assert!(shown.contains("gpj.exe"), "{shown:?}");
}
