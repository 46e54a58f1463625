//! The example `coder_agent`, which has its own loop and a console.
#![expect(clippy::disallowed_methods, reason = "the test starts the example as a user would")]

use std::{env::current_exe, fs, io::Write as _, process::Stdio};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;
use tokio::{process::Command, time::timeout};

/// Time in which the example must end.
const DEADLINE: std::time::Duration = std::time::Duration::from_mins(1);

#[tokio::test]
async fn the_coder_agent_example_asks_answers_calls_and_saves_its_session() {
    let server = ModelServer::start([
        ScriptedReply::new()
            .text("I write it.")
            .call("c1", "write_file", &json!({"path": "new.txt", "content": "one\n"}))
            .call("c2", "bash", &json!({"command": "git push origin main"})),
        ScriptedReply::new().call("c3", "bash", &json!({"command": "make new.txt"})),
        ScriptedReply::new().text("It says one."),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let (home, project) = (folder.path().join("home"), folder.path().join("project"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&project).unwrap();
    // Tests lie in `deps`, beside the folder of the examples.
    let program = current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/coder_agent");
    // The first question is answered with yes, the second with a message for the model.
    let (input, mut answers) = std::io::pipe().unwrap();
    answers.write_all(b"y\nn, not now\n").unwrap();
    drop(answers);
    let child = Command::new(program)
        .args(["anthropic/claude-sonnet-4-5", "write it"])
        .current_dir(&project)
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")])
        .envs([("HOME", home.as_path())])
        .envs([
            ("ANTHROPIC_API_KEY", "sk-test-0123456789".to_owned()),
            ("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages)),
        ])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = timeout(DEADLINE, child.wait_with_output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert_eq!(requests.len(), 3);
    assert!(last.contains("Not permitted by policy"), "a rule denies the push: {last}");
    assert!(last.contains("The user said no to this call and says: not now"), "{last}");
    assert_eq!(fs::read_to_string(project.join("new.txt")).unwrap(), "one\n");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("It says one."), "{out}");
    let sessions = fs::read_dir(project.join(".coder_agent/sessions")).unwrap();
    let log = sessions.map(|entry| entry.unwrap().path().join("history.jsonl")).next().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches(r#""type":"call_end""#).count(), 3, "{log}");
}
