//! Patches in the real program: an agent that is offered `apply_patch`, and one that calls it by habit.

use std::fs;

use crow_testkit::{ScriptStep, ScriptedReply};
use serde_json::{Value, json};

use crate::{
    program::Fixture,
    undo_fixture::{bash, run, stdout_of, with_replies},
};

const AGENT: &str = "[agent]\nname = \"patcher\"\nrole = \"primary\"\ndescription = \"patches files\"\n\n[tools]\nenabled = [\"read_file\", \"apply_patch\", \"bash\"]\n\n[prompt]\nsystem = \"You patch files.\"\n";

const PATCH: &str = "*** Begin Patch\n*** Update File: largest.sh\n@@\n-printf '%s\\n' \"$@\" | sort -r | head -n 1\n+printf '%s\\n' \"$@\" | sort -rn | head -n 1\n*** Add File: docs/notes.txt\n+Numbers are compared as numbers.\n*** Update File: old.txt\n*** Move to: new.txt\n*** End Patch";

fn patch(text: &str) -> ScriptedReply {
    ScriptedReply::new().call("p", "apply_patch", &json!({ "input": text }))
}

/// Returns the replies of a model that patches the script, runs it and ends.
fn patched_and_run() -> [ScriptStep; 3] {
    [
        patch(PATCH).into(),
        bash("r", "sh largest.sh 9 10"),
        ScriptedReply::new().text("Done.").into(),
    ]
}

/// Writes the files that the patch changes.
fn prepare(fixture: &Fixture) {
    let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" | sort -r | head -n 1\n";
    fs::write(fixture.project("largest.sh"), script).unwrap();
    fs::write(fixture.project("old.txt"), "kept\n").unwrap();
}

fn tool_names(request: &Value) -> Vec<&str> {
    request["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_patch_changes_several_files_and_is_undone_as_one() {
    let (server, fixture) = with_replies(patched_and_run()).await;
    prepare(&fixture);
    let folder = fixture.home(".config/crow-agent/agents/base");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("patcher.toml"), AGENT).unwrap();
    let ran = fixture
        .run(&[
            "run",
            "patch",
            "-a",
            "patcher",
            "-m",
            "anthropic/claude-sonnet-4-5",
            "-p",
            "full-auto",
        ])
        .await;
    ran.exited(0);
    assert!(fs::read_to_string(fixture.project("largest.sh")).unwrap().contains("sort -rn"));
    assert!(fixture.project("docs/notes.txt").exists());
    assert_eq!(fs::read_to_string(fixture.project("new.txt")).unwrap(), "kept\n");
    assert!(!fixture.project("old.txt").exists());
    let requests = server.finish().await.unwrap();
    assert!(tool_names(&requests[0].body).contains(&"apply_patch"));
    stdout_of(&fixture, &["undo"], 0).await;
    assert!(fs::read_to_string(fixture.project("largest.sh")).unwrap().contains("sort -r |"));
    assert!(!fixture.project("docs").exists() && !fixture.project("new.txt").exists());
    assert_eq!(fs::read_to_string(fixture.project("old.txt")).unwrap(), "kept\n");
}

#[tokio::test]
async fn the_builder_is_not_offered_apply_patch_and_may_call_it_nevertheless() {
    let (server, fixture) = with_replies(patched_and_run()).await;
    prepare(&fixture);
    run(&fixture, "patch").await.exited(0);
    assert!(fs::read_to_string(fixture.project("largest.sh")).unwrap().contains("sort -rn"));
    let requests = server.finish().await.unwrap();
    let names = tool_names(&requests[0].body);
    assert!(!names.contains(&"apply_patch") && names.contains(&"edit_file"), "{names:?}");
}

#[tokio::test]
async fn a_patch_of_a_protected_file_is_refused_as_a_whole_where_nobody_can_be_asked() {
    let body = PATCH.replace("docs/notes.txt", ".git/hooks/pre-commit");
    let (server, fixture) =
        with_replies([patch(&body).into(), ScriptedReply::new().text("I could not.").into()]).await;
    prepare(&fixture);
    let before = fs::read_to_string(fixture.project("largest.sh")).unwrap();
    run(&fixture, "patch").await;
    assert_eq!(fs::read_to_string(fixture.project("largest.sh")).unwrap(), before);
    assert!(!fixture.project(".git/hooks/pre-commit").exists());
    assert!(fixture.project("old.txt").exists());
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("no terminal to ask at"), "{last}");
}

#[tokio::test]
async fn a_shell_line_with_apply_patch_is_answered_with_the_tool() {
    let line = format!("apply_patch <<'EOF'\n{PATCH}\nEOF");
    let (server, fixture) = with_replies([
        ScriptedReply::new().call("b", "bash", &json!({ "command": line })).into(),
        ScriptedReply::new().text("I see.").into(),
    ])
    .await;
    prepare(&fixture);
    run(&fixture, "patch").await;
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("[apply_patch is a tool, not a program"), "{last}");
}
