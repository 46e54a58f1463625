//! Stored sessions: list, show, resume, locks and exit codes.

use std::{fs, process::Stdio};

use crow_testkit::{
    Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, WireDialect, wait_until,
};
use serde_json::json;

use crate::program::{Fixture, feed, finish};

const MODEL: &str = "anthropic/claude-test";

#[tokio::test]
async fn a_session_is_listed_shown_and_continued_by_a_second_process() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({"command": "echo from-the-tool"})),
        ScriptedReply::new().text("first answer"),
        ScriptedReply::new().text("second answer"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "say something", "-m", MODEL, "-p", "full-auto"]).await;
    assert_eq!(ran.exited(0).out, "first answer\n");
    let list = fixture.run(&["sessions", "list"]).await;
    assert!(list.exited(0).out.contains("say something"), "{}", list.out);
    let id = fixture.session().file_name().unwrap().to_str().unwrap().to_owned();
    let show = fixture.run(&["sessions", "show", &id[..13]]).await;
    assert!(
        show.exited(0).out.contains("say something") && show.out.contains("first answer"),
        "{}",
        show.out
    );
    let resumed = fixture.run(&["sessions", "resume", &id, "and more"]).await;
    assert_eq!(resumed.exited(0).out, "second answer\n");
    // The server checks that the third request begins with the second one.
    let requests = server.finish().await.unwrap();
    let text = requests[2].body.to_string();
    assert!(
        text.contains("say something")
            && text.contains("from-the-tool")
            && text.contains("first answer")
            && text.contains("and more")
    );
}

#[tokio::test]
async fn a_killed_run_resumes_with_an_unknown_outcome_for_its_open_call() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({"command": "touch started; sleep 600"})),
        ScriptedReply::new().text("I go on"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut child = fixture.start(&["run", "wait long", "-m", MODEL, "-p", "full-auto"]);
    wait_until(|| fixture.project("started").exists()).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let id = fixture.session().file_name().unwrap().to_str().unwrap().to_owned();
    let resumed = fixture.run(&["run", "--resume", &id, "go on", "-p", "full-auto"]).await;
    assert_eq!(resumed.exited(0).out, "I go on\n");
    let requests = server.finish().await.unwrap();
    assert!(requests[1].body.to_string().contains("outcome is unknown"));
}

#[tokio::test]
async fn a_torn_log_is_repaired_when_the_session_resumes() {
    let server =
        ModelServer::start([ScriptedReply::new().text("one"), ScriptedReply::new().text("two")])
            .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "first", "-m", MODEL]).await.exited(0);
    let log = fixture.session().join("history.jsonl");
    let mut text = fs::read(&log).unwrap();
    text.extend_from_slice(b"{\"seq\":99,\"time\":\"20");
    fs::write(&log, text).unwrap();
    let id = fixture.session().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(fixture.run(&["run", "--resume", &id, "second"]).await.exited(0).out, "two\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_session_in_use_is_refused_and_the_process_is_named() {
    let gate = StreamGate::new();
    let stalled_reply =
        ScriptedReply::new().text("slow").with(Fault::StallAfter { events: 2, gate: gate.clone() });
    let server = ModelServer::start([stalled_reply]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let first = fixture.start(&["run", "hold", "-m", MODEL, "--session-id", "mine"]);
    let pid = first.id();
    server.wait_for_request(0).await;
    let second = fixture.run(&["run", "--resume", "mine", "x", "-o", "json"]).await;
    assert_eq!(second.exited(2).result()["error"]["code"], "session_locked");
    assert!(second.err.contains(&format!("process {pid}")), "{}", second.err);
    gate.open();
    finish(first).await.exited(0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_chosen_session_id_can_be_used_once() {
    let server = ModelServer::start([ScriptedReply::new().text("one")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "first", "-m", MODEL, "--session-id", "mine"]).await.exited(0);
    let again = fixture.run(&["run", "second", "-m", MODEL, "--session-id", "mine"]).await;
    assert!(again.exited(2).err.contains("session mine exists already"), "{}", again.err);
    let removed = fixture.run(&["sessions", "rm", "mine"]).await;
    assert_eq!(removed.exited(0).out, "removed mine\n");
    assert!(fixture.run(&["sessions", "list"]).await.out.contains("No sessions yet"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_prompt_may_come_from_standard_input() {
    let server = ModelServer::start([ScriptedReply::new().text("read")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run_with_input(&["run", "-", "-m", MODEL], "from a pipe").await;
    assert_eq!(ran.exited(0).out, "read\n");
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("from a pipe"));
}

#[tokio::test]
async fn piped_input_is_appended_to_the_prompt() {
    let server =
        ModelServer::start([ScriptedReply::new().text("read"), ScriptedReply::new().text("read")])
            .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let ran = feed(fixture.command(&["run", "explain", "-m", MODEL]), "line one\n").await;
    assert_eq!(ran.exited(0).out, "read\n");
    // Callers often leave an open pipe on stdin and write nothing.
    let mut silent = fixture.command(&["run", "go on", "-m", MODEL]);
    let mut child = silent.stdin(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.take().unwrap();
    let ran = finish(child).await;
    drop(pipe);
    assert!(ran.exited(0).err.contains("no input arrives on standard input"), "{}", ran.err);
    let requests = server.finish().await.unwrap();
    let messages_of = |number: usize| requests[number].body["messages"].to_string();
    assert!(
        messages_of(0).contains(r#"explain\n\n<stdin author=\"the user\">\nline one\n</stdin>"#),
        "{}",
        messages_of(0)
    );
    assert!(!messages_of(1).contains("stdin"), "{}", messages_of(1));
}

#[tokio::test]
async fn without_a_terminal_changes_are_refused_and_the_flag_is_named() {
    let server = ModelServer::start([
        ScriptStep::from(ScriptedReply::new().call(
            "c1",
            "write_file",
            &json!({"path": "a", "content": "x"}),
        )),
        ScriptedReply::new().text("I could not").into(),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "write", "-m", MODEL, "-o", "json"]).await;
    let result = ran.exited(6).result();
    assert_eq!(result["refusals"][0]["tool"], "write_file");
    assert!(result["refusals"][0]["reason"].as_str().unwrap().contains("--permissions"));
    assert!(!fixture.project("a").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_closed_stdout_ends_the_run() {
    let many = (0..2000).fold(String::new(), |text, n| text + &format!("word{n} "));
    let server = ModelServer::start([ScriptedReply::new().text(&many)]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut child = fixture
        .command(&["run", "talk", "-m", MODEL, "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = finish(child).await;
    assert_ne!(ran.code, Some(0));
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
}

#[tokio::test]
async fn accept_edits_mode_refuses_files_that_start_programs() {
    let server = ModelServer::start([
        ScriptedReply::new().call(
            "c1",
            "write_file",
            &json!({"path": ".git/hooks/pre-commit", "content": "x"}),
        ),
        ScriptedReply::new().text("I could not"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "write", "-m", MODEL, "-p", "accept-edits", "-o", "json"]).await;
    let result = ran.exited(6).result();
    let reason = result["refusals"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("no mode permits it, only a rule of the user"), "{result}");
    assert!(!fixture.project(".git").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn resume_without_an_id_uses_the_last_session_of_the_directory() {
    let replies = ["First.", "Second.", "Third."].map(|text| ScriptedReply::new().text(text));
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let model = MODEL;
    let failed = fixture.run(&["run", "--resume", "go on", "-m", model]).await;
    failed.exited(2);
    assert!(failed.err.contains("no session worked in"), "{}", failed.err);
    assert!(failed.err.contains("name one with --resume ID"), "{}", failed.err);
    fixture.run(&["run", "begin", "-m", model]).await.exited(0);
    let id = fixture.id();
    fixture.run(&["run", "--resume", "go on"]).await.exited(0);
    fixture.run(&["run", "and on", "--resume"]).await.exited(0);
    assert_eq!(fixture.id(), id);
    let shown = fixture.run(&["sessions", "show", &id]).await.exited(0).out.clone();
    for text in ["begin", "First.", "go on", "Second.", "and on", "Third."] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn sessions_list_shows_tokens_and_cost() {
    let server = ModelServer::start([ScriptedReply::new().text("Done.")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "work", "-m", "anthropic/claude-sonnet-4-5"]).await.exited(0);
    let listed = fixture.run(&["sessions", "list", "-o", "json"]).await.exited(0).out.clone();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let used = &listed["used"];
    assert!(used["input_tokens"].as_u64().unwrap() > 0, "{listed}");
    assert!(used["cost_usd"].as_f64().unwrap() > 0.0, "{listed}");
    let table = fixture.run(&["sessions", "list"]).await.exited(0).out.clone();
    assert!(table.lines().next().unwrap().contains("USED") && table.contains(" $0.0"), "{table}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn sessions_show_names_refused_calls() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({"command": "touch refused.txt"})),
        ScriptedReply::new().call("c2", "write_file", &json!({"path": "b.txt", "content": "x"})),
        ScriptedReply::new().text("I may not."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "write", "-m", MODEL]).await;
    let shown = fixture.run(&["sessions", "show", &fixture.id()]).await;
    for line in ["touch refused.txt  refused by policy", "write_file b.txt  refused by policy"] {
        assert!(shown.exited(0).out.contains(line), "{line}: {}", shown.out);
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn sessions_show_prints_the_whole_output_of_a_command() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({"command": "seq 300"})),
        ScriptedReply::new().call("c2", "bash", &json!({"command": "printf 'last\\n'"})),
        ScriptedReply::new().text("Done."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "count", "-m", MODEL, "-p", "full-auto"]).await.exited(0);
    let id = fixture.id();
    let shown = fixture.run(&["sessions", "show", &id, "--call"]).await;
    assert_eq!(shown.exited(0).out, "last\n[exit code 0]\n");
    for call in ["2", "c1"] {
        let shown = fixture.run(&["sessions", "show", &id, "--call", call]).await;
        assert!(shown.exited(0).out.ends_with("\n299\n300\n[exit code 0]\n"), "{}", shown.out);
        assert_eq!(shown.out.lines().count(), 301, "{call}");
    }
    let unknown = fixture.run(&["sessions", "show", &id, "--call", "9"]).await;
    assert!(unknown.exited(0).out.contains("no command has the number or id 9"), "{}", unknown.out);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn continue_goes_on_with_the_last_session_and_fork_leaves_it_as_it_is() {
    let replies = ["First.", "Second.", "Third."].map(|text| ScriptedReply::new().text(text));
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let without = fixture.run(&["run", "x", "-m", MODEL, "--fork"]).await;
    assert!(
        without.exited(2).err.contains("--fork needs --resume or --continue"),
        "{}",
        without.err
    );
    fixture.run(&["run", "begin", "-m", MODEL]).await.exited(0);
    let id = fixture.id();
    fixture.run(&["run", "-c", "go on"]).await.exited(0);
    assert_eq!(fixture.id(), id);
    let log = fs::read(fixture.session().join("history.jsonl")).unwrap();
    let folder = fixture.session();
    let forked = fixture.run(&["run", "elsewhere", "--continue", "--fork", "-o", "json"]).await;
    let fork_id = forked.exited(0).result()["session_id"].as_str().unwrap().to_owned();
    assert_ne!(fork_id, id);
    assert_eq!(fs::read(folder.join("history.jsonl")).unwrap(), log);
    let requests = server.finish().await.unwrap();
    let last = requests[2].body["messages"].to_string();
    for text in ["begin", "First.", "go on", "Second.", "elsewhere"] {
        assert!(last.contains(text), "{text}: {last}");
    }
}

#[tokio::test]
async fn an_added_directory_may_be_changed_and_stays_with_the_session() {
    let write = |id: &str, path: &std::path::Path| {
        ScriptedReply::new().call(id, "write_file", &json!({"path": path, "content": "x\n"}))
    };
    let mut fixture = Fixture::new();
    let other = fixture.home("other");
    fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    let answer = || ScriptedReply::new().text("I wrote it.");
    let server = ModelServer::start([
        write("c1", &other.join("one")),
        answer(),
        write("c2", &other.join("two")),
        answer(),
    ])
    .await;
    fixture = fixture.with_server(&server, WireDialect::AnthropicMessages);
    let relative = "../home/other";
    let args = ["run", "write one", "-m", MODEL, "-p", "accept-edits", "--add-dir", relative];
    fixture.run(&args).await.exited(0);
    fixture.run(&["run", "-c", "write two", "-p", "accept-edits"]).await.exited(0);
    assert!(other.join("one").exists() && other.join("two").exists());
    let gone = fixture.run(&["run", "x", "-m", MODEL, "--add-dir", "nowhere"]).await;
    assert!(gone.exited(2).err.contains("nowhere"), "{}", gone.err);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_session_can_be_given_another_title() {
    let server = ModelServer::start([ScriptedReply::new().text("Hello.")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "begin", "-m", MODEL]).await.exited(0);
    let id = fixture.id();
    fixture.run(&["sessions", "rename", &id[..12], " The \n release "]).await.exited(0);
    let listed = fixture.run(&["sessions", "list"]).await;
    assert!(listed.exited(0).out.contains("The release"), "{}", listed.out);
    let empty = fixture.run(&["sessions", "rename", &id, " "]).await;
    assert!(empty.exited(2).err.contains("the title is empty"), "{}", empty.err);
    server.finish().await.unwrap();
}
