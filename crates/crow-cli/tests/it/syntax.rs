//! The syntax check after edits, in the program.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::Fixture;

#[tokio::test]
async fn the_model_is_told_that_its_edit_broke_the_syntax() {
    let edit = json!({"path": "a.py", "old_string": "def f():", "new_string": "def f(:"});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "read_file", &json!({"path": "a.py"})),
        ScriptedReply::new().call("c2", "edit_file", &edit),
        ScriptedReply::new().text("I broke it."),
        // It is told once that nothing was run after the change.
        ScriptedReply::new().text("I broke it."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fs::write(fixture.project("a.py"), "def f():\n    return 1\n").unwrap();
    let model = "anthropic/claude-sonnet-4-5";
    let ran = fixture.run(&["run", "edit", "-m", model, "-p", "full-auto", "-o", "json"]).await;
    ran.exited(0);
    assert_eq!(fs::read_to_string(fixture.project("a.py")).unwrap(), "def f(:\n    return 1\n");
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("Note: a.py may not parse: line 1:7 "), "{last}");
}
