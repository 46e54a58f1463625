//! Questions of agents to the user, at a terminal and without one.

use crow_testkit::{
    ModelServer, PrefixCheck, ScriptStep, ScriptedReply, ServerChecks, ServerOptions, WireDialect,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{program::Fixture, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

async fn with_replies<const N: usize>(replies: [ScriptStep; N]) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

fn ask_call() -> ScriptStep {
    let input = json!({"question": "Which database?", "choices": ["SQLite", "PostgreSQL"]});
    ScriptedReply::new().call("c1", "ask_user", &input).into()
}

fn text_reply(text: &str) -> ScriptStep {
    ScriptedReply::new().text(text).into()
}

async fn chat(fixture: &Fixture) -> Terminal {
    let mut terminal = Terminal::start(fixture, &["-m", MODEL], 80, "xterm-256color");
    terminal.wait_for_prompt("").await.type_keys("set it up\r");
    terminal.wait_for_text("? Which database?").await.wait_for_text("  2  PostgreSQL").await;
    terminal.wait_for_question().await;
    terminal
}

/// Returns the body of the second request to the model.
async fn second_request(server: ModelServer) -> String {
    server.finish().await.unwrap()[1].body.to_string()
}

#[tokio::test]
async fn a_number_selects_a_choice_and_the_model_receives_it() {
    let (server, fixture) = with_replies([ask_call(), text_reply("So be it.")]).await;
    let mut terminal = chat(&fixture).await;
    terminal.type_keys("2");
    terminal
        .wait_for_text("you: PostgreSQL")
        .await
        .wait_for_text("So be it.")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(second_request(server).await.contains("The user chose: PostgreSQL"));
}

#[tokio::test]
async fn free_text_answers_a_question_after_a_number_without_a_choice() {
    let (server, fixture) = with_replies([ask_call(), text_reply("Neither, then.")]).await;
    let mut terminal = chat(&fixture).await;
    terminal.type_keys("7t");
    terminal.wait_for_text("enter sends your words").await;
    terminal.type_keys("none at all\r");
    terminal
        .wait_for_text("you: none at all")
        .await
        .wait_for_text("Neither, then.")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(second_request(server).await.contains("The user wrote: none at all"));
}

#[tokio::test]
async fn end_of_input_declines_a_question_and_the_agent_continues() {
    let (server, fixture) = with_replies([ask_call(), text_reply("I take SQLite.")]).await;
    let mut terminal = chat(&fixture).await;
    terminal.type_keys("\u{4}");
    terminal
        .wait_for_text("you gave no answer")
        .await
        .wait_for_text("I take SQLite.")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(second_request(server).await.contains("does not want to answer"));
}

#[tokio::test]
async fn an_interrupt_withdraws_an_agents_question_and_the_chat_continues() {
    let (server, fixture) = with_replies([ask_call(), text_reply("Again.")]).await;
    let mut terminal = chat(&fixture).await;
    terminal.type_keys("\u{3}");
    terminal
        .wait_for_text("withdrawn")
        .await
        .wait_for_text("interrupted")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("2\r");
    terminal.wait_for_text("Again.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(!second_request(server).await.contains("The user chose"));
}

#[tokio::test]
async fn a_run_at_a_terminal_asks_the_agents_question() {
    let (server, fixture) = with_replies([ask_call(), text_reply("So be it.")]).await;
    let mut terminal = Terminal::start(&fixture, &["run", "go", "-m", MODEL], 80, "xterm-256color");
    terminal.wait_for_text("  1  SQLite").await.wait_for_text("or - for no answer:").await;
    terminal.type_keys("9\r");
    terminal.wait_for_text("answer with 1 to 2").await;
    terminal.wait_for("the prompt again", |screen| screen.ends_with("for no answer:")).await;
    terminal.type_keys("sqlite\r");
    terminal.wait_for_text("you: SQLite").await.wait_for_text("So be it.").await;
    terminal.wait_for_exit(0).await;
    assert!(second_request(server).await.contains("The user chose: SQLite"));
}

#[tokio::test]
async fn without_a_terminal_the_model_has_no_tool_to_ask_and_is_told_to_choose() {
    let (server, fixture) = with_replies([text_reply("I take SQLite.")]).await;
    let ran = fixture.run(&["run", "go", "-m", MODEL, "-o", "json"]).await;
    assert_eq!(ran.exited(0).result()["text"], "I take SQLite.");
    let requests = server.finish().await.unwrap();
    let request = requests[0].body.to_string();
    assert!(!request.contains("ask_user"), "{request}");
    assert!(request.contains("Nobody is there to answer or confirm."), "{request}");
}

#[tokio::test]
async fn a_session_killed_during_a_question_resumes_with_the_question_closed() {
    let (server, fixture) = with_replies([ask_call(), text_reply("It goes on.")]).await;
    let terminal = chat(&fixture).await;
    let pid = Pid::from_raw(terminal.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let session = fixture.session();
    let id = session.file_name().unwrap().to_str().unwrap();
    let ran = fixture.run(&["run", "go on", "--resume", id, "-o", "json"]).await;
    assert_eq!(ran.result()["text"], "It goes on.");
    assert!(second_request(server).await.contains("The call was interrupted"));
}

/// Command that creates `ready`, and runs until `go` exists.
const WAITING: &str = "touch ready; while [ ! -e go ]; do sleep 0.02; done";

fn wait_call() -> ScriptStep {
    ScriptedReply::new().call("c1", "bash", &json!({ "command": WAITING })).into()
}

/// Saves `.envrc`, a protected file, as the user while the command runs, and then lets the command end.
async fn save_meanwhile(fixture: &Fixture) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !fixture.project("ready").exists() {
        assert!(std::time::Instant::now() < end, "the command does not run");
        tokio::task::yield_now().await;
    }
    std::fs::write(fixture.project(".envrc"), "mine\n").unwrap();
    std::fs::write(fixture.project("go"), "").unwrap();
}

#[tokio::test]
async fn a_protected_file_saved_by_the_user_during_a_command_can_be_put_back() {
    // The first end is answered with the call that failed.
    let replies = [wait_call(), text_reply("Ended."), text_reply("Done.")];
    let (server, fixture) = with_replies(replies).await;
    let args = ["-m", MODEL, "--permissions", "full-auto"];
    let mut terminal = Terminal::start(&fixture, &args, 80, "xterm-256color");
    terminal.wait_for_prompt("").await.type_keys("run it\r");
    save_meanwhile(&fixture).await;
    terminal.wait_for_text("1  put back").await.wait_for_text("2  leave aside").await;
    terminal.wait_for_question().await;
    assert!(!fixture.project(".envrc").exists());
    terminal.type_keys("1");
    terminal
        .wait_for_text("you: put back")
        .await
        .wait_for_text("Done.")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert_eq!(std::fs::read_to_string(fixture.project(".envrc")).unwrap(), "mine\n");
    drop(server);
}

#[tokio::test]
async fn without_a_terminal_a_protected_file_saved_during_a_command_is_set_aside() {
    // The first end is answered with the call that failed.
    let last = text_reply("The command failed, because .envrc appeared.");
    let replies = [wait_call(), text_reply("Ended."), last];
    let (server, fixture) = with_replies(replies).await;
    let args = ["run", "go", "-m", MODEL, "-o", "json", "--permissions", "full-auto"];
    let child = fixture.start(&args);
    save_meanwhile(&fixture).await;
    let ran = crate::program::finish(child).await;
    ran.exited(0);
    assert!(!ran.out.contains("question_asked"), "{}", ran.out);
    assert!(ran.out.contains(".envrc appeared while `touch ready;"), "{}", ran.out);
    assert!(!fixture.project(".envrc").exists());
    drop(server);
}

#[tokio::test]
async fn several_open_questions_are_listed_and_each_is_answered_by_itself() {
    let fixture = Fixture::new();
    let read = |name: &str| -> ScriptStep {
        let path = fixture.home(name);
        std::fs::write(&path, format!("content of {name}\n")).unwrap();
        ScriptedReply::new().call("r", "read_file", &json!({"path": path})).into()
    };
    let task = |reply: ScriptedReply, id: &str| {
        let input = json!({"agent": "explorer", "description": "look", "prompt": "look"});
        reply.call(id, "task", &input)
    };
    // The requests of the two subagents may come in any order.
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    let replies = [
        task(task(ScriptedReply::new(), "t1"), "t2").into(),
        read("one"),
        read("two"),
        text_reply("Found."),
        text_reply("Found."),
        text_reply("Seen."),
    ];
    let options = ServerOptions { checks, ..ServerOptions::default() };
    let server = ModelServer::start_with(replies, options).await;
    let fixture = fixture.with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 100, "screen-256color");
    terminal.wait_for_prompt("").await.type_keys("look\r");
    terminal.wait_for_text("→ next of 2").await.wait_for_text("  then: ").await;
    // Either of them may have come first.
    let is_open = |screen: &str, name: &str| {
        screen.lines().any(|line| line.starts_with("? ") && line.ends_with(name))
    };
    let (first, second) =
        if is_open(&terminal.screen(), "one") { ("one", "two") } else { ("two", "one") };
    terminal.type_keys("\u{1b}[C");
    terminal
        .wait_for("the other question above its answers", |screen| is_open(screen, second))
        .await;
    terminal.wait_for_text("→ next of 2").await.type_keys("n");
    terminal.wait_for_text("answer: n").await.wait_for_question().await.type_keys("y");
    terminal.wait_for_run_end("Seen.").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    let bodies: Vec<String> =
        requests[3..5].iter().map(|request| request.body.to_string()).collect();
    let has = |text: &str| bodies.iter().any(|body| body.contains(text));
    let content = |name: &str| format!("content of {name}");
    assert!(has(&content(first)) && !has(&content(second)), "{bodies:?}");
}
