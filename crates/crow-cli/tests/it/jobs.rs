//! Background jobs: a server started by an agent, the end of jobs with the program, and undo of their changes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    event::{AgentEvent, Envelope},
    tool::ToolRegistry,
};
use crow_runtime::RuntimeConfig;
use crow_testkit::{
    Fault, ModelServer, NamedPipe, ScriptedReply, StreamGate, WireDialect,
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
    wait_until,
};
use serde_json::json;

use crate::{
    program::{Fixture, finish},
    signals::signal,
    undo_fixture::{self, stdout_of},
};

const MODEL: &str = "anthropic/claude-test";
/// Shell script of a server that answers once the file `request` exists, and keeps running.
const SERVER: &str = "echo listening; until [ -e request ]; do sleep 0.02; done; \
     echo answered; while :; do sleep 1; done";

fn start(model: ScriptedModel) -> AgentHarness {
    let mut tools = ToolRegistry::new();
    crow_tools::register_builtin(&mut tools);
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let runtime =
        RuntimeConfig { child_env: BTreeMap::from([path]).into(), ..RuntimeConfig::default() };
    AgentHarness::start(model, HarnessOptions { tools, runtime, ..HarnessOptions::default() })
}

fn results(events: &[Arc<Envelope>]) -> Vec<&str> {
    let mut results = Vec::new();
    for event in events {
        if let AgentEvent::CallEnd { result, .. } = &event.event {
            results.push(result.output.as_str());
        }
    }
    results
}

fn notices(events: &[Arc<Envelope>]) -> Vec<&str> {
    let mut notices = Vec::new();
    for event in events {
        if let AgentEvent::Notice { text, .. } = &event.event {
            notices.push(text.as_str());
        }
    }
    notices
}

#[tokio::test]
async fn an_agent_starts_a_server_uses_it_and_ends_it() {
    let wait = json!({"job_id": "job-1", "wait_ms": 20_000});
    let mut harness = start(ScriptedModel::new([
        reply([call("c1", "bash", json!({"command": SERVER, "run_in_background": true}))]),
        reply([call("c2", "bash_output", wait.clone())]),
        reply([call("c3", "bash", json!({"command": "touch request"}))]),
        reply([call("c4", "bash_output", wait)]),
        reply([call("c5", "bash_kill", json!({"job_id": "job-1"}))]),
        reply([call("c6", "bash_output", json!({}))]),
        reply([text("it answers")]),
    ]));
    let events = harness.run("does the server answer?").await;
    harness.model.assert_finished();
    let results = results(&events);
    assert_eq!(results[0], "[job-1 runs in the background, until this session ends at the latest]");
    assert!(results[1].starts_with("listening\n[job-1 running for "), "{results:?}");
    assert!(results[3].starts_with("answered\n[job-1 running for "), "{results:?}");
    assert!(results[4].starts_with("(nothing new)\n[job-1 was stopped after "), "{results:?}");
    assert!(results[5].starts_with("job-1 was stopped after "), "{results:?}");
    // No notice about the job's end, because the agent ended it itself.
    assert_eq!(notices(&events), Vec::<&str>::new());
}

#[tokio::test]
async fn a_job_outlives_the_run_and_its_end_is_reported_once() {
    let mut harness = start(ScriptedModel::new([
        reply([call(
            "c1",
            "bash",
            json!({"command": "until [ -e gate ]; do sleep 0.01; done; exit 3", "run_in_background": true}),
        )]),
        reply([text("started")]),
    ]));
    assert_eq!(notices(&harness.run("start it").await), Vec::<&str>::new());
    fs::write(harness.cwd().join("gate"), "").unwrap();
    let mut reported = Vec::new();
    for _ in 0..2000 {
        harness.model.push(reply([text("hm")]));
        let events = harness.run("and?").await;
        reported.extend(notices(&events).into_iter().map(str::to_owned));
        if !reported.is_empty() {
            break;
        }
    }
    for _ in 0..3 {
        harness.model.push(reply([text("hm")]));
        reported.extend(notices(&harness.run("and?").await).into_iter().map(str::to_owned));
    }
    let title = "until [ -e gate ]; do sleep 0.01; done; exit 3";
    assert_eq!(
        reported,
        [format!("job-1 ({title}) ended with exit code 3; its output was not read")]
    );
}

/// A job that writes its process id to `pid`, and that of a detached child to `detached`.
const JOB: &str = "echo $$ > pid; setsid -f sh -c 'echo $$ > detached; exec sleep 601'; sleep 602";
const UNTIL_IT_RUNS: &str =
    "until [ -s pid ] && [ -s detached ]; do sleep 0.01; done; touch started";

/// Returns true if a process runs that was started in the project, by `PWD` in its environment: process ids inside a sandbox
/// are not valid here.
pub(crate) fn has_running_processes(fixture: &Fixture) -> bool {
    let pwd_entry =
        format!("PWD={}\0", fixture.project("").display().to_string().trim_end_matches('/'));
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        // The environment of a zombie is empty.
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(&pwd_entry)
    })
}

#[tokio::test]
async fn no_job_outlives_the_program() {
    let job = json!({"command": JOB, "run_in_background": true});
    let wait = json!({"command": UNTIL_IT_RUNS});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &job),
        ScriptedReply::new().call("c2", "bash", &wait),
        ScriptedReply::new().text("it runs"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "start it", "-m", MODEL, "-p", "full-auto"]).await.exited(0);
    assert!(!has_running_processes(&fixture));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn no_job_outlives_a_program_ended_by_a_signal() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let job = json!({"command": JOB, "run_in_background": true});
        let wait = json!({"command": format!("{UNTIL_IT_RUNS}; sleep 603")});
        let server = ModelServer::start([
            ScriptedReply::new().call("c1", "bash", &job),
            ScriptedReply::new().call("c2", "bash", &wait),
        ])
        .await;
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        let child = fixture.start(&["run", "start it", "-m", MODEL, "-p", "full-auto"]);
        wait_until(|| fixture.project("started").exists()).await;
        signal(name, child.id());
        finish(child).await.exited(130);
        assert!(!has_running_processes(&fixture));
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn jobs_and_commands_end_when_the_program_is_killed() {
    let job = json!({"command": JOB, "run_in_background": true});
    let command = "trap '' TERM; echo $$ > command; touch started; while :; do sleep 1; done";
    let wait = json!({"command": format!("{UNTIL_IT_RUNS}; rm started; {command}")});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &job),
        ScriptedReply::new().call("c2", "bash", &wait),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut child = fixture.start(&["run", "start it", "-m", MODEL, "-p", "full-auto"]);
    wait_until(|| fixture.project("command").exists() && fixture.project("started").exists()).await;
    assert!(has_running_processes(&fixture));
    child.kill().unwrap();
    child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while has_running_processes(&fixture) {
        assert!(Instant::now() < until, "something is still there");
        tokio::task::yield_now().await;
    }
    server.finish().await.unwrap();
}

/// Runs a command that writes some variables to the file `seen`, and returns its content.
async fn seen_by_commands(fixture: Fixture, server: ModelServer) -> String {
    let fixture = fixture.with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "look", "-m", MODEL, "-p", "full-auto"]).await.exited(0);
    server.finish().await.unwrap();
    fs::read_to_string(fixture.project("seen")).unwrap()
}

#[tokio::test]
async fn the_login_shells_exports_are_used_only_if_no_shell_started_the_program() {
    for (level, expected) in [(None, "login::\n"), (Some("1"), "given::\n")] {
        let command = "echo $CARGO_HOME:$ACME_LOGIN:$ANTHROPIC_API_KEY > seen";
        let server = ModelServer::start([
            ScriptedReply::new().call("c1", "bash", &json!({"command": command})),
            ScriptedReply::new().text("done"),
        ])
        .await;
        let mut fixture = Fixture::new();
        let shell = fixture.home("shell");
        let profile = "export CARGO_HOME=login ACME_LOGIN=x ANTHROPIC_API_KEY=y";
        fs::write(&shell, format!("#!/bin/sh\n{profile}\nexec sh -c \"$3\"\n")).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        fixture.set_env("SHELL", shell.to_str().unwrap());
        fixture.set_env("CARGO_HOME", "given");
        if let Some(level) = level {
            fixture.set_env("SHLVL", level);
        }
        assert_eq!(seen_by_commands(fixture, server).await, expected);
    }
}

#[tokio::test]
async fn a_change_by_a_job_after_its_call_is_attributed_to_it_and_undone() {
    let gate = StreamGate::new();
    let stalled_reply = ScriptedReply::new()
        .text("It builds.")
        .with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let command = "read line < go; echo built > out; echo > done; exec sleep 1000";
    let input = json!({"command": command, "run_in_background": true});
    let start = ScriptedReply::new().call("c1", "bash", &input).into();
    let (_server, fixture) = undo_fixture::with_replies([start, stalled_reply]).await;
    let [go, done] = ["go", "done"].map(|name| NamedPipe::at(&fixture.project(name)));
    let running = fixture.start(&["run", "build", "-m", undo_fixture::MODEL, "-p", "full-auto"]);
    gate.wait_for_arrival(1).await;
    go.signal().await;
    done.wait_for_signal().await;
    gate.open();
    finish(running).await.exited(0);
    let id = fixture.id();
    let changes = stdout_of(&fixture, &["sessions", "show", &id, "--changes"], 0).await;
    assert!(changes.contains("job: read"), "{changes}");
    let diff = stdout_of(&fixture, &["diff", "c1"], 0).await;
    assert!(diff.contains("+built"), "{diff}");
    let undone = stdout_of(&fixture, &["undo"], 0).await;
    assert!(undone.contains("job: read"), "{undone}");
    assert!(!fixture.project("out").exists());
}

/// Kills the program after its job has written a file of the project. The server then replies with `next`.
async fn kill_program_with_a_job(next: ScriptedReply) -> (ModelServer, Fixture) {
    let gate = StreamGate::new();
    let stalled_reply = ScriptedReply::new()
        .text("It builds.")
        .with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let command = "read line < go; echo built > out; echo > done; exec sleep 1000";
    let input = json!({"command": command, "run_in_background": true});
    let start = ScriptedReply::new().call("c1", "bash", &input).into();
    let (server, fixture) = undo_fixture::with_replies([start, stalled_reply, next.into()]).await;
    let [go, done] = ["go", "done"].map(|name| NamedPipe::at(&fixture.project(name)));
    let mut running =
        fixture.start(&["run", "build", "-m", undo_fixture::MODEL, "-p", "full-auto"]);
    gate.wait_for_arrival(1).await;
    go.signal().await;
    done.wait_for_signal().await;
    running.kill().unwrap();
    running.wait().unwrap();
    gate.open();
    (server, fixture)
}

#[tokio::test]
async fn a_change_by_a_job_killed_with_the_program_needs_a_forced_undo() {
    let (_server, fixture) =
        kill_program_with_a_job(ScriptedReply::new().text("Never asked.")).await;
    let id = fixture.id();
    let changes = stdout_of(&fixture, &["sessions", "show", &id, "--changes"], 0).await;
    assert!(changes.contains("job: read"), "{changes}");
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    assert!(diff.contains("+built"), "{diff}");
    let report = stdout_of(&fixture, &["undo"], 1).await;
    assert!(report.contains("cut off, so it is unclear whether it or something else"), "{report}");
    assert!(fixture.project("out").exists());
    stdout_of(&fixture, &["undo", "--force"], 0).await;
    assert!(!fixture.project("out").exists());
    stdout_of(&fixture, &["redo"], 0).await;
    assert_eq!(fs::read_to_string(fixture.project("out")).unwrap(), "built\n");
}

#[tokio::test]
async fn a_resumed_session_records_changes_of_a_killed_job_and_no_later_ones() {
    let (_server, fixture) = kill_program_with_a_job(ScriptedReply::new().text("I see.")).await;
    let id = fixture.id();
    fixture.run(&["run", "go on", "--resume", &id, "-p", "full-auto"]).await.exited(0);
    fs::write(fixture.project("later"), "mine\n").unwrap();
    let changes = stdout_of(&fixture, &["sessions", "show", &id, "--changes"], 0).await;
    assert!(changes.contains("job: read") && changes.contains("out"), "{changes}");
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    assert!(diff.contains("+built") && !diff.contains("mine"), "{diff}");
    stdout_of(&fixture, &["undo", "--to-start", "--force"], 0).await;
    assert!(!fixture.project("out").exists());
    assert!(fixture.project("later").exists());
}
