//! Redaction of known secrets in requests, logs and output.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, any_file_contains};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const KEY: &str = "sk-test-0123456789";
const TOKEN: &str = "ghp_canary/0123+456789=";

fn with_token(server: &ModelServer) -> Fixture {
    let mut fixture = Fixture::new().with_server(server, WireDialect::AnthropicMessages);
    fixture.set_env("MY_DEPLOY_TOKEN", TOKEN);
    fixture
}

fn bash(id: &str, command: &str) -> ScriptedReply {
    ScriptedReply::new().call(id, "bash", &json!({ "command": command }))
}

#[tokio::test]
async fn a_secret_reaches_neither_the_model_nor_the_log_nor_any_output() {
    let encoded = "Z2hwX2NhbmFyeS8wMTIzKzQ1Njc4OT0";
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "read_file", &json!({"path": ".env"})),
        bash("c2", "cat .env; base64 -w0 token; sleep 0.2; cat halves >&2"),
        bash("c3", &format!("echo {TOKEN} > written; exit 3")),
        ScriptedReply::new().text(format!("The token is {TOKEN}, the key {KEY}.")),
        // The first end is answered with the command that failed.
        ScriptedReply::new().text(format!("The token is {TOKEN}, the key {KEY}.")),
    ])
    .await;
    let fixture = with_token(&server);
    fs::write(fixture.project(".env"), format!("A=1\nTOKEN={TOKEN}\nKEY='{KEY}'\n")).unwrap();
    fs::write(fixture.project("token"), TOKEN).unwrap();
    fs::write(fixture.project("halves"), format!("x{TOKEN}{TOKEN}x")).unwrap();
    let prompt = format!("use {TOKEN}");
    let ran = fixture.run(&["run", &prompt, "-m", MODEL, "-p", "full-auto", "-o", "json"]).await;
    ran.exited(0);
    // The command wrote the real secret, not the redaction mark.
    assert_eq!(fs::read_to_string(fixture.project("written")).unwrap(), format!("{TOKEN}\n"));
    assert!(ran.out.contains("TOKEN=[redacted by crow]"), "{}", ran.out);
    let requests = server.finish().await.unwrap();
    let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
    let id = fixture.id();
    let shown = fixture.run(&["sessions", "show", &id]).await.out
        + &fixture.run(&["sessions", "show", &id, "-o", "json"]).await.out
        + &fixture.run(&["sessions", "list"]).await.out;
    for secret in [TOKEN, KEY, encoded] {
        for (source, text) in
            [("stdout", &ran.out), ("stderr", &ran.err), ("requests", &sent), ("shown", &shown)]
        {
            assert!(!text.contains(secret), "{secret} in {source}: {text}");
        }
        assert!(
            !any_file_contains(&fixture.home(".local/share/crow-agent/sessions"), secret),
            "{secret}"
        );
    }
}

#[tokio::test]
async fn edits_preserve_a_secret_in_a_file() {
    let edit = |id: &str, old: &str, new: &str| {
        ScriptedReply::new().call(
            id,
            "edit_file",
            &json!({"path": ".env", "old_string": old, "new_string": new}),
        )
    };
    let mark = "[redacted by crow]";
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "read_file", &json!({"path": ".env"})),
        edit("c2", "PORT=1", "PORT=2"),
        edit("c3", &format!("TOKEN={mark}\nPORT=2"), &format!("TOKEN={mark}\nPORT=3")),
        ScriptedReply::new().call(
            "c4",
            "write_file",
            &json!({"path": ".env", "content": format!("TOKEN={mark}\nPORT=4\n")}),
        ),
        bash("c5", &format!("echo 'TOKEN={mark}' > .env")),
        ScriptedReply::new().text("I could not write it."),
    ])
    .await;
    let fixture = with_token(&server);
    fs::write(fixture.project(".env"), format!("TOKEN={TOKEN}\nPORT=1\n")).unwrap();
    let ran = fixture.run(&["run", "edit", "-m", MODEL, "-p", "full-auto", "-o", "json"]).await;
    let ends: Vec<_> =
        ran.exited(0).lines().into_iter().filter(|line| line["type"] == "call_end").collect();
    let states: Vec<_> =
        ends.iter().map(|end| end["result"]["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["success", "success", "error", "error", "error"], "{}", ran.out);
    for end in &ends[2..] {
        assert!(end["result"]["output"].as_str().unwrap().contains("destroy the secret"), "{end}");
    }
    let content = fs::read_to_string(fixture.project(".env")).unwrap();
    assert_eq!(content, format!("TOKEN={TOKEN}\nPORT=2\n"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn errors_and_logs_do_not_show_a_secret() {
    let mut fixture = Fixture::new();
    fixture.set_env("MY_DEPLOY_TOKEN", TOKEN);
    fixture.set_env("CROW_LOG", "trace");
    let ran = fixture.run(&["sessions", "show", TOKEN]).await;
    assert!(ran.exited(2).err.contains("[redacted by crow]"), "{}", ran.err);
    assert!(!ran.err.contains("canary"), "{}", ran.err);
}
