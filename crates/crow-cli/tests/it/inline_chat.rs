//! The chat with a live region, on a real pseudo-terminal.

use std::fs;

use crow_testkit::{
    Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, WireDialect, wait_until,
};
use serde_json::Value;

use crate::{
    program::Fixture,
    terminal::{STATUS, Terminal},
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// Part of the line below a run that has ended.
const RUN_END: &str = " out";
async fn with_replies<const N: usize>(replies: [ScriptStep; N]) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

async fn open_chat(fixture: &Fixture, columns: u16) -> Terminal {
    // This terminal cuts off rows that do not fit, as those of this type do.
    let args = ["-m", MODEL];
    let mut terminal = Terminal::start(fixture, &args, columns, "screen-256color");
    terminal.wait_for_prompt("").await;
    terminal
}

#[tokio::test]
async fn an_answer_is_rendered_above_the_prompt_and_the_region_is_gone_at_the_end() {
    let answer =
        "# Title\n\nSome **bold** text:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| x | y |\n";
    let (server, fixture) = with_replies([ScriptedReply::new().text(answer).into()]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("hello\r");
    terminal.wait_for_text("│ x │ y │").await.wait_for_text(RUN_END).await;
    terminal.wait_for_prompt("").await;
    let screen = terminal.screen();
    for line in ["> hello", "Title", "Some bold text:", "• one", "• two"] {
        assert!(screen.lines().any(|shown| shown.trim_end() == line), "{line}: {screen}");
    }
    let is_bold = terminal.with_screen(|screen| {
        let row = screen.rows(0, 80).position(|row| row.starts_with("Some bold text:")).unwrap();
        screen.cell(u16::try_from(row).unwrap(), 5).is_some_and(vt100::Cell::bold)
    });
    assert!(is_bold, "{screen}");
    terminal.type_keys("\u{4}");
    let last = terminal.wait_for_exit(0).await;
    assert!(last.contains("crow-agent --resume "), "{last}");
    assert!(!last.contains(STATUS), "{last}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_prompt_is_edited_and_typed_text_stays_while_the_agent_works() {
    let gate = StreamGate::new();
    let stalled = ScriptedReply::new()
        .text("one two three four")
        .with(Fault::StallAfter { events: 3, gate: gate.clone() });
    let (server, fixture) = with_replies([stalled]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    // Ctrl-a, ctrl-e, alt-b and ctrl-w as in a shell.
    terminal.type_keys("world\u{1}hello \u{5} again\u{17}\u{1b}bbig ");
    terminal.wait_for_prompt("hello big world").await;
    terminal.type_keys("\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("half a lin");
    terminal.wait_for_prompt("half a lin").await;
    gate.open();
    terminal.wait_for_text("one two three four").await.wait_for_text(RUN_END).await;
    terminal.wait_for_prompt("half a lin").await;
    // Ctrl-c clears the line, and on an empty one warns before it leaves.
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_text("ctrl-c again or /quit leaves").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("hello big world"));
}

#[tokio::test]
async fn escape_stops_the_agent() {
    let gate = StreamGate::new();
    let stalled = ScriptedReply::new()
        .text("one two three four")
        .with(Fault::StallAfter { events: 3, gate: gate.clone() });
    let (server, fixture) = with_replies([stalled]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("\u{1b}");
    terminal.wait_for_text("interrupted").await;
    terminal.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    gate.open();
    drop(server);
}

#[tokio::test]
async fn commands_are_listed_while_they_are_typed_and_completed() {
    let (_server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("/hel");
    terminal.wait_for_text("show this, or all about").await;
    terminal.type_keys("\t\r");
    terminal.wait_for_text("/quit").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn a_narrower_terminal_leaves_one_prompt() {
    let reply = ScriptedReply::new().text("a few words").into();
    let (server, fixture) = with_replies([reply]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("hello\r");
    terminal.wait_for_text("a few words").await.wait_for_text(RUN_END).await;
    terminal.type_keys("next");
    terminal.wait_for_prompt("next").await;
    for columns in [60, 40, 100] {
        terminal.resize(columns);
        terminal.type_keys("x\u{7f}");
        terminal
            .wait_for("one prompt", |screen| {
                screen.matches(STATUS).count() == 1 && screen.matches("> next").count() == 1
            })
            .await;
    }
    assert_eq!(terminal.screen().matches("a few words").count(), 1, "{}", terminal.screen());
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

/// Plays a recording on a terminal of its size, and returns the last screen.
fn replay(recording: &str) -> vt100::Parser {
    let mut lines = recording.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    let number = |value: &Value| u16::try_from(value.as_u64().unwrap()).unwrap();
    let size = |number: u16| std::num::NonZeroU16::new(number).unwrap();
    let (columns, rows) = (number(&header["width"]), number(&header["height"]));
    let mut player = vt100::Parser::new(size(rows), size(columns), 1000);
    for event in lines {
        let text = event[2].as_str().unwrap();
        match event[1].as_str().unwrap() {
            "o" => player.process(text.as_bytes()),
            "r" => {
                let (columns, rows) = text.split_once('x').unwrap();
                let [columns, rows] = [columns, rows].map(|text| size(text.parse().unwrap()));
                player.screen_mut().set_size(rows, columns);
            }
            other => panic!("the recording has an event {other}"),
        }
    }
    player
}

#[tokio::test]
async fn a_recording_plays_to_the_screen_of_the_chat() {
    let reply = ScriptedReply::new().text("Some **bold** text, and 漢字.").into();
    let (server, fixture) = with_replies([reply]).await;
    let args = ["-m", MODEL, "--record", "chat.cast"];
    let mut terminal = Terminal::start(&fixture, &args, 80, "screen-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("hello\r");
    terminal.wait_for_text("and 漢字.").await.wait_for_text(RUN_END).await;
    terminal.wait_for_prompt("").await;
    terminal.resize(60);
    terminal.type_keys("half a line");
    terminal.wait_for_prompt("half a line").await;
    let file = fixture.project("chat.cast");
    // Each event is written at once, after the terminal has it.
    let recorded = || replay(&fs::read_to_string(&file).unwrap());
    wait_until(|| recorded().screen().contents() == terminal.screen()).await;
    let (rows, columns) = recorded().screen().size();
    assert_eq!((rows.get(), columns.get()), (40, 60));
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    let last = terminal.wait_for_exit(0).await;
    assert!(last.contains("recorded in "), "{last}");
    let shown = recorded().screen().contents();
    assert!(last.starts_with(shown.trim_end()), "{shown}\n---\n{last}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_recording_overwrites_no_file_and_is_refused_for_plain_lines() {
    let (server, fixture) = with_replies([]).await;
    fs::write(fixture.project("notes.cast"), "mine").unwrap();
    for (file, term, expected) in [
        ("notes.cast", "xterm", "it exists already"),
        ("absent/x.cast", "xterm", "its folder does not exist"),
        ("new.cast", "dumb", "plain lines, which are not recorded"),
    ] {
        let args = ["-m", MODEL, "--record", file];
        let terminal = Terminal::start(&fixture, &args, 200, term);
        let screen = terminal.wait_for_exit(2).await;
        assert!(screen.contains(expected), "{file}: {screen}");
    }
    assert_eq!(fs::read_to_string(fixture.project("notes.cast")).unwrap(), "mine");
    assert!(!fixture.project("new.cast").exists());
    fixture.run(&["run", "hi", "--record", "x.cast"]).await.exited(2);
    server.finish().await.unwrap();
}
