//! Signals: SIGINT, SIGTERM and SIGHUP.

use std::{io::BufRead as _, process::Command};

use crow_testkit::{Fault, ModelServer, ScriptedReply, StreamGate, WireDialect, wait_until};
use serde_json::json;

use crate::{
    jobs::has_running_processes,
    program::{Fixture, feed, finish},
};

const MODEL: &str = "anthropic/claude-test";

pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn a_signal_during_a_reply_ends_the_run_with_130_and_a_result() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let gate = StreamGate::new();
        let stalled_reply = ScriptedReply::new()
            .text("well well")
            .with(Fault::StallAfter { events: 4, gate: gate.clone() });
        let server = ModelServer::start([stalled_reply]).await;
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        let child = fixture.start(&["run", "talk", "-m", MODEL, "-o", "json"]);
        gate.wait_for_arrival(1).await;
        signal(name, child.id());
        let ran = finish(child).await;
        assert_eq!(ran.exited(130).result()["outcome"], "cancelled", "{name}");
    }
}

#[tokio::test]
async fn signals_ignored_at_start_end_a_run_except_sighup() {
    for (name, code) in [("-INT", 130), ("-TERM", 130), ("-HUP", 0)] {
        let gate = StreamGate::new();
        let stalled_reply = ScriptedReply::new()
            .text("well well")
            .with(Fault::StallAfter { events: 4, gate: gate.clone() });
        let server = ModelServer::start([stalled_reply]).await;
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        let args = ["run", "talk", "-m", MODEL];
        let child = fixture.command_ignoring("HUP,INT,QUIT,TERM", &args).spawn().unwrap();
        gate.wait_for_arrival(1).await;
        signal(name, child.id());
        if code == 0 {
            gate.open();
        }
        finish(child).await.exited(code);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn commands_inherit_only_an_ignored_sighup() {
    for sandbox in [&[][..], &["--no-sandbox"]] {
        let list = json!({"command": "grep SigIgn /proc/self/status > ignored"});
        let replies =
            [ScriptedReply::new().call("c1", "bash", &list), ScriptedReply::new().text("Done.")];
        let server = ModelServer::start(replies).await;
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        let args = [&["run", "look", "-m", MODEL, "-p", "full-auto"], sandbox].concat();
        let command = fixture.command_ignoring("HUP,INT,QUIT,TERM", &args);
        feed(command, "").await.exited(0);
        let status_line = std::fs::read_to_string(fixture.project("ignored")).unwrap();
        let mask = status_line.trim().strip_prefix("SigIgn:").unwrap().trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        let is_ignored = |number: u32| mask >> (number - 1) & 1 == 1;
        assert_eq!([1, 2, 3, 15].map(is_ignored), [true, false, false, false], "{sandbox:?}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_running_command_and_its_children() {
    let server = ModelServer::start([ScriptedReply::new().call(
        "c1",
        "bash",
        &json!({"command": "sleep 601 & touch started; sleep 602"}),
    )])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let child = fixture.start(&["run", "wait", "-m", MODEL, "-p", "full-auto"]);
    wait_until(|| fixture.project("started").exists()).await;
    signal("-INT", child.id());
    finish(child).await.exited(130);
    assert!(!has_running_processes(&fixture));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn waiting_for_a_silent_model_is_reported() {
    let gate = StreamGate::new();
    let stalled_reply =
        ScriptedReply::new().text("late").with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let server = ModelServer::start([stalled_reply]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut child = fixture.start(&["run", "talk", "-m", MODEL]);
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.contains("waiting for") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "nothing was said");
        }
        (line, err)
    });
    // The pipe stays open: the program would fail if stderr were closed.
    let (line, _err) = reading.await.unwrap();
    assert!(line.contains(MODEL), "{line}");
    gate.open();
    finish(child).await.exited(0);
    server.finish().await.unwrap();
}
