//! Instructions in files of the user and of the project.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{config::write_user_config, program::Fixture};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

fn write(fixture: &Fixture, file: &str, text: &str) {
    let path = fixture.project(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn instructions_reach_the_model_once_also_in_a_resumed_session() {
    let read = json!({"path": "sub/file.txt"});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "read_file", &read),
        ScriptedReply::new().text("first"),
        ScriptedReply::new().text("second"),
        ScriptedReply::new().text("third"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    write_user_config(&fixture, "AGENTS.md", "Be brief.");
    write(&fixture, "AGENTS.md", "Use tabs.");
    write(&fixture, "sub/AGENTS.md", "Sub rules.");
    write(&fixture, "sub/file.txt", "x\n");
    let ran = fixture.run(&["run", "read it", "-m", MODEL]).await;
    let line = "(9 bytes)";
    assert!(ran.exited(0).err.contains("instructions: ") && ran.err.contains(line), "{}", ran.err);
    let id = fixture.id();
    fixture.run(&["run", "go on", "--resume", &id]).await.exited(0);
    write(&fixture, "AGENTS.md", "Use spaces.");
    let ran = fixture.run(&["run", "and on", "--resume", &id, "-o", "json"]).await;
    let events = ran.exited(0).lines();
    let given: Vec<_> = events.iter().filter(|line| line["type"] == "instructions").collect();
    assert_eq!(given.len(), 1, "{given:?}");
    assert_eq!(given[0]["files"][0]["author"], "repository");
    let requests = server.finish().await.unwrap();
    let times = |request: usize, text: &str| {
        requests[request].body["messages"].to_string().matches(text).count()
    };
    for (text, expected) in [
        ("Be brief.", [1, 1, 1, 1]),
        ("Use tabs.", [1, 1, 1, 1]),
        ("Sub rules.", [0, 1, 1, 1]),
        ("Use spaces.", [0, 0, 0, 1]),
        ("<environment>", [1, 1, 1, 1]),
    ] {
        let found = [0, 1, 2, 3].map(|request| times(request, text));
        assert_eq!(found, expected, "{text}");
    }
}

#[tokio::test]
async fn doctor_lists_the_files_in_force_with_what_is_cut() {
    let fixture = Fixture::new();
    let out = fixture.run(&["doctor"]).await.out;
    assert!(out.contains("✓ instructions: no AGENTS.md"), "{out}");
    write_user_config(&fixture, "AGENTS.md", "Be brief.");
    write(&fixture, "AGENTS.md", &"Use tabs.\n".repeat(4_000));
    fs::create_dir(fixture.project("AGENTS.override.md")).unwrap();
    let out = fixture.run(&["doctor"]).await.out;
    for expected in [
        ".config/crow-agent/AGENTS.md (9 bytes)",
        "AGENTS.md (40000 bytes, the first 24560 shown)",
        "AGENTS.override.md: not used, because it is no regular file",
    ] {
        assert!(out.contains(expected), "{expected:?} is not in\n{out}");
    }
}
