//! What nobody should send to a terminal or type at it: hostile texts, bytes that are no text, and terminals that go away.

use std::fs;

use crow_testkit::{
    Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, WireDialect, wait_until,
};
use portable_pty::CommandBuilder;
use regex::bytes::Regex;
use serde_json::json;

use crate::{
    program::{Fixture, any_file_contains},
    signals::signal,
    terminal::Terminal,
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const SIZE: (u16, u16) = (80, 24);
/// Sequences that the chat may send. Those of the background and the attributes of the terminal are questions.
const SENT_SEQUENCES: &str = r"(?x)
    \x1b\[[0-9;:]*m
    | \x1b\[[0-9]*[AC]
    | \x1b\[[KJ]
    | \x1b\[\?(?:2026|25|7|2004|1004)[hl]
    | \x1b\[>1u | \x1b\[<u
    | \x1b\[c
    | \x1b\]11;\?(?:\x07|\x1b\\)
    | \x1b\]8;;[\x20-\x7e]*(?:\x07|\x1b\\)
    | \x1b\](?:0|2);[^\x00-\x1f\x7f]*(?:\x07|\x1b\\)
    | \x1b\[2[23];[02](?:;[02])?t
    | \r\n | \r";

async fn with_replies(replies: Vec<ScriptStep>) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

async fn open_chat(fixture: &Fixture, args: &[&str]) -> Terminal {
    let args = [&["-m", MODEL], args].concat();
    let mut terminal = Terminal::start_sized(fixture, &args, SIZE, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal
}

fn stalled_reply() -> (StreamGate, ScriptStep) {
    let gate = StreamGate::new();
    let stall = Fault::StallAfter { events: 4, gate: gate.clone() };
    (gate, ScriptedReply::new().text("some words of an answer").with(stall))
}

/// Panics if the terminal received anything but text and the sequences that the chat may send.
fn assert_only_own_sequences(terminal: &Terminal) {
    let bytes = terminal.received_bytes();
    let text = Regex::new(SENT_SEQUENCES).unwrap().replace_all(&bytes, &b""[..]).into_owned();
    let text = String::from_utf8(text).expect("the output is no text");
    let is_harmful = |char: &char| {
        char.is_control()
            || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(char, '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    if let Some((at, _)) = text.char_indices().find(|(_, char)| is_harmful(char)) {
        let from = text.floor_char_boundary(at.saturating_sub(40));
        let to = text.ceil_char_boundary(at + 40);
        panic!("{:?}", &text[from..to]);
    }
}

#[tokio::test]
async fn a_paste_of_a_megabyte_is_one_prompt_that_arrives_whole() {
    let (server, fixture) = with_replies(vec![ScriptedReply::new().text("Long.").into()]).await;
    let mut terminal = open_chat(&fixture, &[]).await;
    let lines: Vec<String> = (0..24_000)
        .map(|line| format!("line {line:05} of a text that is pasted, ünïcödé"))
        .collect();
    let text = lines.join("\n");
    assert!(text.len() > 1_000_000);
    terminal.type_keys(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    terminal.wait_for_text("24000 lines").await.type_keys(" and more\r");
    terminal.wait_for_run_end("Long.").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    let messages = requests[0].body["messages"].to_string();
    assert!(messages.contains(&lines.join("\\n")), "{} bytes", messages.len());
    assert!(messages.contains("ünïcödé and more"), "{} bytes", messages.len());
}

#[tokio::test]
async fn typed_bytes_that_are_no_text_do_no_harm() {
    let (server, fixture) = with_replies(vec![ScriptedReply::new().text("Odd.").into()]).await;
    let mut terminal = open_chat(&fixture, &[]).await;
    // Bytes that begin nothing, an overlong form, half a surrogate, and beginnings without an end.
    let inputs: [&[u8]; 6] =
        [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x28\xa1", b"\xf0\x9f", b"\x80\x9b31m"];
    terminal.type_keys("a");
    for input in inputs {
        terminal.type_bytes(input);
        terminal.type_keys("-");
    }
    terminal.type_keys("z");
    terminal.wait_for("the last key", |screen| screen.contains("-z")).await;
    terminal.type_keys("\r");
    terminal.wait_for_run_end("Odd.").await;
    assert_only_own_sequences(&terminal);
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let messages = server.finish().await.unwrap()[0].body["messages"].to_string();
    assert!(messages.contains('a') && messages.contains("-z"), "{messages}");
}

/// Texts that change a terminal, its title or its clipboard, or how other texts look.
const HOSTILE: [&str; 14] = [
    "\u{1b}]0;owned\u{7}title",
    "\u{1b}]52;c;b3duZWQ=\u{7}clipboard",
    "\u{1b}[2J\u{1b}[Hcleared",
    "\u{1b}[?1049h\u{1b}[?1000hmodes",
    "\u{1b}P1$r0m\u{1b}\\device",
    "\u{9b}31mred\u{9d}0;owned\u{9c}",
    "back\u{8}\u{8}\u{8}\u{8}over\u{d}write",
    "\u{202e}gnirts\u{202c} \u{2066}isolated\u{2069}",
    "wide 漢字カナ and 👩\u{200d}👩\u{200d}👧 and e\u{301}\u{301}\u{301}",
    "private \u{e000}\u{f8ff}\u{10fffd} tags \u{e0041}\u{e007f}",
    "zero\u{200b}width\u{feff} \u{2028}separated\u{2029}",
    "bell\u{7} null\u{0} delete\u{7f}",
    "[link](https://example.com/\u{1b}]0;owned\u{7}) and [x](javascript:alert\u{1b}[2J)",
    "![image\u{1b}[2J](file:///\u{1b}]52;c;eA==\u{7})",
];

/// Text in which each of the hostile ones stands in each kind of block.
fn hostile_markdown() -> String {
    let blocks = HOSTILE.iter().map(|text| {
        format!("# {text}\n\n{text} **{text}** `{text}`\n\n- {text}\n\n> {text}\n\n| {text} | b |\n|---|---|\n| {text} | c |\n\n```{text}\n{text}\n```\n\n")
    });
    blocks.collect::<String>() + "the end of it\n"
}

#[tokio::test]
async fn hostile_texts_reach_the_terminal_only_as_text() {
    let command = format!("printf '%s\\n' {}", HOSTILE.map(|text| format!("'{text}'")).join(" "))
        .replace('\u{0}', "");
    let replies = vec![
        ScriptedReply::new()
            .thinking(hostile_markdown(), "sig")
            .text(hostile_markdown())
            .call("c1", "bash", &json!({ "command": command }))
            .into(),
        ScriptedReply::new().call("c2", "bash", &json!({"command": "cat hostile.txt"})).into(),
        ScriptedReply::new().text("Done.").into(),
    ];
    let (server, fixture) = with_replies(replies).await;
    fs::write(fixture.project("hostile.txt"), HOSTILE.join("\n")).unwrap();
    fs::write(fixture.project("\u{1b}]0;owned\u{7}.txt"), "").unwrap();
    let mut terminal = open_chat(&fixture, &["-p", "full-auto"]).await;
    let pasted = HOSTILE.join("\n");
    terminal.type_keys(&format!("\u{1b}[200~{}\u{1b}[201~", pasted.replace('\u{1b}', "")));
    terminal.type_keys("\r");
    terminal.wait_for_run_end("Done.").await;
    // The list of files, the transcript and an own command.
    terminal.type_keys("@owned");
    terminal.wait_for_text("owned").await.type_keys("\u{3}");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("!cat hostile.txt\r");
    terminal.wait_for_text("the agent is told").await;
    assert_only_own_sequences(&terminal);
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_terminal_that_answers_late_or_never_is_no_obstacle() {
    let (_server, fixture) = with_replies(Vec::new()).await;
    let mut terminal = open_chat(&fixture, &[]).await;
    terminal.type_keys("typed at once");
    terminal.wait_for_prompt("typed at once").await;
    let bytes = terminal.received_bytes();
    assert!(bytes.windows(5).any(|part| part == b"]11;?"), "the terminal is not asked");
    // An answer in pieces is no text; neither is one that nobody asked for.
    for piece in ["\u{1b}]11;rgb:ffff/", "ffff/ffff\u{1b}", "\\", "\u{1b}[?62;1c", "\u{1b}[24;80R"]
    {
        terminal.type_keys(piece);
    }
    terminal.type_keys("!");
    terminal.wait_for_prompt("typed at once!").await.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
}

/// Returns a command that runs the program in a terminal of its own, and writes its process id to a file.
fn in_own_terminal() -> CommandBuilder {
    let program = env!("CARGO_BIN_EXE_crow-agent");
    let line = format!("echo $$ > pid; exec {program} -m {MODEL}");
    let mut command = CommandBuilder::new("script");
    command.args(["--quiet", "--command", &line, "/dev/null"]);
    command
}

fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}

#[tokio::test]
async fn the_session_is_kept_and_the_program_ends_when_its_terminal_goes() {
    for is_working in [false, true] {
        let (gate, stalled) = stalled_reply();
        let done = ScriptedReply::new().text("First.").into();
        let (server, fixture) = with_replies(vec![done, stalled]).await;
        let mut terminal =
            Terminal::start_command(&fixture, in_own_terminal(), SIZE, "xterm-256color");
        terminal.wait_for_prompt("").await.type_keys("remember me\r");
        terminal.wait_for_run_end("First.").await.wait_for_prompt("").await;
        if is_working {
            terminal.type_keys("and me\r");
            gate.wait_for_arrival(1).await;
        }
        let pid = fs::read_to_string(fixture.project("pid")).unwrap().trim().parse().unwrap();
        assert!(!has_ended(pid));
        terminal.kill().await;
        wait_until(|| has_ended(pid)).await;
        assert!(any_file_contains(&fixture.session(), "remember me"));
        assert_eq!(any_file_contains(&fixture.session(), "and me"), is_working);
        let list = fixture.run(&["sessions", "list"]).await;
        assert!(list.exited(0).out.contains("remember me"), "{}", list.out);
        drop(server);
    }
}

#[tokio::test]
async fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back() {
    let (_server, fixture) = with_replies(Vec::new()).await;
    let mut shell = CommandBuilder::new("sh");
    shell.arg("-i");
    let mut terminal = Terminal::start_command(&fixture, shell, SIZE, "xterm-256color");
    terminal.type_keys(&format!("{} -m {MODEL}\r", env!("CARGO_BIN_EXE_crow-agent")));
    terminal.wait_for_prompt("").await.type_keys("half a line");
    terminal.wait_for_prompt("half a line").await;
    for _ in 0..2 {
        terminal.type_keys("\u{1a}");
        terminal
            .wait_for("the prompt of the shell", |screen| {
                screen
                    .rsplit_once("stopped; fg resumes")
                    .is_some_and(|(_, below)| below.contains("Stopped"))
            })
            .await;
        assert!(terminal.has_original_modes());
        assert!(!terminal.with_screen(vt100::Screen::bracketed_paste));
        terminal.type_keys("clear; echo in the shell; fg\r");
        terminal.wait_for_text("in the shell\n").await.wait_for_prompt("half a line").await;
        assert!(terminal.with_screen(vt100::Screen::bracketed_paste));
    }
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for("the shell", |screen| screen.ends_with(['$', '#'])).await.type_keys("exit\r");
    terminal.wait_for_exit(0).await;
}

#[tokio::test]
async fn the_screen_is_drawn_anew_when_a_stopped_program_is_continued() {
    let (gate, stalled) = stalled_reply();
    let (server, fixture) = with_replies(vec![stalled]).await;
    let mut terminal = open_chat(&fixture, &[]).await;
    terminal.type_keys("work\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("half a line");
    terminal.wait_for_text("> half a line").await;
    signal("-STOP", terminal.pid());
    let before = terminal.received_bytes().len();
    signal("-CONT", terminal.pid());
    let is_taken = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"\x1b[?2004h");
    terminal.wait_for_bytes(|bytes| is_taken(&bytes[before..])).await;
    gate.open();
    terminal.wait_for_run_end("some words of an answer").await.wait_for_prompt("half a line").await;
    assert_eq!(terminal.screen().matches("some words").count(), 1, "{}", terminal.screen());
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}
