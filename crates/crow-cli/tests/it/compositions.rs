//! Compositions with the real program: agents that look at each other's work in a real project.

use std::{fs, process::Command};

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::{Value, json};

use crate::{
    program::Fixture,
    undo_fixture::{MODEL, bash, with_replies},
};

const STILL_WRONG: &str = "#!/bin/sh\n# Prints the sum of its arguments.\nsum=1\nfor n in \"$@\"; do sum=$((sum + n)); done\necho \"$sum\"\n";
const CHECK: &str = "[ \"$(sh sum.sh 1 2 3)\" = 6 ] || { echo 'sum of 1 2 3 is not 6'; exit 1; }\n";

/// Creates a repository with a check for a script that does not exist yet.
fn repository(fixture: &Fixture) {
    fs::write(fixture.project("check.sh"), CHECK).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=T", "-c", "user.email=t@example.org"]).args(args);
        let command = command.current_dir(fixture.project("")).env("HOME", fixture.home(""));
        assert!(command.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
}

fn call(id: &str, tool: &str, arguments: &Value) -> ScriptStep {
    ScriptedReply::new().call(id, tool, arguments).into()
}

fn configure(fixture: &Fixture, text: &str) {
    fs::create_dir_all(fixture.home(".config/crow-agent")).unwrap();
    fs::write(fixture.home(".config/crow-agent/config.toml"), text).unwrap();
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_reviewer_of_build_smart_repairs_the_bug_that_the_primary_left() {
    let (server, fixture) = with_replies([
        call("w", "write_file", &json!({"path": "sum.sh", "content": STILL_WRONG})),
        call(
            "s",
            "submit_for_review",
            &json!({"summary": "sum.sh adds its arguments. All tests pass."}),
        ),
        // The reviewer runs the check itself, finds the bug, and repairs it.
        bash("c1", "sh check.sh"),
        call("r", "read_file", &json!({"path": "sum.sh"})),
        call(
            "e",
            "edit_file",
            &json!({"path": "sum.sh", "old_string": "sum=1", "new_string": "sum=0"}),
        ),
        bash("c2", "sh check.sh"),
        call(
            "t",
            "task_complete",
            &json!({"summary": "The sum began at 1; I let it begin at 0, and check.sh passes."}),
        ),
    ])
    .await;
    repository(&fixture);
    let task = "Write sum.sh, which prints the sum of its arguments; check.sh must pass.";
    let args = ["run", "-a", "BUILD-SMART", "-m", MODEL, "-p", "full-auto", "-o", "json", task];
    let ran = fixture.run(&args).await;
    let events = events(&ran.exited(0).out);
    assert_eq!(fixture.check().status.code(), Some(0));
    let result = events.last().unwrap();
    assert_eq!(result["outcome"], "completed", "{result}");
    let events_of_kind =
        |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let verdicts = events_of_kind("review_verdict");
    assert_eq!((verdicts.len(), &verdicts[0]["verdict"]), (1, &json!("approved")));
    let complete = events_of_kind("task_complete");
    assert_eq!((complete.len(), &complete[0]["agent"]), (1, &json!("reviewer")));
    let handoff = events_of_kind("handoff")[0]["prompt"].as_str().unwrap();
    for part in [task, "A sum.sh", "+sum=1", "All tests pass."] {
        let shown = handoff.contains(part) || handoff.contains(&part.replace("A sum.sh", "sum.sh"));
        assert!(shown, "{part}: {handoff}");
    }
    // The list shows one session, and one undo reverts the changes of both agents.
    let listed = fixture.run(&["sessions", "list"]).await;
    assert_eq!(
        listed.exited(0).out.lines().filter(|line| line.contains("Write sum.sh")).count(),
        1
    );
    fixture.run(&["undo"]).await.exited(0);
    assert!(!fixture.project("sum.sh").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn text_output_shows_the_reviewer_and_its_messages() {
    let (server, fixture) = with_replies([
        call("s", "submit_for_review", &json!({"summary": "Nothing was to do."})),
        ScriptedReply::new().text("sum.sh is missing.").into(),
        call("w", "write_file", &json!({"path": "sum.sh", "content": "echo 6\n"})),
        call("s2", "submit_for_review", &json!({"summary": "Written."})),
        // The first completion is answered with what was never run.
        call("t", "task_complete", &json!({"summary": "It is there."})),
        call("t2", "task_complete", &json!({"summary": "It is there."})),
    ])
    .await;
    repository(&fixture);
    let args = ["run", "--agent", "BUILD-JUDGE", "-m", MODEL, "-p", "full-auto", "write sum.sh"];
    let ran = fixture.run(&args).await;
    ran.exited(0);
    let shown = ran.err.replace(&fixture.project("").display().to_string(), "PROJECT");
    for part in ["reviewer", "sum.sh is missing.", "It is there."] {
        assert!(shown.contains(part) || ran.out.contains(part), "{part}: {shown}{}", ran.out);
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_task_is_complete_only_when_the_configured_checks_pass() {
    let complete = |id: &str| call(id, "task_complete", &json!({"summary": "Done, verified."}));
    let write =
        |id: &str, text: &str| call(id, "write_file", &json!({"path": "sum.sh", "content": text}));
    let (server, fixture) = with_replies([
        complete("t1"),
        write("w1", STILL_WRONG),
        complete("t2"),
        call(
            "e",
            "edit_file",
            &json!({"path": "sum.sh", "old_string": "sum=1", "new_string": "sum=0"}),
        ),
        complete("t3"),
    ])
    .await;
    repository(&fixture);
    configure(&fixture, "[checks]\ncommands = [\"sh check.sh\"]\n");
    let args = ["run", "-m", MODEL, "-p", "full-auto", "-o", "json", "write sum.sh"];
    let ran = fixture.run(&args).await;
    let events = events(&ran.exited(0).out);
    let ends = events
        .iter()
        .filter(|event| event["type"] == "call_end" && event["tool"] == "task_complete");
    let ends: Vec<_> = ends.map(|event| event["result"]["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["error", "error", "success"]);
    let result = events.last().unwrap();
    assert_eq!(
        (&result["outcome"], &result["verified"]),
        (&json!("completed"), &json!(true)),
        "{result}"
    );
    server.finish().await.unwrap();
}

#[tokio::test]
async fn model_flags_choose_the_models_of_primary_and_reviewer() {
    let (server, fixture) = with_replies([
        call("s", "submit_for_review", &json!({"summary": "ok"})),
        call("t", "task_complete", &json!({"summary": "ok"})),
    ])
    .await;
    let reviewer = format!("{MODEL}-small");
    let args = [
        "run",
        "-a",
        "BUILD-JUDGE",
        "-m",
        MODEL,
        "--reviewer-model",
        &reviewer,
        "-p",
        "full-auto",
        "x",
    ];
    fixture.run(&args).await.exited(0);
    let models: Vec<_> =
        server.requests().iter().map(|request| request.body["model"].clone()).collect();
    let name = MODEL.split_once('/').unwrap().1;
    assert_eq!(models, [json!(name), json!(format!("{name}-small"))]);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_agent_that_names_its_model_needs_no_default_model() {
    let server = ModelServer::start([ScriptStep::from(ScriptedReply::new().text("Hello."))]).await;
    let fixture = Fixture::new();
    let write = |name: &str, text: &str| {
        let path = fixture.home(".config/crow-agent").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let url = server.base_url(WireDialect::AnthropicMessages);
    write(
        "providers/work.toml",
        &format!(
            "[provider]\nname = \"work\"\ntype = \"anthropic-messages\"\nbase_url = \"{url}\"\n"
        ),
    );
    write(
        "agents/base/own.toml",
        "[agent]\nname = \"own\"\n\n[model]\nprovider = \"work\"\nmodel = \"small\"\n\n[tools]\nenabled = []\n\n[prompt]\nsystem = \"Greet.\"\n",
    );
    let ran = fixture.run(&["run", "-a", "own", "hi"]).await;
    assert_eq!(ran.exited(0).out, "Hello.\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_unknown_agent_is_reported_before_a_missing_model() {
    let ran = Fixture::new().run(&["run", "-a", "NOPE", "hi"]).await;
    assert!(ran.exited(2).err.contains("there is no agent \"NOPE\""), "{}", ran.err);
}

#[tokio::test]
async fn an_unknown_agent_is_a_usage_error() {
    let (server, fixture) = with_replies([]).await;
    let ran = fixture.run(&["run", "-a", "BUILD-SMRT", "-m", MODEL, "x"]).await;
    let error_text = &ran.exited(2).err;
    assert!(
        error_text.contains("there is no agent \"BUILD-SMRT\", did you mean \"BUILD-SMART\"?"),
        "{error_text}"
    );
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_resumed_session_keeps_its_agent_unless_another_is_named() {
    let (server, fixture) = with_replies([
        call("s", "submit_for_review", &json!({"summary": "one"})),
        call("t", "task_complete", &json!({"summary": "fine"})),
        call("s2", "submit_for_review", &json!({"summary": "two"})),
        call("t2", "task_complete", &json!({"summary": "fine again"})),
        ScriptedReply::new().text("Alone.").into(),
    ])
    .await;
    let run = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let fixture = &fixture;
        async move {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            fixture.run(&args).await
        }
    };
    run(&["run", "-a", "BUILD-JUDGE", "-m", MODEL, "-p", "full-auto", "one"]).await.exited(0);
    let id = fixture
        .run(&["sessions", "list", "-o", "json"])
        .await
        .out
        .lines()
        .next()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["session_id"].clone())
        .unwrap();
    let id = id.as_str().unwrap();
    run(&["sessions", "resume", id, "-p", "full-auto", "two"]).await.exited(0);
    let other =
        run(&["sessions", "resume", id, "-a", "builder", "-p", "full-auto", "-o", "json", "three"])
            .await;
    let events = events(&other.exited(0).out);
    assert!(!events.iter().any(|event| event["type"] == "handoff"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn agent_messages_are_printed_in_order_if_stdout_is_a_pipe() {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("How about a hash map?").into(),
        ScriptedReply::new().text("Almost: the order matters.").into(),
        ScriptedReply::new().text("Then a tree.").into(),
        call("t", "task_complete", &json!({"summary": "A tree it is."})),
    ])
    .await;
    let args = ["run", "-a", "BUILD-CHAT", "-m", MODEL, "Which structure?"];
    let ran = fixture.run(&args).await;
    ran.exited(0);
    let at = |text: &str| ran.err.find(text).unwrap_or_else(|| panic!("{text}: {}", ran.err));
    let words = ["How about a hash map?", "Almost: the order matters.", "Then a tree."].map(at);
    assert!(words.is_sorted(), "{}", ran.err);
    server.finish().await.unwrap();
}
