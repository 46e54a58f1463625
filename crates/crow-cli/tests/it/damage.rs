//! Sessions whose files a disk damaged.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};

use crate::program::Place;

const MODEL: &str = "anthropic/claude-test";

/// A session that made a file, and a server with an answer more.
async fn place() -> (Place, ModelServer) {
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
    let place = Place::new().with_server(&server, WireDialect::AnthropicMessages);
    place.run(&["run", "make a file", "-m", MODEL, "-p", "full-auto"]).await.exited(0);
    (place, server)
}

/// Damages the first byte of the first line of the log that holds a word, and returns the number of the line.
fn damage(place: &Place, word: &str) -> usize {
    let path = place.session().join("history.jsonl");
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
        let (place, server) = place().await;
        let line = damage(&place, word);
        let told = format!("line {line} of the log is damaged");
        let id = place.id();
        for args in [&["sessions", "show", &id][..], &["diff"], &["sessions", "export", &id]] {
            let ran = place.run(args).await;
            assert!(ran.exited(0).out.contains("made"), "{word}: {}", ran.out);
            assert!(ran.err.contains(&told), "{word}: {}", ran.err);
        }
        // What is lost is not sent again.
        server.allow_prefix_break();
        let undone = place.run(&["undo"]).await;
        assert!(undone.exited(0).err.contains(&told), "{word}: {}", undone.err);
        assert!(!place.project("new.txt").exists(), "{word}");
        let resumed = place.run(&["run", "--resume", &id, "go on"]).await;
        assert_eq!(resumed.exited(0).out, "I go on\n", "{word}");
        assert!(resumed.err.contains(&told), "{word}: {}", resumed.err);
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_without_its_header_is_listed_as_damaged_and_can_be_repaired() {
    let (place, server) = place().await;
    fs::remove_file(place.session().join("metadata.json")).unwrap();
    let line = damage(&place, "\"type\":\"usage\"");
    let list = place.run(&["sessions", "list"]).await;
    assert!(list.exited(0).out.contains("(damaged) make a file"), "{}", list.out);
    let id = place.id();
    let repaired = place.run(&["sessions", "repair", &id[..13]]).await;
    let out = &repaired.exited(0).out;
    assert!(out.contains(&format!("line {line} is lost")), "{out}");
    assert!(out.contains("history.jsonl.damaged"), "{out}");
    let list = place.run(&["sessions", "list"]).await;
    assert!(!list.exited(0).out.contains("damaged"), "{}", list.out);
    let again = place.run(&["sessions", "repair", &id]).await;
    assert_eq!(again.exited(0).out, format!("session {id}: nothing is damaged\n"));
    server.allow_prefix_break();
    let resumed = place.run(&["run", "--resume", &id, "go on"]).await;
    assert_eq!(resumed.exited(0).out, "I go on\n");
    assert!(!resumed.err.contains("damaged"), "{}", resumed.err);
    server.finish().await.unwrap();
}

/// A session of two agents whose header is lost and was repaired, and a server with answers for another run of both.
async fn repaired_judge(older_log: bool) -> (Place, ModelServer) {
    let call =
        |id: &str, tool: &str| ScriptedReply::new().call(id, tool, &json!({"summary": "fine"}));
    let server = ModelServer::start([
        call("s", "submit_for_review"),
        call("t", "task_complete"),
        call("s2", "submit_for_review"),
        call("t2", "task_complete"),
    ])
    .await;
    let place = Place::new().with_server(&server, WireDialect::AnthropicMessages);
    let args = ["run", "-a", "BUILD-JUDGE", "-m", MODEL, "-p", "read-only", "one"];
    place.run(&args).await.exited(0);
    let id = place.root();
    let session = place.home(".local/share/crow-agent/sessions").join(&id);
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
    let repaired = place.run(&["sessions", "repair", &id]).await;
    let out = &repaired.exited(0).out;
    assert_eq!(out.contains("name it with --agent"), older_log, "{out}");
    (place, server)
}

#[tokio::test]
async fn a_repaired_session_keeps_its_reviewer_and_read_only_mode() {
    let (place, server) = repaired_judge(false).await;
    let resumed = place.run(&["run", "--resume", &place.root(), "-o", "json", "two"]).await;
    let out = &resumed.exited(0).out;
    assert!(out.contains("\"type\":\"handoff\""), "{out}");
    let header = fs::read_to_string(
        place.home(".local/share/crow-agent/sessions").join(place.root()).join("metadata.json"),
    )
    .unwrap();
    assert!(header.contains("\"permissions\": \"read-only\""), "{header}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_repaired_session_with_an_unknown_agent_needs_the_agent_flag() {
    let (place, server) = repaired_judge(true).await;
    let resumed = place.run(&["run", "--resume", &place.root(), "two"]).await;
    let told = &resumed.exited(2).err;
    assert!(told.contains("is lost") && told.contains("--agent"), "{told}");
    let args = ["run", "--resume", &place.root(), "-a", "BUILD-JUDGE", "-o", "json", "two"];
    let resumed = place.run(&args).await;
    let out = &resumed.exited(0).out;
    assert!(out.contains("\"type\":\"handoff\""), "{out}");
    let header = fs::read_to_string(
        place.home(".local/share/crow-agent/sessions").join(place.root()).join("metadata.json"),
    )
    .unwrap();
    assert!(header.contains("\"permissions\": \"read-only\""), "{header}");
    server.finish().await.unwrap();
}
