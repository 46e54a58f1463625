//! The log that `CROW_LOG` enables, on standard error.

use std::fs;

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::Fixture;

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// The key that [`Fixture::with_server`] sets.
const KEY: &str = "sk-test-0123456789";

/// Returns a log with numbers in place of ids, and without times, sizes and process ids.
fn normalized(log: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let mut word = |word: &str| match word.split_once('=') {
        Some((name, value)) if value.len() == 36 && value.matches('-').count() == 4 => {
            let known = ids.iter().position(|id| id == value).unwrap_or_else(|| {
                ids.push(value.to_owned());
                ids.len() - 1
            });
            format!("{name}=<id {known}>")
        }
        Some((name @ ("bytes" | "pid" | "tools" | "containment" | "input_tokens"), _)) => {
            format!("{name}=…")
        }
        Some((name, _)) if name.ends_with("_ms") => format!("{name}=…"),
        _ => word.to_owned(),
    };
    let lines = log.lines().map(|line| {
        let (time, line) = line.trim_start().split_once(' ').unwrap();
        assert!(time.strip_suffix('s').is_some_and(|time| time.parse::<f64>().is_ok()), "{time}");
        line.split(' ').map(&mut word).collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_debug_log_tells_what_a_run_does_without_any_content() {
    let server = ModelServer::start([
        ScriptedReply::new().text("content of a reply").call(
            "c1",
            "read_file",
            &json!({ "path": "content-file" }),
        ),
        ScriptedReply::new().call("c2", "bash", &json!({ "command": "echo content > out" })),
        ScriptedReply::new().text("content of the answer"),
    ])
    .await;
    let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.set_env("CROW_LOG", "debug");
    fs::write(fixture.project("content-file"), "content of a file").unwrap();
    let prompt = format!("content of a prompt with {KEY}");
    let ran = fixture.run(&["run", &prompt, "-m", MODEL, "-p", "full-auto", "-o", "json"]).await;
    ran.exited(0);
    assert!(!ran.err.contains("content"), "{}", ran.err);
    assert!(!ran.err.contains(KEY), "{}", ran.err);
    insta::assert_snapshot!(normalized(&ran.err));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn text_of_a_server_in_the_log_stays_one_line_and_cannot_control_the_terminal() {
    let body = json!({
        "error": { "type": "invalid_request_error", "message": "no\u{1b}]0;title\u{7}\u{202e}\n 0.1s forged" }
    });
    let error =
        ScriptStep::Http { status: 400, headers: Vec::new(), body: body.to_string().into() };
    let server = ModelServer::start([error]).await;
    let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.set_env("CROW_LOG", "debug");
    let ran = fixture.run(&["run", "hi", "-m", MODEL]).await;
    assert!(ran.err.contains("no␛]0;title␇"), "{}", ran.err);
    assert!(!ran.err.contains(['\u{1b}', '\u{202e}']), "{}", ran.err);
    assert!(!ran.err.lines().any(|line| line.starts_with(" 0.1s forged")), "{}", ran.err);
}

#[tokio::test]
async fn libraries_are_silent_unless_the_filter_names_them() {
    for (filter, is_named) in [("debug", false), ("debug,hyper_util=trace", true)] {
        let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
        let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        fixture.set_env("CROW_LOG", filter);
        let ran = fixture.run(&["run", "hi", "-m", MODEL, "-o", "json"]).await;
        assert_eq!(ran.exited(0).err.contains(" hyper_util::"), is_named, "{}", ran.err);
        server.finish().await.unwrap();
    }
}
