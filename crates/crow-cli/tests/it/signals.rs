//! Ctrl-C and friends.

use std::{io::BufRead as _, process::Command};

use crow_testkit::{Dialect, Fault, Gate, ModelServer, Reply, wait_until};
use serde_json::json;

use crate::{
    jobs::is_at_work,
    program::{Place, finish},
};

const MODEL: &str = "anthropic/claude-test";

pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn an_interrupt_while_the_model_speaks_ends_with_130_and_a_result() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let gate = Gate::new();
        let held = Reply::new()
            .text("well well")
            .with(Fault::StallAfter { events: 4, gate: gate.clone() });
        let server = ModelServer::start([held]).await;
        let place = Place::new().with_server(&server, Dialect::AnthropicMessages);
        let child = place.start(&["run", "talk", "-m", MODEL, "-o", "json"]);
        gate.reached(1).await;
        signal(name, child.id());
        let ran = finish(child).await;
        assert_eq!(ran.exited(130).result()["outcome"], "cancelled", "{name}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_running_command_and_its_children() {
    let server = ModelServer::start([Reply::new().call(
        "c1",
        "bash",
        &json!({"command": "sleep 601 & touch started; sleep 602"}),
    )])
    .await;
    let place = Place::new().with_server(&server, Dialect::AnthropicMessages);
    let child = place.start(&["run", "wait", "-m", MODEL, "-p", "full-auto"]);
    wait_until(|| place.project("started").exists()).await;
    signal("-INT", child.id());
    finish(child).await.exited(130);
    assert!(!is_at_work(&place));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_model_that_says_nothing_is_said_to_be_waited_for() {
    let gate = Gate::new();
    let held = Reply::new().text("late").with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let server = ModelServer::start([held]).await;
    let place = Place::new().with_server(&server, Dialect::AnthropicMessages);
    let mut child = place.start(&["run", "talk", "-m", MODEL]);
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.contains("waiting for") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "nothing was said");
        }
        (line, err)
    });
    // The other end stays open: a program whose messages nobody takes would fail.
    let (line, _err) = reading.await.unwrap();
    assert!(line.contains(MODEL), "{line}");
    gate.open();
    finish(child).await.exited(0);
    server.finish().await.unwrap();
}
