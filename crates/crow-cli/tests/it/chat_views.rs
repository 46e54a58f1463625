//! Views of the chat that take the whole screen, while something happens below them.

use std::fs;

use crow_testkit::{Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, WireDialect};
use portable_pty::CommandBuilder;
use serde_json::json;

use crate::{program::Fixture, signals::signal, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const SIZE: (u16, u16) = (80, 24);
/// Part of the filter row of a list without a filter.
const LIST: &str = "type to filter";
/// Part of the status row of a transcript.
const TRANSCRIPT: &str = "q close";

async fn with_replies(replies: Vec<ScriptStep>) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

async fn open_chat(fixture: &Fixture) -> Terminal {
    let mut terminal = Terminal::start_sized(fixture, &["-m", MODEL], SIZE, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal
}

fn has_view(terminal: &Terminal) -> bool {
    terminal.with_screen(vt100::Screen::alternate_screen)
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[tokio::test]
async fn a_question_under_a_view_is_asked_when_the_view_is_closed() {
    let gate = StreamGate::new();
    let stall = Fault::StallAfter { events: 3, gate: gate.clone() };
    let call = json!({"command": "echo x > a.txt"});
    let (server, fixture) = with_replies(vec![
        ScriptedReply::new().text("I write it.").call("c1", "bash", &call).with(stall),
        ScriptedReply::new().text("Then not.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("write\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("\u{f}");
    terminal.wait_for_text(TRANSCRIPT).await;
    gate.open();
    // The title says so, because nothing on the screen does.
    terminal.wait_for_bytes(|bytes| contains(bytes, "crow needs you")).await;
    // Keys that would answer the question, and the end of them: a search, of which the last row tells.
    terminal.type_keys("y1a\r/zzz\r");
    terminal.wait_for_text("zzz").await;
    assert!(has_view(&terminal) && !terminal.screen().contains("press a key"));
    assert!(!fixture.project("a.txt").exists());
    terminal.type_keys("q");
    terminal.wait_for_text("? echo x > a.txt").await.wait_for_question().await;
    assert!(!has_view(&terminal) && !fixture.project("a.txt").exists());
    terminal.type_keys("n");
    terminal.wait_for_run_end("Then not.").await.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    assert!(!fixture.project("a.txt").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_view_is_drawn_anew_when_a_stopped_program_is_continued() {
    let (_server, fixture) = with_replies(Vec::new()).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("half a line");
    terminal.wait_for_prompt("half a line").await.type_keys("\u{15}/model\r");
    terminal.wait_for_text(LIST).await;
    let before = terminal.screen();
    signal("-STOP", terminal.pid());
    terminal.write_as_other_program("\u{1b}[H\u{1b}[2Janother program was here");
    signal("-CONT", terminal.pid());
    terminal.wait_for("the list again", |screen| screen == before.trim_end()).await;
    assert!(has_view(&terminal));
    // Keys still go to it.
    terminal.type_keys("opus-4-1");
    terminal.wait_for_text("› anthropic/claude-opus-4-1").await.type_keys("\u{1b}[27u\u{1b}[27u");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn a_view_is_drawn_anew_after_a_stop_and_fg_in_a_shell() {
    let (_server, fixture) = with_replies(Vec::new()).await;
    let mut shell = CommandBuilder::new("sh");
    shell.arg("-i");
    let mut terminal = Terminal::start_command(&fixture, shell, SIZE, "xterm-256color");
    let program = env!("CARGO_BIN_EXE_crow-agent");
    terminal.type_keys(&format!("sh -c 'echo $$ > pid; exec {program} -m {MODEL}'\r"));
    terminal.wait_for_prompt("").await.type_keys("/model\r");
    terminal.wait_for_text(LIST).await;
    let before = terminal.screen();
    let pid = fs::read_to_string(fixture.project("pid")).unwrap().trim().parse().unwrap();
    signal("-TSTP", pid);
    terminal.wait_for_text("Stopped").await;
    // The terminal is still in the modes of the chat, in which enter is a line feed.
    terminal.type_keys("fg\n");
    terminal.wait_for("the list again", |screen| screen == before.trim_end()).await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for("the shell", |screen| screen.ends_with(['$', '#'])).await.type_keys("exit\r");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn a_view_follows_the_size_of_the_terminal() {
    let words = (1..=30).map(|number| format!("word{number:02}")).collect::<Vec<_>>().join(" ");
    let (server, fixture) =
        with_replies(vec![ScriptedReply::new().text(words.as_str()).into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("words\r");
    terminal.wait_for_run_end("word30").await.wait_for_prompt("").await.type_keys("\u{f}");
    terminal.wait_for_text(TRANSCRIPT).await;
    for (columns, rows) in [(60, 12), (30, 24), (110, 30)] {
        terminal.resize_to((columns, rows));
        let row_of_words = words[..usize::from(columns)].rsplit_once(' ').unwrap().0;
        let is_fitted = |screen: &str| {
            let has_status =
                screen.lines().count() == usize::from(rows) && screen.contains("\ntranscript");
            has_status && screen.lines().any(|line| line.trim_end() == row_of_words)
        };
        terminal.wait_for(&format!("{columns}x{rows}"), is_fitted).await;
        assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    }
    terminal.type_keys("q");
    terminal.wait_for_prompt("").await;
    assert_eq!(terminal.screen().matches("> words").count(), 1, "{}", terminal.screen());
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}
