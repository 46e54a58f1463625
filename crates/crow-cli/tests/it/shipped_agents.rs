//! The shipped compositions with the real program: each behaves as described.

use std::fs;

use crow_testkit::{
    Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, WireDialect, wait_until,
};
use serde_json::{Value, json};

use crate::{
    jobs::has_running_processes,
    program::{Fixture, finish},
    signals::signal,
    terminal::Terminal,
    undo_fixture::{MODEL, with_replies},
};

fn call(id: &str, tool: &str, arguments: &Value) -> ScriptStep {
    ScriptedReply::new().call(id, tool, arguments).into()
}

fn submit_call(id: &str, summary: &str) -> ScriptStep {
    call(id, "submit_for_review", &json!({ "summary": summary }))
}

fn complete_call(id: &str) -> ScriptStep {
    call(id, "task_complete", &json!({"summary": "It is done."}))
}

fn write_call(id: &str, path: &str) -> ScriptStep {
    call(id, "write_file", &json!({"path": path, "content": "x\n"}))
}

fn events_of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn args<'a>(agent: &'a str, prompt: &'a str) -> [&'a str; 10] {
    ["run", "-a", agent, "-m", MODEL, "-p", "full-auto", "-o", "json", prompt]
}

#[tokio::test]
async fn plan_cannot_write_files() {
    let (server, fixture) = with_replies([
        write_call("w", "made"),
        call("b", "bash", &json!({"command": "touch made"})),
        ScriptedReply::new().text("1. Write the file.").into(),
    ])
    .await;
    let ran = fixture.run(&args("PLAN", "plan it")).await;
    let lines = ran.exited(0).lines();
    let ends = events_of_kind(&lines, "call_end");
    let statuses: Vec<_> = ends.iter().map(|end| end["result"]["status"].as_str()).collect();
    assert_eq!(statuses, [Some("error"), Some("error")]);
    assert_eq!(ran.result()["outcome"], "needs_input");
    assert!(!fixture.project("made").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn build_loop_continues_until_the_agent_reports_completion() {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("Half of it.").into(),
        write_call("w", "made"),
        complete_call("t"),
    ])
    .await;
    let ran = fixture.run(&args("BUILD-LOOP", "do it")).await;
    assert_eq!(ran.exited(0).result()["outcome"], "completed");
    assert!(fixture.project("made").exists());
    let requests = server.finish().await.unwrap();
    assert!(requests[1].body.to_string().contains("Go on with the task."));
}

#[tokio::test]
async fn the_partner_of_build_chat_receives_a_submission_without_text() {
    let (server, fixture) = with_replies([
        submit_call("s", "I wrote the parser."),
        ScriptedReply::new().text("And its test?").into(),
        submit_call("s2", "The test is there."),
        complete_call("t"),
    ])
    .await;
    let ran = fixture.run(&args("BUILD-CHAT", "do it")).await;
    assert_eq!(ran.exited(0).result()["outcome"], "completed");
    let requests = server.finish().await.unwrap();
    for (request, words) in
        [(1, "I wrote the parser."), (2, "And its test?"), (3, "The test is there.")]
    {
        let last = requests[request].body["messages"].as_array().unwrap().last().unwrap();
        assert!(last.to_string().contains(words), "{words}: {last}");
    }
}

#[tokio::test]
async fn task_smart_is_run_reviewed_and_undone_as_part_of_a_call() {
    let (server, fixture) = with_replies([
        call("t", "task", &json!({"agent": "TASK-SMART", "prompt": "Make the file made."})),
        write_call("w", "made"),
        submit_call("s", "made is there."),
        // The model call that writes the handoff for the reviewer.
        ScriptedReply::new().text("See that made is there.").into(),
        write_call("w2", "also"),
        complete_call("c"),
        ScriptedReply::new().text("Both are there.").into(),
    ])
    .await;
    let ran = fixture.run(&args("BUILD-HITL", "do it")).await;
    let lines = ran.exited(0).lines();
    let start = events_of_kind(&lines, "subagent_start");
    assert_eq!(start.len(), 1, "{start:?}");
    let verdicts = events_of_kind(&lines, "review_verdict");
    assert_eq!((verdicts.len(), &verdicts[0]["verdict"]), (1, &json!("approved")));
    let complete = events_of_kind(&lines, "task_complete");
    assert_eq!((complete.len(), &complete[0]["agent"]), (1, &json!("task_reviewer")));
    assert_eq!(ran.result()["outcome"], "needs_input", "the end of a part is not that of the run");
    assert!(fixture.project("made").exists() && fixture.project("also").exists());
    fixture.run(&["undo"]).await.exited(0);
    assert!(!fixture.project("made").exists() && !fixture.project("also").exists());
    let requests = server.finish().await.unwrap();
    let reviewer = requests[4].body["messages"].to_string();
    assert!(reviewer.contains("See that made is there."), "{reviewer}");
}

#[tokio::test]
async fn max_rounds_limits_a_run_that_is_sent_back() {
    let (server, fixture) =
        with_replies([submit_call("s", "ready"), ScriptedReply::new().text("No test.").into()])
            .await;
    let mut args = args("BUILD-JUDGE", "do it").to_vec();
    args.extend(["--max-rounds", "1"]);
    let ran = fixture.run(&args).await;
    let result = ran.result();
    assert_eq!((&result["outcome"], ran.code), (&json!("stopped"), Some(5)), "{result}");
    assert_eq!(result["error"]["hint"], "--max-rounds raises the limit");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn max_rounds_overrides_a_lower_limit_in_the_agent_file() {
    // The file of BUILD-LOOP allows ten rounds.
    let mut script: Vec<ScriptStep> =
        (1..=11).map(|n| ScriptedReply::new().text(format!("Part {n}.")).into()).collect();
    script.push(complete_call("t"));
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut args = args("BUILD-LOOP", "do it").to_vec();
    args.extend(["--max-rounds", "20"]);
    assert_eq!(fixture.run(&args).await.exited(0).result()["outcome"], "completed");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_interrupt_during_a_review_ends_with_130_and_leaves_no_process() {
    let (server, fixture) = with_replies([
        submit_call("s", "ready"),
        call("b", "bash", &json!({"command": "sleep 601 & touch started; sleep 602"})),
    ])
    .await;
    let child = fixture.start(&args("BUILD-SMART", "do it"));
    wait_until(|| fixture.project("started").exists()).await;
    signal("-INT", child.id());
    let ran = finish(child).await;
    assert_eq!(ran.exited(130).result()["outcome"], "cancelled");
    assert!(!has_running_processes(&fixture));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_interrupt_during_a_reviewer_reply_cancels_the_run() {
    let gate = StreamGate::new();
    let stalled_reply = ScriptedReply::new()
        .text("hm hm")
        .with(Fault::StallAfter { events: 4, gate: gate.clone() });
    let (server, fixture) = with_replies([submit_call("s", "ready"), stalled_reply]).await;
    let child = fixture.start(&args("BUILD-JUDGE", "do it"));
    gate.wait_for_arrival(1).await;
    signal("-INT", child.id());
    assert_eq!(finish(child).await.exited(130).result()["outcome"], "cancelled");
    drop(server);
}

#[tokio::test]
async fn an_edit_that_breaks_an_agent_does_not_end_a_session_that_uses_it() {
    let server = ModelServer::start([
        ScriptedReply::new().text("First."),
        ScriptedReply::new().text("Second."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let folder = fixture.home(".config/crow-agent/agents/base");
    fs::create_dir_all(&folder).unwrap();
    fixture.run(&["agents", "new", "mine"]).await.exited(0);
    let mut terminal =
        Terminal::start(&fixture, &["-a", "mine", "-m", MODEL], 80, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("one\r");
    terminal.wait_for_text("First.").await.wait_for_prompt("").await;
    fs::write(folder.join("mine.toml"), "[agent\n").unwrap();
    terminal.type_keys("/model anthropic/claude-haiku-4-5\r");
    terminal.wait_for_text("mine.toml:1:7").await.wait_for_prompt("").await;
    terminal.type_keys("two\r");
    terminal.wait_for_text("Second.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    assert_eq!(requests[0].body["model"], requests[1].body["model"]);
}

#[tokio::test]
async fn a_judge_whose_model_cannot_call_tools_causes_a_warning() {
    let (server, fixture) =
        with_replies([submit_call("s", "ready"), ScriptedReply::new().text("I approve.").into()])
            .await;
    let folder = fixture.home(".config/crow-agent/providers");
    fs::create_dir_all(&folder).unwrap();
    let url = server.base_url(WireDialect::AnthropicMessages);
    let text = format!(
        "[provider]\nname = \"anthropic\"\ntype = \"anthropic\"\nbase_url = \"{url}\"\n[models.mute]\nsupports_tools = false\n"
    );
    fs::write(folder.join("anthropic.toml"), text).unwrap();
    let mut args = args("BUILD-JUDGE", "do it").to_vec();
    args.extend(["--reviewer-model", "anthropic/mute", "--max-rounds", "1"]);
    let ran = fixture.run(&args).await;
    let warning = "reviewer: anthropic/mute cannot call tools, so it can never say";
    assert!(ran.err.contains(warning) || ran.out.contains(warning), "{}{}", ran.err, ran.out);
    assert_eq!(ran.result()["outcome"], "stopped");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_first_request_stays_small() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Hello.").into()]).await;
    for folder in [".git/objects", ".git/refs/heads"] {
        fs::create_dir_all(fixture.project(folder)).unwrap();
    }
    fs::write(fixture.project(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let ran = fixture.run(&["run", "-m", MODEL, "-p", "full-auto", "hello"]).await;
    ran.exited(0);
    let requests = server.finish().await.unwrap();
    let request = String::from_utf8_lossy(&requests[0].raw_body);
    let facts = ["permissions: mode full-auto", "network of commands: ", "(branch main)"];
    assert!(facts.iter().all(|fact| request.contains(fact)), "{request}");
    assert!(request.len() <= 11_000, "{} bytes", request.len());
}
