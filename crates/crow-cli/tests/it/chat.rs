//! The chat on a real pseudo-terminal.

use std::{fs, process::Command};

use crow_testkit::{
    Fault, ModelServer, Script, ScriptStep, ScriptedReply, StreamGate, VendorError, WireDialect,
    wait_until,
};
use serde_json::json;

use crate::{program::Fixture, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

async fn open_chat(fixture: &Fixture) -> Terminal {
    let mut terminal = Terminal::start(fixture, &["-m", MODEL], 80, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal
}

async fn with_replies<const N: usize>(replies: [ScriptStep; N]) -> (ModelServer, Fixture) {
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

fn stalled_reply(text: &str, gate: &StreamGate) -> ScriptStep {
    ScriptedReply::new().text(text).with(Fault::StallAfter { events: 3, gate: gate.clone() })
}

fn write_call(id: &str, path: &str) -> ScriptedReply {
    ScriptedReply::new().call(id, "write_file", &json!({"path": path, "content": "x\n"}))
}

#[tokio::test]
async fn the_chat_shows_a_short_greeting_and_the_answer_to_a_prompt() {
    let (server, fixture) =
        with_replies([ScriptedReply::new().text("Good day to you.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    let greeting = terminal.screen();
    assert!(greeting.trim_end().lines().count() <= 8, "{greeting}");
    for part in [
        "crow-agent 0.",
        MODEL,
        "/project",
        "agent: BUILD-HITL  mode: hitl  permissions: ask",
        "/help",
    ] {
        assert!(greeting.contains(part), "{part}: {greeting}");
    }
    terminal.type_keys("hello there\r");
    terminal.wait_for_run_end("Good day to you.").await.wait_for_prompt("").await;
    assert!(!terminal.screen().contains("done"), "words are no task: {}", terminal.screen());
    terminal.type_keys("\u{4}");
    let last = terminal.wait_for_exit(0).await;
    assert!(last.contains("crow-agent --resume "), "{last}");
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("hello there"));
}

#[tokio::test]
async fn input_typed_during_a_reply_reaches_the_agent_and_leaves_the_output_intact() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([
        stalled_reply("one two three four", &gate),
        ScriptedReply::new().text("and five").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("go on to five");
    // Half of the answer is on the screen, with the typed text below it.
    terminal.wait_for_text("> go on to five").await;
    terminal.type_keys("\r");
    terminal.type_keys("half a lin");
    gate.open();
    terminal.wait_for_run_end("and five").await.wait_for_prompt("half a lin").await;
    let screen = terminal.screen();
    assert_eq!(screen.matches("go on to five").count(), 1, "{screen}");
    terminal.type_keys("\u{15}/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[1].body.to_string().contains("go on to five"));
}

#[tokio::test]
async fn a_yes_approves_one_call() {
    let command = json!({"command": "echo x >> a.txt"});
    let (server, fixture) = with_replies([
        ScriptedReply::new().call("c1", "bash", &command).into(),
        ScriptedReply::new().call("c2", "bash", &command).into(),
        ScriptedReply::new().text("Both were tried.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("write twice\r");
    terminal.wait_for_text("? echo x >> a.txt").await.wait_for_question().await;
    terminal.type_keys("y");
    terminal.wait_for_text("answer: y").await.wait_for_question().await;
    terminal.type_keys("n");
    terminal.wait_for_run_end("Both were tried.").await.wait_for_prompt("").await;
    assert_eq!(fs::read_to_string(fixture.project("a.txt")).unwrap(), "x\n");
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_approval_for_the_session_survives_a_resume() {
    let call = |id: &str, command: &str| {
        ScriptedReply::new().call(id, "bash", &json!({"command": command})).into()
    };
    let (server, fixture) = with_replies([
        call("c1", "cargo check --quiet > /dev/null"),
        call("c2", "cargo check --offline; echo ran > b.txt"),
        call("c3", "cargo check --offline; true"),
        ScriptedReply::new().text("All were tried.").into(),
        call("c4", "cargo check --version"),
        ScriptedReply::new().text("Once more.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("check it\r");
    terminal
        .wait_for_text("a  yes, and commands that begin with `cargo check`")
        .await
        .wait_for_question()
        .await;
    terminal.type_keys("a");
    // A command beyond the granted one is asked about.
    terminal.wait_for_text("answer: a").await.wait_for_question().await;
    terminal.type_keys("n");
    terminal.wait_for_run_end("All were tried.").await.wait_for_prompt("").await;
    assert!(!fixture.project("b.txt").exists());
    terminal.type_keys("/permissions\r");
    terminal.wait_for_text("granted command cargo check").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let session = fixture.session();
    let id = session.file_name().unwrap().to_str().unwrap();
    let ran = fixture.run(&["run", "again", "--resume", id, "-o", "json"]).await;
    let result = ran.result();
    assert_eq!(result["refusals"], json!([]), "{result}");
    let mut terminal = Terminal::start(&fixture, &["--resume", id], 80, "xterm-256color");
    terminal
        .wait_for_text("allowed in this session: `cargo check …`")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn input_typed_before_a_question_is_not_taken_as_its_answer() {
    let gate = StreamGate::new();
    let call = write_call("c1", "a.txt").with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let (server, fixture) =
        with_replies([call, ScriptedReply::new().text("I leave it.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("write\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("yes please");
    terminal.wait_for_prompt("yes please").await;
    gate.open();
    terminal.wait_for_text("keys answer when you stop typing").await;
    // The user keeps typing while the question appears.
    terminal.type_keys(", y");
    terminal.wait_for_prompt("yes please, y").await;
    terminal.wait_for_text("tab goes to the answers").await;
    terminal.type_keys("\tt");
    terminal.wait_for_text("enter sends your words").await;
    terminal.type_keys("not that file\r");
    terminal.wait_for_text("refused by you").await.wait_for_run_end("I leave it.").await;
    terminal.wait_for_prompt("yes please, y").await;
    // No call ran, so no work is reported as done.
    assert!(!terminal.screen().contains("done, unverified"), "{}", terminal.screen());
    assert!(!fixture.project("a.txt").exists());
    terminal.type_keys("\u{15}");
    terminal.wait_for_prompt("").await.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[1].body.to_string().contains("not that file"));
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_and_the_chat_continues() {
    let (server, fixture) = with_replies([
        write_call("c1", "a.txt").into(),
        ScriptedReply::new().text("Again.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("write\r");
    terminal.wait_for_question().await;
    terminal.type_keys("\u{3}");
    terminal
        .wait_for_text("withdrawn")
        .await
        .wait_for_text("interrupted")
        .await
        .wait_for_prompt("")
        .await;
    assert!(!terminal.screen().contains("error:"), "{}", terminal.screen());
    terminal.type_keys("y\r");
    terminal.wait_for_run_end("Again.").await.wait_for_prompt("").await;
    assert!(!fixture.project("a.txt").exists());
    terminal.type_keys("/exit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_second_interrupt_while_the_agent_stops_exits_with_130() {
    let command = json!({"command": "trap '' TERM INT; touch started; sleep 600"});
    let (_server, fixture) =
        with_replies([ScriptedReply::new().call("c1", "bash", &command).into()]).await;
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL, "-p", "full-auto"], 80, "xterm");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("wait\r");
    wait_until(|| fixture.project("started").exists()).await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_text("ctrl-c again leaves").await;
    terminal.type_keys("\u{3}");
    let last = terminal.wait_for_exit(130).await;
    assert!(last.contains("crow-agent --resume "), "{last}");
}

#[tokio::test]
async fn at_the_prompt_interrupts_clear_warn_and_leave() {
    let (server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("half");
    terminal.wait_for_prompt("half").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_text("ctrl-c again or /quit leaves").await.wait_for_prompt("").await;
    terminal.type_keys("\u{3}");
    let last = terminal.wait_for_exit(0).await;
    assert!(!last.contains("--resume"), "nothing was said, so nothing stays: {last}");
    assert!(fixture.run(&["sessions", "list"]).await.out.contains("No sessions yet"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn sigterm_restores_the_terminal_at_the_prompt_and_during_a_reply() {
    let gate = StreamGate::new();
    let (_server, fixture) = with_replies([stalled_reply("one two three", &gate)]).await;
    for at_work in [false, true] {
        let mut terminal = open_chat(&fixture).await;
        if at_work {
            terminal.type_keys("count\r");
            gate.wait_for_arrival(1).await;
        }
        let pid = terminal.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        terminal.wait_for_exit(130).await;
    }
}

#[tokio::test]
async fn no_line_wraps_on_forty_columns() {
    let (server, fixture) = with_replies([
        write_call("c1", "a.txt").into(),
        ScriptedReply::new().text("Done, as far as I can see.").into(),
    ])
    .await;
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 40, "xterm-256color");
    terminal.wait_for_prompt("").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("/help\r");
    terminal.wait_for_text("enter: new line").await.wait_for_prompt("").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 and more\r");
    terminal.wait_for_question().await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("y");
    terminal.wait_for_run_end("as far as I can see.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("漢字 and more"));
}

#[tokio::test]
async fn a_dumb_terminal_gets_plain_lines() {
    let (server, fixture) = with_replies([
        write_call("c1", "a.txt").into(),
        ScriptedReply::new().text("Written.").into(),
    ])
    .await;
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 80, "dumb");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("write\r");
    terminal.wait_for_text("n and why:").await;
    terminal.type_keys("y\r");
    terminal.wait_for_run_end("Written.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_text("ctrl-c again or /quit leaves").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(fixture.project("a.txt").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn slash_commands_show_and_set_values_and_other_input_goes_to_the_agent() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("I see.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("/permissions read-only\r");
    terminal.wait_for_text("permissions: read-only").await;
    terminal.type_keys("/model nonsense\r");
    terminal.wait_for_text("error: ").await;
    terminal.type_keys("/hepl\r");
    terminal.wait_for_text("did you mean /help?").await;
    terminal.type_keys("/help\r");
    terminal
        .wait_for_text("this session, and others")
        .await
        .wait_for_text("enter: new line")
        .await
        .wait_for_prompt("")
        .await;
    let help = terminal.screen();
    let (_, help) = help.rsplit_once("> /help\n").unwrap();
    let (help, _) = help.rsplit_once("\n\n>").unwrap();
    assert!(help.trim().lines().count() <= 23, "it does not fit on 24 rows: {help}");
    terminal.type_keys("/help undo\r");
    terminal.wait_for_text("/undo [turn N|call ID|back-to N|all]").await;
    terminal.wait_for_text("--chat also rewinds").await.wait_for_prompt("").await;
    terminal.type_keys("/etc/hosts is broken\r");
    terminal.wait_for_run_end("I see.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("/etc/hosts is broken"));
}

#[tokio::test]
async fn a_paste_of_three_lines_is_one_prompt() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Three lines.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("\u{1b}[200~first\rsecond\rthird\u{1b}[201~");
    terminal.wait_for_text("third").await;
    terminal.type_keys("\r");
    terminal.wait_for_run_end("Three lines.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].body.to_string().contains("first\\nsecond\\nthird"));
}

#[tokio::test]
async fn a_long_paste_is_abbreviated_on_the_line_and_sent_in_full() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([
        stalled_reply("one two three four", &gate),
        ScriptedReply::new().text("Long.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    let lines = |name: &str| {
        let lines: Vec<String> = (0..300).map(|line| format!("{name} {line}\r")).collect();
        lines.concat()
    };
    let paste = |name: &str| format!("\u{1b}[200~{}\u{1b}[201~", lines(name));
    terminal.type_keys(&format!("look at {} please", paste("first")));
    terminal.wait_for_prompt("look at [300 lines pasted] please").await;
    terminal.type_keys("\r");
    gate.wait_for_arrival(1).await;
    // While the agent works, a long paste is abbreviated as well.
    terminal.type_keys(&paste("second"));
    terminal.type_keys("\r");
    terminal.wait_for_text("> [300 lines pasted]\n").await;
    gate.open();
    terminal.wait_for_run_end("Long.").await.wait_for_prompt("").await;
    let screen = terminal.screen();
    assert!(!screen.contains("first 7") && !screen.contains("second 150"), "{screen}");
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    let body = requests[0].body.to_string();
    assert!(body.contains("look at first 0\\nfirst 1\\n") && body.contains("first 299\\n please"));
    assert!(requests[1].body.to_string().contains("second 298\\nsecond 299"));
}

#[tokio::test]
async fn lines_typed_ahead_reach_the_agent() {
    let gate = StreamGate::new();
    // The lines behind the first one are read before its model call, or before the one after it.
    let script = Script::new()
        .then(stalled_reply("one two three four", &gate))
        .then_respond(|_| ScriptedReply::new().text("and five").into());
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("count\ralso X\ralso Y\rand a ha");
    gate.wait_for_arrival(1).await;
    terminal
        .wait_for_text("> also X")
        .await
        .wait_for_text("  also Y")
        .await
        .wait_for_text("and a ha")
        .await;
    gate.open();
    terminal.wait_for_run_end("one two three four").await.wait_for_prompt("and a ha").await;
    terminal.type_keys("\u{15}/quit\r");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    let sent = requests.last().unwrap().body["messages"].to_string();
    let (_, behind) = sent.split_once("\"count\"").unwrap();
    assert!(behind.contains("also X\\nalso Y"), "{sent}");
}

#[tokio::test]
async fn an_unmarked_paste_loses_no_line_and_cuts_no_character() {
    let gate = StreamGate::new();
    // On a busy machine the paste arrives in several pieces, which may be sent one by one.
    let script = Script::new()
        .then(stalled_reply("one two three four", &gate))
        .then_respond(|_| ScriptedReply::new().text("all read").into());
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = open_chat(&fixture).await;
    let lines: Vec<_> =
        (1..=40).map(|line| format!("{line} 日本語の長い行がここにあります。")).collect();
    terminal.type_keys(&format!("{}\r", lines.join("\r")));
    gate.wait_for_arrival(1).await;
    terminal.wait_for_text("40 日本語").await;
    gate.open();
    terminal.wait_for_run_end("one two three four").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    let body = requests.last().unwrap().body["messages"].to_string();
    let mut rest = body.as_str();
    for line in &lines {
        rest = rest.split_once(line).unwrap_or_else(|| panic!("{line}: {body}")).1;
    }
}

#[tokio::test]
async fn input_beyond_the_queue_limit_is_reported_and_put_back() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([
        stalled_reply("one two three four", &gate),
        ScriptedReply::new().text("All read.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    for number in 1..=16 {
        let words = format!("word {number}");
        terminal.type_keys(&format!("{words}\r"));
        terminal.wait_for_text(&format!("> {words}\n")).await;
    }
    terminal.type_keys("one too many\r");
    terminal.wait_for_text("not sent, back on your input line: “one too many”").await;
    terminal.wait_for_prompt("one too many").await;
    gate.open();
    terminal.wait_for_run_end("All read.").await.wait_for_prompt("one too many").await;
    terminal.type_keys("\u{15}/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn slash_commands_typed_ahead_run_in_order() {
    let (server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture).await;
    // The long list comes first, so that the later output is still on the screen.
    terminal.type_keys("/\r/permissions read-only\r/STATUS\rhalf a line");
    terminal.wait_for_prompt("half a line").await.wait_for_text("/quit").await;
    terminal.wait_for_text("permissions: read-only").await.wait_for_text("> /STATUS").await;
    terminal.type_keys("\u{3}/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn ctrl_l_and_a_suspend_show_the_whole_question_again() {
    let (server, fixture) = with_replies([
        write_call("c1", "a.txt").into(),
        ScriptedReply::new().text("Written.").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("write\r");
    terminal.wait_for_question().await;
    let count = |screen: &str| {
        (screen.matches("it changes files").count(), screen.matches("a  yes, and").count())
    };
    // The screen is cleared, so that the question is on it once.
    terminal.type_keys("\u{c}");
    terminal.wait_for("one question", |screen| count(screen) == (1, 1)).await;
    terminal.type_keys("\u{1a}");
    terminal.wait_for_text("fg resumes").await;
    // The system does not stop the program here, because no shell could continue it.
    terminal.wait_for("the question again", |screen| count(screen) == (2, 1)).await;
    terminal.wait_for_question().await.type_keys("y");
    terminal.wait_for_run_end("Written.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_chat_resumes_a_session_and_switches_between_sessions() {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("first answer").into(),
        ScriptedReply::new().text("second answer").into(),
        ScriptedReply::new().text("third answer").into(),
    ])
    .await;
    fixture.run(&["run", "begin here", "-m", MODEL, "--session-id", "mine"]).await.exited(0);
    let mut terminal = Terminal::start(&fixture, &["--resume", "mine"], 80, "xterm");
    terminal.wait_for_text("resuming: begin here").await.wait_for_prompt("").await;
    assert!(terminal.screen().contains("> begin here\n  first answer"), "{}", terminal.screen());
    terminal.type_keys("more\r");
    terminal.wait_for_run_end("second answer").await.wait_for_prompt("").await;
    terminal.type_keys("/new\r");
    terminal
        .wait_for("a second greeting", |screen| screen.matches("crow-agent 0.").count() == 2)
        .await;
    terminal.type_keys("/sessions mine\r");
    terminal
        .wait_for("a third greeting", |screen| screen.matches("crow-agent 0.").count() == 3)
        .await;
    terminal.wait_for_prompt("").await.type_keys("even more\r");
    terminal.wait_for_run_end("third answer").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    let last = terminal.wait_for_exit(0).await;
    assert!(last.contains("crow-agent --resume mine"), "{last}");
    fixture.session();
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_provider_error_is_shown_and_the_chat_continues() {
    let server = ModelServer::start([
        ScriptStep::Error(VendorError::Authentication),
        ScriptStep::from(ScriptedReply::new().text("Now it works.")),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("hello\r");
    terminal.wait_for_text("failed").await.wait_for_prompt("").await;
    terminal.type_keys("hello again\r");
    terminal.wait_for_run_end("Now it works.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_prompt_history_is_private_and_skips_prompts_with_a_leading_blank() {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("one answer").into(),
        ScriptedReply::new().text("two answers").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("remember me\r");
    terminal.wait_for_run_end("one answer").await.wait_for_prompt("").await;
    terminal.type_keys(" forget me\r");
    terminal.wait_for_run_end("two answers").await.wait_for_prompt("").await;
    terminal.type_keys("\u{1b}[A");
    terminal.wait_for_prompt("remember me").await;
    terminal.type_keys("\u{15}/quit\r");
    terminal.wait_for_exit(0).await;
    let file = fixture.home(".local/share/crow-agent/prompts.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("remember me") && !text.contains("forget me"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn without_a_terminal_help_is_shown_and_chat_flags_are_refused() {
    let fixture = Fixture::new();
    let ran = fixture.run(&[]).await;
    assert!(ran.exited(2).err.contains("Usage: crow-agent"), "{}", ran.err);
    let ran = fixture.run(&["--model", MODEL]).await;
    assert!(ran.exited(2).err.contains("needs a terminal"), "{}", ran.err);
}

#[tokio::test]
async fn a_chat_without_a_key_explains_how_to_start() {
    let mut fixture = Fixture::new();
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    let mut terminal = Terminal::start(&fixture, &[], 80, "xterm");
    terminal
        .wait_for("the first step", |screen| {
            screen.contains("q leaves.") && screen.ends_with("\n?")
        })
        .await
        .type_keys("q\r");
    let screen = terminal.wait_for_exit(3).await;
    assert!(screen.contains("export ANTHROPIC_API_KEY"), "{screen}");
}

#[tokio::test]
async fn an_interrupt_returns_unread_input_to_the_line() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([stalled_reply("one two three four", &gate)]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("and then five\r");
    terminal.wait_for_text("> and then five").await;
    terminal.type_keys("\u{3}");
    terminal
        .wait_for_text("unread input is back on your input line")
        .await
        .wait_for_prompt("and then five")
        .await;
    gate.open();
    terminal.type_keys("\u{15}/quit\r");
    terminal.wait_for_exit(0).await;
    assert_eq!(server.finish().await.unwrap().len(), 1, "nothing was sent after the interrupt");
}

#[tokio::test]
async fn a_trailing_backslash_continues_the_prompt_on_the_next_line() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Two lines.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("one\\\r");
    terminal.wait_for_text("> one").await;
    terminal.type_keys("two\r");
    terminal.wait_for_run_end("Two lines.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    let body = server.finish().await.unwrap().remove(0).body.to_string();
    assert!(body.contains(r"one\ntwo"), "{body}");
}

#[tokio::test]
async fn a_question_shows_link_targets_and_invisible_characters() {
    let (server, fixture) = with_replies([
        write_call("c1", "notes.txt").into(),
        ScriptedReply::new()
            .call(
                "c2",
                "bash",
                &json!({"command": "echo\u{a0}safe\u{202e} \u{1b}[8m; rm\u{200b} -rf x\rls"}),
            )
            .into(),
        ScriptedReply::new().text("It was refused.").into(),
    ])
    .await;
    std::os::unix::fs::symlink(fixture.home("profile"), fixture.project("notes.txt")).unwrap();
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 200, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("note it\r");
    terminal
        .wait_for_text(&format!("write notes.txt -> {}", fixture.home("profile").display()))
        .await
        .wait_for_question()
        .await;
    terminal.type_keys("n");
    terminal.wait_for_text("echo\\u{a0}safe\\u{202e} ␛[8m; rm\\u{200b} -rf x").await;
    terminal.wait_for_question().await;
    terminal.type_keys("n");
    terminal.wait_for_run_end("It was refused.").await.wait_for_prompt("").await;
    assert!(!fixture.home("profile").exists());
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_chat_begins_with_a_prompt_of_the_command_line() {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("Good day to you.").into(),
        ScriptedReply::new().text("And to you.").into(),
    ])
    .await;
    let args = ["-m", MODEL, "--prompt", "hello there"];
    let mut terminal = Terminal::start(&fixture, &args, 80, "xterm-256color");
    terminal.wait_for_run_end("Good day to you.").await.wait_for_prompt("").await;
    terminal.type_keys("again\r");
    terminal.wait_for_run_end("And to you.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("hello there"));
}
