//! The command `permissions`, and the effect of rules on runs.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};

use crate::{program::Fixture, terminal::Terminal, undo_fixture};

const RULES: &str = r#"{"version": 1, "rules": [
  {"id": "tests", "matcher": {"command_prefix": ["cargo", "test"]}, "decision": "allow"},
  {"id": "no-push", "matcher": {"command_prefix": ["git", "push"]}, "decision": "deny", "description": "releases are pushed by hand"}
]}"#;

fn with_rules(rules: &str) -> Fixture {
    let fixture = Fixture::with_bug();
    let folder = fixture.home(".config/crow-agent");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("permissions.json"), rules).unwrap();
    fixture
}

#[tokio::test]
async fn permissions_list_shows_deny_rules_first() {
    let ran = with_rules(RULES).run(&["permissions", "list"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    insta::assert_snapshot!(ran.out, @"
    deny   `git push …`  (no-push, global): releases are pushed by hand
    allow  `cargo test …`  (tests, global)
    ");
    let ran = Fixture::new().run(&["permissions", "list"]).await;
    assert!(ran.out.starts_with("No rules:"), "{}", ran.out);
}

#[tokio::test]
async fn permissions_explain_names_the_deciding_rule() {
    let fixture = with_rules(RULES);
    let explain = async |call: &str| {
        let ran = fixture.run(&["permissions", "explain", call]).await;
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    insta::assert_snapshot!(explain("cargo test --workspace").await, @"
    cargo test --workspace may run
      by        the rule tests (global), which says allow
      sandbox   whole
    ");
    let both = explain("cargo test && git push origin").await;
    assert!(both.starts_with("cargo test && git push origin may not run\n"), "{both}");
    assert!(
        both.contains("by        the rule no-push") && both.contains("runs      git push origin")
    );
    assert!(explain("edit_file check.sh").await.contains("by        the mode ask"));
    // A line that begins with a tool's name can be a shell command; then it is explained as one.
    for line in
        ["grep -r x; rm -rf /", "grep x | rm -rf /", "grep $(rm -rf /)", "glob x && rm -rf /"]
    {
        let explained = explain(line).await;
        assert!(explained.contains("is asked about"), "{explained}");
        assert!(explained.contains("rm -rf /"), "{explained}");
    }
    assert!(explain("grep -r x /etc").await.contains("is asked about"));
    assert!(explain("read_file a b.txt").await.contains("may run"));
    assert!(explain("read_file check.sh").await.starts_with("read_file check.sh may run"));
    assert!(explain("cargo test $(rm -rf x)").await.contains("is asked about"));
}

#[tokio::test]
async fn a_read_only_command_is_explained_with_its_sandbox() {
    let fixture = Fixture::new();
    let doctor = fixture.run(&["doctor"]).await;
    let is_whole = doctor.out.contains("namespaces, Landlock and seccomp confine");
    // Git starts programs named in the project's settings, so it passes only with the sandbox.
    let ran = fixture.run(&["permissions", "explain", "git status"]).await;
    let (may, sandbox) = if is_whole {
        ("git status may run", "whole, and read-only except for its temporary files")
    } else {
        ("git status is asked about", "")
    };
    assert!(ran.out.starts_with(may), "{}", ran.out);
    assert!(ran.out.contains(sandbox), "{}", ran.out);
    let ran = fixture.run(&["permissions", "explain", "git push"]).await;
    assert!(ran.out.starts_with("git push is asked about"), "{}", ran.out);
    assert!(!ran.out.contains("nothing but"), "{}", ran.out);
}

#[tokio::test]
async fn permissions_explain_prints_json() {
    let ran =
        with_rules(RULES).run(&["permissions", "explain", "git push", "--output", "json"]).await;
    let explained: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(explained["decision"], "deny");
    assert_eq!(
        explained["rules"],
        json!([{"id": "no-push", "scope": "global", "decision": "deny"}])
    );
}

#[tokio::test]
async fn an_invalid_permissions_file_prevents_every_run() {
    let fixture = with_rules("{\n  \"version\": 1,\n  \"rules\": [{\"id\": \"x\"}]\n}");
    for args in [&["permissions", "list"][..], &["run", "hello"]] {
        let ran = fixture.run(args).await;
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("permissions.json:3:"), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_run_without_a_terminal_executes_only_what_a_rule_allows() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({"command": "sh check.sh"})).call(
            "c2",
            "bash",
            &json!({"command": "sh check.sh; touch made"}),
        ),
        ScriptedReply::new().text("So it is."),
    ])
    .await;
    let rules = r#"{"version": 1, "rules": [
      {"id": "check", "matcher": {"command_prefix": ["sh", "check.sh"]}, "decision": "allow"}
    ]}"#;
    let fixture = with_rules(rules).with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "check it", "--output", "json"]).await;
    server.finish().await.unwrap();
    let ends: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "call_end")
        .collect();
    assert!(ends[0]["denial"].is_null() && ends[1]["denial"]["source"] == "policy", "{ends:?}");
    assert!(!fixture.project("made").exists());
}

#[tokio::test]
async fn session_permissions_can_be_revoked_permanently() {
    let call = |id: &str| ScriptedReply::new().call(id, "bash", &json!({"command": "cargo check"}));
    let server = ModelServer::start([
        call("c1"),
        ScriptedReply::new().text("It was tried."),
        call("c2"),
        ScriptedReply::new().text("It was refused."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let model = "anthropic/claude-sonnet-4-5";
    let mut terminal = Terminal::start(&fixture, &["-m", model], 80, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("check it\r");
    terminal.wait_for_question().await;
    terminal.type_keys("a\r");
    terminal.wait_for_text("It was tried.").await.wait_for_prompt("").await;
    terminal.type_keys("/permissions forget\r");
    terminal.wait_for_text("were revoked").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let session = fixture.session();
    let id = session.file_name().unwrap().to_str().unwrap();
    fixture.run(&["run", "again", "--resume", id, "-o", "json"]).await.exited(6);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_empty_call_is_not_explained() {
    let ran = Fixture::new().run(&["permissions", "explain", " "]).await;
    assert!(ran.exited(2).err.contains("there is no call to explain"), "{}", ran.err);
}

#[tokio::test]
async fn file_tool_calls_are_explained_for_each_mode() {
    const MODES: [&str; 4] = ["ask", "accept-edits", "read-only", "full-auto"];
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.home(".ssh")).unwrap();
    std::os::unix::fs::symlink(fixture.home(".ssh"), fixture.project("way")).unwrap();
    let key = format!("read_file {}", fixture.home(".ssh/id_rsa").display());
    let rules =
        format!("write_file {}", fixture.home(".config/crow-agent/permissions.json").display());
    for (call, expected) in [
        ("read_file check.sh", ["allow", "allow", "allow", "allow"]),
        ("read_file .env", ["ask_user", "ask_user", "ask_user", "allow"]),
        ("read_file /usr/include/stdio.h", ["ask_user", "ask_user", "ask_user", "allow"]),
        (&key, ["ask_user", "ask_user", "ask_user", "ask_user"]),
        ("grep way/id_rsa", ["ask_user", "ask_user", "ask_user", "ask_user"]),
        ("write_file check.sh", ["ask_user", "allow", "deny", "allow"]),
        ("edit_file .env", ["ask_user", "ask_user", "deny", "allow"]),
        ("write_file .git/hooks/pre-commit", ["ask_user", "ask_user", "deny", "ask_user"]),
        ("write_file way/authorized_keys", ["ask_user", "ask_user", "deny", "ask_user"]),
        (&rules, ["ask_user", "ask_user", "deny", "ask_user"]),
    ] {
        let explained = MODES.map(async |mode| {
            let args = ["permissions", "explain", call, "-p", mode, "--output", "json"];
            fixture.run(&args).await.exited(0).lines()[0]["decision"].clone()
        });
        let decisions = futures_util::future::join_all(explained).await;
        assert_eq!(decisions, expected, "{call}");
    }
}

#[tokio::test]
async fn a_command_line_that_begins_with_a_tool_name_is_explained_as_a_command() {
    let fixture = Fixture::new();
    for (line, is_command) in [
        ("grep -r x; rm -rf /", true),
        ("grep -r x", true),
        ("grep main src", true),
        ("read_file a; rm -rf /", true),
        ("glob $(touch x)", true),
        ("grep src", false),
        ("read_file My Notes.txt", false),
    ] {
        let ran = fixture.run(&["permissions", "explain", line, "--output", "json"]).await;
        let explained = ran.exited(0).lines()[0].clone();
        assert_eq!(explained["tool"] == "bash", is_command, "{line}: {explained}");
        assert!(!line.contains("rm -rf") || explained["decision"] == "ask_user", "{explained}");
    }
}

#[tokio::test]
async fn a_refusing_rule_is_named_with_its_file_and_no_mode_is_suggested() {
    for (decision, verb) in [("deny", "forbids"), ("ask_user", "asks about")] {
        let call = ScriptedReply::new().call("c1", "bash", &json!({"command": "git push"}));
        let server = ModelServer::start([call, ScriptedReply::new().text("I cannot.")]).await;
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        let rules = json!({"version": 1, "rules": [
            {"id": "no-push", "matcher": {"command_prefix": ["git", "push"]}, "decision": decision},
        ]});
        let file = fixture.home(".config/crow-agent/permissions.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, rules.to_string()).unwrap();
        let ran =
            fixture.run(&["run", "push it", "-m", undo_fixture::MODEL, "-p", "full-auto"]).await;
        let message: String = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        let rule = format!("the rule `no-push` ({}) {verb} `git push`", file.display());
        assert!(message.contains(&rule), "{message}");
        assert!(message.contains("no mode overrules a rule"), "{message}");
        assert!(!message.contains("full-auto what the sandbox allows"), "{message}");
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_write_shows_the_file_only_if_the_model_may_read_it() {
    let denial = |matcher: Value| json!({"version": 1, "rules": [{"id": "no", "matcher": matcher, "decision": "deny"}]});
    let cases = [
        (json!({"version": 1, "rules": []}), true),
        (denial(json!({"path": {"access": "read", "path": "a.txt"}})), false),
        (denial(json!({"tool_name": "read_file"})), false),
        (denial(json!({"tool_category": "read"})), false),
    ];
    for (rules, is_shown) in cases {
        let write = json!({"path": "a.txt", "content": "new\n"});
        let call = ScriptedReply::new().call("c1", "write_file", &write);
        let server = ModelServer::start([call, ScriptedReply::new().text("I cannot.")]).await;
        let fixture =
            with_rules(&rules.to_string()).with_server(&server, WireDialect::AnthropicMessages);
        fs::write(fixture.project("a.txt"), "the old content\n").unwrap();
        fixture.run(&["run", "write it", "-m", undo_fixture::MODEL, "-p", "full-auto"]).await;
        let requests = server.finish().await.unwrap();
        let last = requests.last().unwrap().body.to_string();
        assert!(last.contains("was not read in this session"), "{last}");
        assert_eq!(last.contains("the old content"), is_shown, "{rules}: {last}");
    }
}

#[tokio::test]
async fn the_summary_of_unverified_work_mentions_failed_calls() {
    let edit = json!({"path": "a.txt", "old_string": "nowhere", "new_string": "x"});
    let step = ScriptedReply::new().call("c1", "edit_file", &edit).call(
        "c2",
        "bash",
        &json!({"command": "ls nothing-there"}),
    );
    let again = ScriptedReply::new().call("c3", "bash", &json!({"command": "touch made"}));
    let note = json!({"path": "b.txt", "content": "b\n"});
    let write = ScriptedReply::new().call("w", "write_file", &note);
    // The first completion is answered with the call that was refused.
    let done =
        |id| ScriptedReply::new().call(id, "task_complete", &json!({"summary": "All done."}));
    let server = ModelServer::start([step, write, again, done("c4"), done("c5")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fs::write(fixture.project("a.txt"), "a\n").unwrap();
    let ran = fixture.run(&["run", "do it", "-m", undo_fixture::MODEL, "-p", "accept-edits"]).await;
    ran.exited(0);
    let last = ran.err.lines().rev().take(3).collect::<Vec<_>>();
    let last: String = last.into_iter().rev().collect::<Vec<_>>().join(" ");
    assert!(last.contains("done, unverified ("), "{}", ran.err);
    assert!(last.contains("failed"), "{}", ran.err);
    server.finish().await.unwrap();
}
