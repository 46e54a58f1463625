//! Shared helpers: a fixture with scripted replies, and runs with undo commands.

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, RunOutput};

pub(crate) const MODEL: &str = "anthropic/claude-sonnet-4-5";

pub(crate) fn bash(id: &str, command: &str) -> ScriptStep {
    ScriptedReply::new().call(id, "bash", &json!({"command": command})).into()
}

pub(crate) async fn with_replies<const N: usize>(
    replies: [ScriptStep; N],
) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

pub(crate) async fn run(fixture: &Fixture, prompt: &str) -> RunOutput {
    fixture.run(&["run", prompt, "-m", MODEL, "-p", "full-auto"]).await
}

/// Runs the program, checks its exit code and that stderr is empty, and returns stdout.
pub(crate) async fn stdout_of(fixture: &Fixture, args: &[&str], code: i32) -> String {
    let ran = fixture.run(args).await;
    ran.exited(code);
    assert_eq!(ran.err, "", "{args:?}");
    ran.out
}
