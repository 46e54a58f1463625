//! The example `coder_agent`, which has its own loop.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, feed};

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
    let fixture = Fixture::with_bug().with_server(&server, WireDialect::AnthropicMessages);
    let model = "anthropic/claude-sonnet-4-5";
    // The first question is answered with yes, the second with a message for the model.
    let ran = feed(fixture.example("coder_agent", &[model, "write it"]), "y\nnot now\n").await;
    ran.exited(0);
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert_eq!(requests.len(), 3);
    assert!(last.contains("Not permitted by policy"), "a rule denies the push: {last}");
    assert!(last.contains("The user said no to this call and says: not now"), "{last}");
    assert_eq!(fs::read_to_string(fixture.project("new.txt")).unwrap(), "one\n");
    assert!(ran.out.contains("It says one."), "{}", ran.out);
    let sessions = fs::read_dir(fixture.project(".coder_agent/sessions")).unwrap();
    let log = sessions.map(|entry| entry.unwrap().path().join("history.jsonl")).next().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches(r#""type":"call_end""#).count(), 3, "{log}");
}
