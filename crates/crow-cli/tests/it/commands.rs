//! Commands of a session, at a terminal and on the command line.

use std::fs;

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{program::Fixture, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

async fn with_replies<const N: usize>(replies: [ScriptStep; N]) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

async fn open_chat(fixture: &Fixture) -> Terminal {
    let mut terminal = Terminal::start(fixture, &["-m", MODEL], 80, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal
}

#[tokio::test]
async fn a_prompt_file_becomes_a_chat_command() {
    let (server, fixture) =
        with_replies([ScriptedReply::new().text("Good day, Ada.").into()]).await;
    let folder = fixture.home(".config/crow-agent/prompts/commands");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\ndescription: greets somebody\nargument-hint: NAME\n---\nGreet $1 politely.\n";
    fs::write(folder.join("greet.md"), text).unwrap();
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("/help\r");
    terminal.wait_for_text("greets somebody").await.wait_for_prompt("").await;
    terminal.type_keys("/greet Ada\r");
    terminal.wait_for_text("Good day, Ada.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    assert!(requests[0].body.to_string().contains("Greet Ada politely."));
}

#[tokio::test]
async fn a_mode_set_in_the_chat_applies_from_the_next_prompt_on() {
    let done = json!({"summary": "I looked at it."});
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("It is written.").into(),
        ScriptedReply::new().call("c1", "task_complete", &done).into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("/mode judge\r");
    terminal.wait_for_text("mode: judge").await.wait_for_prompt("").await;
    terminal.type_keys("write it\r");
    terminal.wait_for_text("I looked at it.").await.wait_for_prompt("").await;
    terminal.type_keys("/status\r");
    terminal.wait_for_text("judge, reviewed by reviewer").await.wait_for_prompt("").await;
    terminal.type_keys("/new\r");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("/mode\r");
    terminal.wait_for_text("* judge").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    assert!(requests[0].body.to_string().contains("submit_for_review"));
    assert!(requests[1].body.to_string().contains("You are reviewer"));
}

#[tokio::test]
async fn a_session_is_exported_as_markdown() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Good day.").into()]).await;
    fixture.run(&["run", "say something", "-m", MODEL]).await.exited(0);
    let exported = fixture.run(&["sessions", "export", &fixture.id()]).await;
    let text = &exported.exited(0).out;
    assert!(text.starts_with("# say something\n"), "{text}");
    assert!(text.contains("## User\n\nsay something") && text.contains("Good day."), "{text}");
    fixture.run(&["sessions", "export", "absent"]).await.exited(2);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn choices_made_in_a_chat_do_not_affect_run() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Good day.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("/agents PLAN\r");
    terminal.wait_for_text("agent: PLAN").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    fixture.run(&["run", "say something", "-m", MODEL]).await.exited(0);
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("You are builder"));
}
