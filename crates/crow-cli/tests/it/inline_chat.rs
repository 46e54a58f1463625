//! The chat with a live region, on a real pseudo-terminal.

use std::fs;

use base64::Engine as _;
use crow_testkit::{
    Fault, ModelServer, PrefixCheck, RecordedRequest, ReplyUsage, Script, ScriptStep,
    ScriptedReply, ServerChecks, ServerOptions, StreamGate, WireDialect, wait_until,
};
use serde_json::{Value, json};

use crate::{
    config::write_user_config,
    program::Fixture,
    signals::signal,
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

#[tokio::test]
async fn a_file_is_completed_behind_an_at_sign() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("seen").into()]).await;
    std::fs::create_dir(fixture.project("src")).unwrap();
    std::fs::write(fixture.project("src/total.rs"), "fn total() {}\n").unwrap();
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("look at @tot");
    terminal.wait_for_text("› src/total.rs").await.type_keys("\t");
    terminal.wait_for_prompt("look at @src/total.rs").await.type_keys("\r");
    terminal.wait_for_run_end("seen").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let body = server.finish().await.unwrap()[0].body.to_string();
    assert!(body.contains("fn total() {}"), "{body}");
}

#[tokio::test]
async fn the_output_of_an_own_command_is_part_of_the_next_prompt() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("I see.").into()]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("!echo first; echo second >&2; exit 3\r");
    terminal.wait_for_text("exit code 3; the agent is told").await;
    assert!(terminal.screen().contains("first\nsecond\n"), "{}", terminal.screen());
    terminal.type_keys("why?\r");
    terminal.wait_for_run_end("I see.").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let body = server.finish().await.unwrap()[0].body.to_string();
    assert!(
        body.contains("exit code 3) myself") || body.contains("myself (exit code 3)"),
        "{body}"
    );
    assert!(body.contains("first\\nsecond"), "{body}");
}

#[tokio::test]
async fn ctrl_c_ends_an_own_command() {
    let (_server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("!echo begun; sleep 600\r");
    terminal.wait_for_text("\nbegun").await.type_keys("\u{3}");
    terminal.wait_for_text("it was killed; the agent is told").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn the_prompt_is_edited_in_the_editor_of_the_user() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("I see.").into()]).await;
    let mut fixture = fixture;
    fixture.set_env("EDITOR", "sh -c 'printf \" and more\" >> \"$0\"'");
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("some words\u{18}\u{5}");
    terminal.wait_for_prompt("some words and more").await.type_keys("\r");
    terminal.wait_for_run_end("I see.").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("some words and more"));
}

#[tokio::test]
async fn the_agent_goes_on_while_the_editor_has_the_terminal() {
    let (first, second) = (StreamGate::new(), StreamGate::new());
    let look = ScriptedReply::new()
        .call("c1", "list_directory", &json!({"path": "."}))
        .with(Fault::StallAfter { events: 1, gate: first.clone() });
    let answer = ScriptedReply::new()
        .text("All done.")
        .with(Fault::StallAfter { events: 1, gate: second.clone() });
    let (server, mut fixture) = with_replies([look, answer]).await;
    let editor = "mkfifo go; read line < go; printf \" edited\" >> \"$0\"";
    fixture.set_env("EDITOR", &format!("sh -c '{editor}'"));
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("begin\r");
    first.wait_for_arrival(1).await;
    terminal.type_keys("draft\u{18}\u{5}");
    let go = fixture.project("go");
    wait_until(|| go.exists()).await;
    first.open();
    second.wait_for_arrival(1).await;
    second.open();
    std::fs::write(&go, "on\n").unwrap();
    terminal.wait_for_prompt("draft edited").await.wait_for_text("All done.").await;
    terminal.wait_for_run_end("All done.").await.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_signal_ends_the_chat_while_the_editor_has_the_terminal() {
    let (_server, mut fixture) = with_replies([]).await;
    fixture.set_env("EDITOR", "sh -c 'touch \"$PWD/started\"; exec sleep 600'");
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("draft\u{18}\u{5}");
    let started = fixture.project("started");
    wait_until(|| started.exists()).await;
    signal("-TERM", terminal.pid());
    terminal.wait_for_exit(130).await;
}

#[tokio::test]
async fn shift_tab_goes_through_the_permission_modes_but_the_one_that_permits_all() {
    let (_server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    for mode in ["accept-edits", "read-only", "ask"] {
        terminal.type_keys("\u{1b}[Z");
        terminal.wait_for_text(&format!("permissions: {mode}")).await;
        terminal.wait_for_text(&format!("BUILD-HITL · hitl · {mode}")).await;
    }
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn the_transcript_covers_the_screen_and_leaves_it_as_it_was() {
    let (server, fixture) =
        with_replies([ScriptedReply::new().text("Some **bold** words.").into()]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("hello\r");
    terminal.wait_for_run_end("Some bold words.").await.type_keys("\u{f}");
    terminal.wait_for_text("q close").await.wait_for_text("> hello").await;
    terminal.type_keys("q");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    let last = terminal.wait_for_exit(0).await;
    assert!(!last.contains("q close") && last.contains("Some bold words."), "{last}");
    server.finish().await.unwrap();
}

/// Plays a recording on a terminal of its size, and returns the last screen.
pub(crate) fn replay(recording: &str) -> vt100::Parser {
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
async fn two_escapes_go_back_to_before_a_prompt() {
    let call = json!({"path": "a.txt", "content": "x\n"});
    // The conversation that the last request has is another one than before.
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    let replies: [ScriptStep; 4] = [
        ScriptedReply::new().text("first answer").into(),
        ScriptedReply::new().call("c", "write_file", &call).into(),
        ScriptedReply::new().text("second answer").into(),
        ScriptedReply::new().text("third answer").into(),
    ];
    let options = ServerOptions { checks, ..ServerOptions::default() };
    let server = ModelServer::start_with(replies, options).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal =
        Terminal::start(&fixture, &["-m", MODEL, "-p", "accept-edits"], 80, "screen-256color");
    terminal.wait_for_prompt("").await.type_keys("one\r");
    terminal.wait_for_run_end("first answer").await.type_keys("two\r");
    terminal.wait_for_run_end("second answer").await;
    assert!(fixture.project("a.txt").exists());
    terminal.type_keys("\u{1b}[27u\u{1b}[27u");
    terminal.wait_for_text("› two").await.type_keys("\r");
    terminal.wait_for_text("› conversation and files").await.type_keys("\r");
    terminal.wait_for_prompt("two").await.wait_for_text("undone").await;
    assert!(!fixture.project("a.txt").exists());
    terminal.type_keys(" again\r");
    terminal.wait_for_run_end("third answer").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let body = server.finish().await.unwrap()[3].body.to_string();
    assert!(body.contains("two again") && !body.contains("second answer"), "{body}");
}

#[tokio::test]
async fn a_model_is_chosen_from_a_list_with_a_filter() {
    let (_server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("/model\r");
    terminal.wait_for_text("type to filter").await.type_keys("opus-4-1");
    terminal.wait_for_text("› anthropic/claude-opus-4-1").await.type_keys("\r");
    terminal.wait_for_text("model: anthropic/claude-opus-4-1").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn the_path_of_an_image_that_is_pasted_becomes_the_image() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("a dot").into()]).await;
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let file = fixture.home("my dot.png");
    std::fs::write(&file, base64::engine::general_purpose::STANDARD.decode(pixel).unwrap())
        .unwrap();
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("what is \u{1b}[200~");
    terminal.type_keys(&file.display().to_string().replace(' ', "\\ "));
    terminal.type_keys("\u{1b}[201~?");
    terminal.wait_for_prompt("what is [image my dot.png]?").await.type_keys("\r");
    terminal.wait_for_run_end("a dot").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let body = server.finish().await.unwrap()[0].body.to_string();
    assert!(
        body.contains("what is [image my dot.png]?") && body.contains("\"image/png\""),
        "{body}"
    );
}

#[tokio::test]
async fn a_pasted_path_that_is_no_image_stays_text() {
    let (_server, fixture) = with_replies([]).await;
    let broken = fixture.home("broken.png");
    std::fs::write(&broken, "no picture").unwrap();
    let mut terminal = open_chat(&fixture, 160).await;
    terminal.type_keys(&format!("\u{1b}[200~{}\u{1b}[201~", broken.display()));
    terminal.wait_for_text("note: the path is inserted, not the image").await;
    terminal.wait_for_prompt(&broken.display().to_string()).await.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{1b}[200~/none/such.png\u{1b}[201~");
    terminal.wait_for_prompt("/none/such.png").await.type_keys("\u{3}\u{4}");
    terminal.wait_for_exit(0).await;
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

/// Returns how often a text is in the user's messages of a request.
fn count_in_messages(request: &RecordedRequest, text: &str) -> usize {
    request.body["messages"].to_string().matches(text).count()
}

#[tokio::test]
async fn lines_entered_while_the_agent_works_are_sent_once_in_their_order() {
    let gate = StreamGate::new();
    let stalled = ScriptedReply::new()
        .text("one two three four")
        .with(Fault::StallAfter { events: 3, gate: gate.clone() });
    let last = ScriptedReply::new().text("That is all.").into();
    let (server, fixture) = with_replies([stalled, last]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    let lines = ["first line", "second line", "third line"];
    for line in lines {
        terminal.type_keys(&format!("{line}\r"));
        terminal.wait_for_text(&format!("> {line}\n")).await.wait_for_prompt("").await;
    }
    // Two that arrive together.
    terminal.type_keys("fourth line\rfifth line\r");
    terminal.wait_for_text("fifth line\n").await.wait_for_prompt("").await;
    gate.open();
    terminal.wait_for_run_end("That is all.").await.wait_for_prompt("").await;
    let screen = terminal.screen();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let sent = requests[1].body["messages"].to_string();
    let mut end = 0;
    for line in [&lines[..], &["fourth line", "fifth line"]].concat() {
        assert_eq!(count_in_messages(&requests[1], line), 1, "{line}: {sent}");
        let at = sent.find(line).unwrap();
        assert!(at > end, "{line}: {sent}");
        end = at;
        assert_eq!(screen.matches(line).count(), 1, "{line}: {screen}");
    }
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn lines_that_wait_for_a_command_are_sent_once_in_their_order() {
    let script = Script::repeating(ScriptedReply::new().text("Well."));
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("!until [ -e go ]; do sleep 0.02; done\r");
    terminal.type_keys("first line\r");
    terminal.wait_for_text("waiting: first line").await.type_keys("second line\r");
    terminal.wait_for_text("waiting: second line").await.wait_for_prompt("").await;
    fs::write(fixture.project("go"), "").unwrap();
    let has_second = |request: &RecordedRequest| count_in_messages(request, "second line") > 0;
    wait_until(|| server.requests().iter().any(|request| has_second(request))).await;
    terminal.wait_for_run_end("Well.").await.wait_for_prompt("").await;
    let requests = server.requests();
    let last = requests.last().unwrap();
    for line in ["first line", "second line"] {
        assert_eq!(count_in_messages(last, line), 1, "{}", last.body);
        let is_shown_once = |screen: &str| screen.matches(line).count() == 1;
        terminal.wait_for("each line once", is_shown_once).await;
    }
    let sent = last.body["messages"].to_string();
    assert!(sent.find("first line") < sent.find("second line"), "{sent}");
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn of_many_lines_that_wait_the_first_are_shown() {
    let (_server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("!echo begun; sleep 600\r");
    terminal.wait_for_text("\nbegun\n").await;
    for number in 1..=60 {
        terminal.type_keys(&format!("line {number}\r"));
    }
    terminal.wait_for_text("waiting: line 3\n… 57 more\n").await.wait_for_prompt("").await;
    let screen = terminal.screen();
    assert!(screen.contains("\nbegun\n") && !screen.contains("line 4"), "{screen}");
    // They come back to the prompt when the command is ended.
    terminal.type_keys("\u{3}");
    terminal.wait_for_text("it was killed; the agent is told").await;
    terminal.wait_for_text("line 60\n").await.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn two_escapes_while_the_agent_works_stop_it_and_open_no_list() {
    // Together, and the second one once the first has been taken.
    for pause in ["", "stopping"] {
        let gate = StreamGate::new();
        let stalled = ScriptedReply::new()
            .text("one two three four")
            .with(Fault::StallAfter { events: 3, gate: gate.clone() });
        let first = ScriptedReply::new().text("Before.").into();
        let (server, fixture) = with_replies([first, stalled]).await;
        let mut terminal = open_chat(&fixture, 80).await;
        terminal.type_keys("hello\r");
        terminal.wait_for_run_end("Before.").await.wait_for_prompt("").await.type_keys("count\r");
        gate.wait_for_arrival(1).await;
        terminal.type_keys("\u{1b}[27u");
        terminal.wait_for_text(pause).await.type_keys("\u{1b}[27u");
        terminal.wait_for_text("interrupted").await.wait_for_prompt("").await;
        // A list would take these keys.
        terminal.type_keys("more");
        terminal.wait_for_prompt("more").await;
        assert!(!terminal.with_screen(vt100::Screen::alternate_screen));
        terminal.type_keys("\u{3}");
        terminal.wait_for_prompt("").await.type_keys("\u{4}");
        terminal.wait_for_exit(0).await;
        gate.open();
        drop(server);
    }
}

async fn open_with_status(fixture: &Fixture, template: &str, args: &[&str]) -> Terminal {
    let config = format!("[terminal]\nstatus_line = {template:?}\n");
    write_user_config(fixture, "config.toml", &config);
    let args = [&["-m", MODEL], args].concat();
    let mut terminal = Terminal::start(fixture, &args, 120, "screen-256color");
    terminal.wait_for_text("/help shows").await;
    terminal
}

#[tokio::test]
async fn the_status_line_is_about_the_session_that_is_open() {
    let usage = |input, output| ReplyUsage { input, output, ..ReplyUsage::default() };
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("One.").with_usage(usage(1000, 30)).into(),
        ScriptedReply::new().text("Two.").with_usage(usage(2000, 20)).into(),
    ])
    .await;
    let template = "{model} has {tokens_in} and {tokens_out} in {session}";
    let mut terminal = open_with_status(&fixture, template, &[]).await;
    terminal.type_keys("first task\r");
    terminal.wait_for_run_end("One.").await.type_keys("again\r");
    terminal.wait_for_run_end("Two.").await;
    // Of both runs.
    let status = format!("{MODEL} has 3.0k and 50 in first task");
    terminal.wait_for_text(&status).await;
    let id = fixture.id();
    terminal.type_keys("/new\r");
    terminal.wait_for_text(&format!("{MODEL} has 0 and 0 in ")).await;
    assert!(!terminal.screen().contains(&status), "{}", terminal.screen());
    terminal.type_keys("/model anthropic/claude-opus-4-1\r");
    terminal.wait_for_text("anthropic/claude-opus-4-1 has 0 and 0 in ").await;
    terminal.type_keys(&format!("/sessions {id}\r"));
    terminal.wait_for_text(&status).await;
    assert!(!terminal.screen().contains("claude-opus-4-1 has"), "{}", terminal.screen());
    // Unlike ctrl-d, it waits until the session before is closed.
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_status_line_has_the_time_of_the_run_and_the_jobs_until_the_session_is_left() {
    let gate = StreamGate::new();
    let call = json!({"command": "sleep 600", "run_in_background": true});
    let stalled = ScriptedReply::new()
        .text("It runs now.")
        .with(Fault::StallAfter { events: 4, gate: gate.clone() });
    let (server, fixture) =
        with_replies([ScriptedReply::new().call("c1", "bash", &call).into(), stalled]).await;
    let mut terminal =
        open_with_status(&fixture, "took {time} · has {jobs} · {agent}", &["-p", "full-auto"])
            .await;
    terminal.type_keys("start it\r");
    gate.wait_for_arrival(1).await;
    terminal.wait_for_text("has 1 job · BUILD").await;
    // The time goes on.
    terminal.wait_for_text("took 1 s · has 1 job").await;
    gate.open();
    terminal.wait_for_run_end("It runs now.").await.wait_for_text("has 1 job · BUILD").await;
    assert!(terminal.screen().contains("\n  1 job: sleep 600"), "{}", terminal.screen());
    terminal.type_keys("/new\r");
    terminal
        .wait_for("a status without the old session", |screen| {
            screen.trim_end().lines().any(|line| line.trim_end() == "BUILD-HITL")
        })
        .await;
    terminal.wait_for("no job", |screen| !screen.contains("1 job: sleep 600")).await;
    // Unlike ctrl-d, it waits until the session before is closed.
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_budget_bounds_the_work_on_each_prompt_and_the_status_line_shows_its_use() {
    let look = |id| ScriptedReply::new().call(id, "bash", &json!({"command": "echo 1"}));
    // A reply of the test kit has 120 tokens.
    let (server, fixture) = with_replies([
        look("c1").into(),
        ScriptedReply::new().text("One.").into(),
        look("c2").into(),
        look("c3").into(),
        look("c4").into(),
    ])
    .await;
    let args = ["-p", "full-auto", "--budget", "300 tokens"];
    let mut terminal = open_with_status(&fixture, "{budget} of budget", &args).await;
    assert!(!terminal.screen().contains("of budget"), "{}", terminal.screen());
    terminal.type_keys("first\r");
    terminal.wait_for_run_end("One.").await.wait_for_text("80 % of budget").await;
    terminal.type_keys("second\r");
    terminal.wait_for_text("120 % of budget").await;
    terminal.wait_for_text("limit of tokens").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_locale_without_unicode_gets_markdown_in_ascii() {
    let answer = "- one\n\n| a | b |\n|---|---|\n| x | y |\n";
    let (server, mut fixture) = with_replies([ScriptedReply::new().text(answer).into()]).await;
    fixture.set_env("LC_ALL", "C");
    let mut terminal = open_chat(&fixture, 80).await;
    terminal.type_keys("hello\r");
    terminal.wait_for_text("| x | y |\n+---+---+\n").await.wait_for_text("- one\n").await;
    terminal.wait_for_text(RUN_END).await.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}
