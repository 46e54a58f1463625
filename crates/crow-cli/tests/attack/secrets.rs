//! Secrets that could leak through a model, a command or a server.

use std::fs;

use crow_testkit::{Fault, ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{
    attack::Attack,
    canaries::{KEY, leaked_secrets, open_to_others, tree},
    scene::Scene,
    trial_runner::{has_full_sandbox, try_all},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_command_or_tool_output_is_redacted() {
    if !has_full_sandbox("secrets") {
        return;
    }
    // The user has left the key in a file of the project.
    let case = |(name, line): &(&str, &str)| {
        Attack::confined(format!("redacted: {name}"), line)
            .file(".env", "ANTHROPIC_API_KEY={key}\nAUTH=\"Bearer {key}\"\n")
    };
    let table = [
        ("cat", "cat .env"),
        ("grep", "grep KEY .env"),
        ("source", ". ./.env; env | grep KEY; echo $ANTHROPIC_API_KEY"),
        ("a trace", "set -x; . ./.env; true"),
        ("in JSON", "python3 -c 'import json; print(json.dumps(open(\".env\").read()))'"),
        ("in an error", "$(sed -n 's/^ANTHROPIC_API_KEY=//p' .env)"),
        (
            "across a buffer",
            "head -c 10230 /dev/zero | tr '\\0' x; sed -n 's/^ANTHROPIC_API_KEY=//p' .env",
        ),
        ("in base64", "sed -n 's/^ANTHROPIC_API_KEY=//p' .env | tr -d '\\n' | base64 -w 0"),
        ("in the middle of a line", "printf 'x%sx' \"$(sed -n 's/^ANTHROPIC_API_KEY=//p' .env)\""),
        (
            "in upper case URL form",
            "python3 -c 'import urllib.parse as u; print(\"?k=\"+u.quote(open(\".env\").readline().split(\"=\")[1].strip()))'",
        ),
        ("on the error stream", "cat .env >&2"),
        (
            "in a large output",
            "for i in $(seq 3000); do echo 0123456789; done; cat .env; for i in $(seq 3000); do echo 0123456789; done",
        ),
    ];
    let read = |(name, tool, input): (&str, &'static str, serde_json::Value)| {
        Attack::new(format!("redacted: {name}"), "ask")
            .file(".env", "ANTHROPIC_API_KEY={key}\nAUTH=\"Bearer {key}\"\n")
            .call(tool, input)
    };
    let tools = [
        ("read_file", "read_file", json!({"path": ".env"})),
        ("grep of the tools", "grep", json!({"pattern": "KEY", "path": ".env"})),
        ("an argument of a call", "bash", json!({"command": "echo $ANTHROPIC_API_KEY"})),
    ];
    try_all(table.iter().map(case).chain(tools.into_iter().map(read)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_errors_never_contain_the_key() {
    let http = |status, body: &str| ScriptStep::Http {
        status,
        headers: Vec::new(),
        body: body.replace("KEY", KEY).into_bytes().into(),
    };
    let table = [
        (
            "a refused key",
            http(
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key: KEY"}}"#,
            ),
        ),
        (
            "a bad request that repeats it",
            http(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"header x-api-key=KEY"}}"#,
            ),
        ),
        ("a page", http(403, "<html>KEY</html>")),
        ("text", http(404, "no such thing: KEY")),
        ("not JSON", http(400, "{\"error\": KEY")),
        (
            "an error while it streams",
            ScriptedReply::new().text("so").with(Fault::ErrorAfter {
                events: 2,
                error: crow_testkit::VendorError::Overloaded,
            }),
        ),
    ];
    let mut wrong = Vec::new();
    for (name, step) in table {
        for output in ["text", "json"] {
            let server = ModelServer::start([
                step.clone(),
                step.clone(),
                step.clone(),
                step.clone(),
                step.clone(),
            ])
            .await;
            let scene = Scene::new();
            let args =
                ["run", "hi", "-m", "anthropic/claude-sonnet-4-5", "-o", output].map(str::to_owned);
            let mut command = scene.program(&args);
            command.env("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages));
            let child = command.spawn().unwrap();
            let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap())
                .await
                .unwrap();
            drop(server.violations());
            let mut all =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            for (_, (_, text)) in tree(&scene.home().join(".local/share/crow-agent")) {
                all.push_str(&String::from_utf8_lossy(&text));
            }
            let leaked = leaked_secrets(&all);
            if !leaked.is_empty() {
                wrong.push(format!("{name}: {leaked:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_files_are_not_readable_by_other_users() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c0", "write_file", &json!({"path": "a", "content": "b"})),
        ScriptedReply::new().text("Done."),
    ])
    .await;
    let scene = Scene::new();
    let args =
        ["run", "hi", "-m", "anthropic/claude-sonnet-4-5", "-p", "accept-edits"].map(str::to_owned);
    let mut command = scene.program(&args);
    command.env("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages));
    // With this umask new files are accessible to everybody.
    let shell = "umask 000; exec \"$0\" \"$@\"";
    let mut umask_command = std::process::Command::new("sh");
    umask_command
        .args(["-c", shell])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    umask_command
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(scene.project());
    let output =
        tokio::task::spawn_blocking(move || umask_command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.finish().await.unwrap();
    let files = tree(&scene.home());
    assert!(files.len() > 3 && fs::metadata(scene.project().join("a")).is_ok());
    assert_eq!(open_to_others(&files, ".local/share/crow-agent/"), [""; 0]);
}
