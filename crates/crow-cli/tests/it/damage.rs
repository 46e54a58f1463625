//! Sessions with damaged files.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};

use crate::program::Fixture;

const MODEL: &str = "anthropic/claude-test";

/// Runs a session that creates a file. The server has one more reply.
async fn fixture() -> (Fixture, ModelServer) {
    let server = ModelServer::start([
        ScriptedReply::new().call(
            "c1",
            "write_file",
            &json!({"path": "new.txt", "content": "made\n"}),
        ),
        ScriptedReply::new().text("it is made"),
        ScriptedReply::new().text("I go on"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "make a file", "-m", MODEL, "-p", "full-auto"]).await.exited(0);
    (fixture, server)
}

/// Overwrites the first byte of the first line of the log that contains a word, and returns the line number.
fn damage(fixture: &Fixture, word: &str) -> usize {
    let path = fixture.session().join("history.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let at = text.find(word).unwrap();
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    bytes[begin] = 0;
    fs::write(&path, bytes).unwrap();
    text[..begin].lines().count() + 1
}

#[tokio::test]
async fn a_session_with_a_damaged_line_stays_usable_and_reports_it() {
    for word in ["\"type\":\"reply\"", "\"type\":\"call_start\"", "\"type\":\"session_start\""] {
        let (fixture, server) = fixture().await;
        let line = damage(&fixture, word);
        let warning = format!("line {line} of the log is damaged");
        let id = fixture.id();
        for args in [&["sessions", "show", &id][..], &["diff"], &["sessions", "export", &id]] {
            let ran = fixture.run(args).await;
            assert!(ran.exited(0).out.contains("made"), "{word}: {}", ran.out);
            assert!(ran.err.contains(&warning), "{word}: {}", ran.err);
        }
        // The lost line is missing from later requests, so their prefix differs.
        server.allow_prefix_break();
        let undone = fixture.run(&["undo"]).await;
        assert!(undone.exited(0).err.contains(&warning), "{word}: {}", undone.err);
        assert!(!fixture.project("new.txt").exists(), "{word}");
        let resumed = fixture.run(&["run", "--resume", &id, "go on"]).await;
        assert_eq!(resumed.exited(0).out, "I go on\n", "{word}");
        assert!(resumed.err.contains(&warning), "{word}: {}", resumed.err);
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_without_its_header_is_listed_as_damaged_and_can_be_repaired() {
    let (fixture, server) = fixture().await;
    fs::remove_file(fixture.session().join("metadata.json")).unwrap();
    let line = damage(&fixture, "\"type\":\"usage\"");
    let list = fixture.run(&["sessions", "list"]).await;
    assert!(list.exited(0).out.contains("(damaged) make a file"), "{}", list.out);
    let id = fixture.id();
    let repaired = fixture.run(&["sessions", "repair", &id[..13]]).await;
    let out = &repaired.exited(0).out;
    assert!(out.contains(&format!("line {line} is lost")), "{out}");
    assert!(out.contains("history.jsonl.damaged"), "{out}");
    let list = fixture.run(&["sessions", "list"]).await;
    assert!(!list.exited(0).out.contains("damaged"), "{}", list.out);
    let again = fixture.run(&["sessions", "repair", &id]).await;
    assert_eq!(again.exited(0).out, format!("session {id}: nothing is damaged\n"));
    server.allow_prefix_break();
    let resumed = fixture.run(&["run", "--resume", &id, "go on"]).await;
    assert_eq!(resumed.exited(0).out, "I go on\n");
    assert!(!resumed.err.contains("damaged"), "{}", resumed.err);
    server.finish().await.unwrap();
}

/// Runs a read-only session of BUILD-JUDGE, removes its header and repairs it. `older_log` also removes the settings from the
/// log. The server has replies for another run of both agents.
async fn repaired_judge(older_log: bool) -> (Fixture, ModelServer) {
    let call =
        |id: &str, tool: &str| ScriptedReply::new().call(id, tool, &json!({"summary": "fine"}));
    let server = ModelServer::start([
        call("s", "submit_for_review"),
        call("t", "task_complete"),
        call("s2", "submit_for_review"),
        call("t2", "task_complete"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let args = ["run", "-a", "BUILD-JUDGE", "-m", MODEL, "-p", "read-only", "one"];
    fixture.run(&args).await.exited(0);
    let id = fixture.root();
    let session = fixture.home(".local/share/crow-agent/sessions").join(&id);
    fs::remove_file(session.join("metadata.json")).unwrap();
    if older_log {
        let log = fs::read_to_string(session.join("history.jsonl")).unwrap();
        let older = log.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("settings");
            format!("{line}\n")
        });
        fs::write(session.join("history.jsonl"), older.collect::<String>()).unwrap();
    }
    let repaired = fixture.run(&["sessions", "repair", &id]).await;
    let out = &repaired.exited(0).out;
    assert_eq!(out.contains("give --agent"), older_log, "{out}");
    (fixture, server)
}

#[tokio::test]
async fn a_repaired_session_keeps_its_reviewer_and_read_only_mode() {
    let (fixture, server) = repaired_judge(false).await;
    let resumed = fixture.run(&["run", "--resume", &fixture.root(), "-o", "json", "two"]).await;
    let out = &resumed.exited(0).out;
    assert!(out.contains("\"type\":\"handoff\""), "{out}");
    let header = fs::read_to_string(
        fixture.home(".local/share/crow-agent/sessions").join(fixture.root()).join("metadata.json"),
    )
    .unwrap();
    assert!(header.contains("\"permissions\": \"read-only\""), "{header}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_repaired_session_with_an_unknown_agent_needs_the_agent_flag() {
    let (fixture, server) = repaired_judge(true).await;
    let resumed = fixture.run(&["run", "--resume", &fixture.root(), "two"]).await;
    let error_text = &resumed.exited(2).err;
    assert!(
        error_text.contains("lost its header") && error_text.contains("--agent"),
        "{error_text}"
    );
    let args = ["run", "--resume", &fixture.root(), "-a", "BUILD-JUDGE", "-o", "json", "two"];
    let resumed = fixture.run(&args).await;
    let out = &resumed.exited(0).out;
    assert!(out.contains("\"type\":\"handoff\""), "{out}");
    let header = fs::read_to_string(
        fixture.home(".local/share/crow-agent/sessions").join(fixture.root()).join("metadata.json"),
    )
    .unwrap();
    assert!(header.contains("\"permissions\": \"read-only\""), "{header}");
    server.finish().await.unwrap();
}
