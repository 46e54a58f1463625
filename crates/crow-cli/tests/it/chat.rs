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
    terminal.prompts("").await;
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
    assert!(greeting.trim_end().lines().count() <= 5, "{greeting}");
    for part in [
        "crow-agent 0.",
        MODEL,
        "/project",
        "agent: BUILD-HITL  mode: hitl  permissions: ask",
        "/help",
    ] {
        assert!(greeting.contains(part), "{part}: {greeting}");
    }
    terminal.keys("hello there\r");
    terminal.shows("Good day to you.").await.prompts("").await;
    assert!(!terminal.screen().contains("done"), "words are no task: {}", terminal.screen());
    terminal.keys("\u{4}");
    let last = terminal.exits(0).await;
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
    terminal.keys("count\r");
    gate.reached(1).await;
    terminal.keys("go on to five");
    // Half of the answer is on the screen, and what is typed stands below it.
    terminal.shows("> go on to five").await;
    terminal.keys("\r");
    terminal.keys("half a lin");
    gate.open();
    terminal.shows("and five").await.prompts("half a lin").await;
    let screen = terminal.screen();
    assert_eq!(screen.matches("go on to five").count(), 1, "{screen}");
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
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
    terminal.keys("write twice\r");
    terminal.shows("? echo x >> a.txt").await.shows("n and why:").await;
    terminal.keys("y\r");
    terminal
        .sees("a second question", |screen| {
            screen.matches("allow?").count() == 2 && screen.ends_with("n and why:")
        })
        .await;
    terminal.keys("n\r");
    terminal.shows("Both were tried.").await.prompts("").await;
    assert_eq!(fs::read_to_string(fixture.project("a.txt")).unwrap(), "x\n");
    terminal.keys("/quit\r");
    terminal.exits(0).await;
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
    terminal.keys("check it\r");
    terminal.shows("a = yes, and").await.shows("n and why:").await;
    terminal.keys("a\r");
    // Only what goes beyond it is asked about.
    terminal
        .sees("a second question", |screen| {
            screen.matches("allow?").count() == 2 && screen.ends_with("n and why:")
        })
        .await;
    terminal.keys("n\r");
    terminal.shows("All were tried.").await.prompts("").await;
    assert!(!fixture.project("b.txt").exists());
    terminal.keys("/permissions\r");
    terminal.shows("granted command cargo check").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    let session = fixture.session();
    let id = session.file_name().unwrap().to_str().unwrap();
    let ran = fixture.run(&["run", "again", "--resume", id, "-o", "json"]).await;
    let result = ran.result();
    assert_eq!(result["refusals"], json!([]), "{result}");
    let mut terminal = Terminal::start(&fixture, &["--resume", id], 80, "xterm-256color");
    terminal.shows("allowed in this session: `cargo check …`").await.prompts("").await;
    terminal.keys("\u{4}");
    terminal.exits(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn input_typed_before_a_question_is_not_taken_as_its_answer() {
    let gate = StreamGate::new();
    let call = write_call("c1", "a.txt").with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let (server, fixture) =
        with_replies([call, ScriptedReply::new().text("I leave it.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("write\r");
    gate.reached(1).await;
    terminal.keys("yes please");
    terminal.shows("> yes please").await;
    gate.open();
    terminal.shows("n and why:").await;
    // They go on while the question comes.
    terminal.keys(", write y\r");
    terminal.shows("answer y for yes").await.shows("is kept").await;
    terminal.keys("n not that file\r");
    terminal.shows("refused by you").await.shows("I leave it.").await;
    terminal
        .sees("a prompt with the words", |screen| {
            let last = screen.lines().last().unwrap_or_default();
            last.starts_with("> yes please") && last.ends_with(", write y")
        })
        .await;
    // No call ran, so nothing is done.
    assert!(!terminal.screen().contains("done, unverified"), "{}", terminal.screen());
    assert!(!fixture.project("a.txt").exists());
    terminal.keys("\u{15}");
    terminal.prompts("").await.keys("\u{4}");
    terminal.exits(0).await;
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
    terminal.keys("write\r");
    terminal.shows("n and why:").await;
    terminal.keys("\u{3}");
    terminal.shows("withdrawn").await.shows("interrupted").await.prompts("").await;
    assert!(!terminal.screen().contains("error:"), "{}", terminal.screen());
    terminal.keys("y\r");
    terminal.shows("Again.").await.prompts("").await;
    assert!(!fixture.project("a.txt").exists());
    terminal.keys("/exit\r");
    terminal.exits(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_second_interrupt_while_the_agent_stops_exits_with_130() {
    let command = json!({"command": "trap '' TERM INT; touch started; sleep 600"});
    let (_server, fixture) =
        with_replies([ScriptedReply::new().call("c1", "bash", &command).into()]).await;
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL, "-p", "full-auto"], 80, "xterm");
    terminal.prompts("").await;
    terminal.keys("wait\r");
    wait_until(|| fixture.project("started").exists()).await;
    terminal.keys("\u{3}");
    terminal.shows("ctrl-c again leaves").await;
    terminal.keys("\u{3}");
    let last = terminal.exits(130).await;
    assert!(last.contains("crow-agent --resume "), "{last}");
}

#[tokio::test]
async fn at_the_prompt_the_first_interrupt_clears_and_the_second_exits() {
    let (server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("half");
    terminal.prompts("half").await;
    terminal.keys("\u{3}");
    terminal.shows("ctrl-c again or /quit leaves").await.prompts("").await;
    terminal.keys("\u{3}");
    let last = terminal.exits(0).await;
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
            terminal.keys("count\r");
            gate.reached(1).await;
        }
        let pid = terminal.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        terminal.exits(130).await;
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
    terminal.prompts("").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.keys("/help\r");
    terminal.shows("step.").await.prompts("").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.keys("漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 and more\r");
    terminal.shows("allow?").await;
    terminal.keys("y");
    terminal.sees("the answer as it is typed", |screen| screen.ends_with('y')).await;
    terminal.keys("\r");
    terminal.shows("as far as I can see.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
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
    terminal.prompts("").await;
    terminal.keys("write\r");
    terminal.shows("n and why:").await;
    terminal.keys("y\r");
    terminal.shows("Written.").await.prompts("").await;
    terminal.keys("\u{3}");
    terminal.shows("ctrl-c again or /quit leaves").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(fixture.project("a.txt").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn slash_commands_show_and_set_values_and_other_input_goes_to_the_agent() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("I see.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("/permissions read-only\r");
    terminal.shows("permissions: read-only").await;
    terminal.keys("/model\r");
    terminal.shows("model: anthropic/claude-sonnet-4-5").await;
    terminal.keys("/model nonsense\r");
    terminal.shows("error: ").await;
    terminal.keys("/hepl\r");
    terminal.shows("did you mean /help?").await;
    terminal.keys("/help\r");
    terminal.shows("/sessions [ID]").await.shows("ctrl-c").await;
    terminal.keys("/etc/hosts is broken\r");
    terminal.shows("I see.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("/etc/hosts is broken"));
}

#[tokio::test]
async fn a_paste_of_three_lines_is_one_prompt() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Three lines.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("\u{1b}[200~first\rsecond\rthird\u{1b}[201~");
    terminal.shows("third").await;
    terminal.keys("\r");
    terminal.shows("Three lines.").await.prompts("").await;
    terminal.keys("\u{4}");
    terminal.exits(0).await;
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
    terminal.keys(&format!("look at {} please", paste("first")));
    terminal.prompts("look at [300 lines pasted] please").await;
    terminal.keys("\r");
    gate.reached(1).await;
    // While the agent works only the line and its end are shown, too.
    terminal.keys(&paste("second"));
    terminal.keys("\r");
    terminal.shows("> “second 0").await.shows("[300 lines]").await;
    gate.open();
    terminal.shows("Long.").await.prompts("").await;
    let screen = terminal.screen();
    assert!(!screen.contains("first 1") && !screen.contains("second 150"), "{screen}");
    // What the history would show whole is not kept in it.
    assert!(!fixture.home(".local/share/crow-agent/prompts").exists());
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    let requests = server.finish().await.unwrap();
    let body = requests[0].body.to_string();
    assert!(body.contains("look at first 0\\nfirst 1\\n") && body.contains("first 299\\n please"));
    assert!(requests[1].body.to_string().contains("second 298\\nsecond 299"));
}

#[tokio::test]
async fn lines_typed_ahead_reach_the_agent() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([
        stalled_reply("one two three four", &gate),
        ScriptedReply::new().text("and five").into(),
    ])
    .await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("count\ralso X\ralso Y\rand a ha");
    gate.reached(1).await;
    terminal.shows("> also X").await.shows("  also Y").await.shows("and a ha").await;
    gate.open();
    terminal.shows("and five").await.prompts("and a ha").await;
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
    let requests = server.finish().await.unwrap();
    assert!(requests[1].body.to_string().contains("also X\\nalso Y"), "{}", requests[1].body);
}

#[tokio::test]
async fn an_unmarked_paste_loses_no_line_and_cuts_no_character() {
    let gate = StreamGate::new();
    // On a busy machine the paste comes in several pieces, which may be told one after the other.
    let script = Script::new()
        .then(stalled_reply("one two three four", &gate))
        .then_respond(|_| ScriptedReply::new().text("all read").into());
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut terminal = open_chat(&fixture).await;
    let lines: Vec<_> =
        (1..=40).map(|line| format!("{line} 日本語の長い行がここにあります。")).collect();
    terminal.keys(&format!("{}\r", lines.join("\r")));
    gate.reached(1).await;
    terminal.shows("40 日本語").await;
    gate.open();
    terminal.shows("all read").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    let requests = server.finish().await.unwrap();
    let body = requests.last().unwrap().body.to_string();
    for line in &lines {
        assert!(body.contains(line), "{line}: {body}");
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
    terminal.keys("count\r");
    gate.reached(1).await;
    for number in 1..=16 {
        let words = format!("word {number}");
        terminal.keys(&format!("{words}\r"));
        terminal.shows(&format!("> {words}\n")).await;
    }
    terminal.keys("one too many\r");
    terminal.shows("not sent, and put back: “one too many”").await;
    terminal.sees("the words", |screen| screen.ends_with("> one too many")).await;
    gate.open();
    terminal.shows("All read.").await.prompts("one too many").await;
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn slash_commands_typed_ahead_run_in_order() {
    let (server, fixture) = with_replies([]).await;
    let mut terminal = open_chat(&fixture).await;
    // The long list comes first: the screen holds what comes after it.
    terminal.keys("/\r/permissions read-only\r/Model\rhalf a line");
    terminal.prompts("half a line").await.shows("/quit").await;
    terminal.shows("permissions: read-only").await.shows("model: anthropic/").await;
    terminal.keys("\u{3}");
    terminal.shows("ctrl-c again").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
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
    terminal.keys("write\r");
    terminal.shows("n and why:").await;
    let question = "the question again";
    let count = |screen: &str| {
        (screen.matches("it changes files").count(), screen.matches("a = yes").count())
    };
    terminal.keys("c\r");
    terminal.shows("a or b for yes in this session").await;
    terminal.keys("\u{c}");
    terminal.sees(question, |screen| count(screen) == (2, 2) && screen.ends_with("why:")).await;
    terminal.keys("\u{1a}");
    terminal.shows("fg goes on").await;
    // Where no shell could wake it, the system does not stop it.
    terminal.sees(question, |screen| count(screen) == (3, 3) && screen.ends_with("why:")).await;
    terminal.keys("y\r");
    terminal.shows("Written.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
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
    terminal.shows("going on with: begin here").await.prompts("").await;
    assert!(terminal.screen().contains("> begin here\n  first answer"), "{}", terminal.screen());
    terminal.keys("more\r");
    terminal.shows("second answer").await.prompts("").await;
    terminal.keys("/new\r");
    terminal.sees("a second greeting", |screen| screen.matches("crow-agent 0.").count() == 2).await;
    terminal.keys("/sessions mine\r");
    terminal.sees("a third greeting", |screen| screen.matches("crow-agent 0.").count() == 3).await;
    terminal.prompts("").await.keys("even more\r");
    terminal.shows("third answer").await.prompts("").await;
    terminal.keys("/quit\r");
    let last = terminal.exits(0).await;
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
    terminal.keys("hello\r");
    terminal.shows("failed").await.prompts("").await;
    terminal.keys("hello again\r");
    terminal.shows("Now it works.").await.prompts("").await;
    terminal.keys("\u{4}");
    terminal.exits(0).await;
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
    terminal.keys("remember me\r");
    terminal.shows("one answer").await.prompts("").await;
    terminal.keys(" forget me\r");
    terminal.shows("two answers").await.prompts("").await;
    terminal.keys("\u{1b}[A");
    terminal.prompts("remember me").await;
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
    let file = fixture.home(".local/share/crow-agent/prompts");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("remember me") && !text.contains("forget me"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_resized_terminal_is_redrawn_in_its_new_width() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([stalled_reply("one two three", &gate)]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.resize(30);
    terminal.keys("count to three\r");
    gate.reached(1).await;
    terminal.keys(&"x".repeat(60));
    gate.open();
    terminal.shows("three").await;
    // The model of the screen joins lines that the terminal itself broke.
    terminal.prompts(&"x".repeat(60)).await;
    terminal.keys("\u{7f}");
    terminal.prompts(&"x".repeat(59)).await;
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
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
    let terminal = Terminal::start(&fixture, &[], 80, "xterm");
    let screen = terminal.exits(3).await;
    assert!(screen.contains("ANTHROPIC_API_KEY"), "{screen}");
}

#[tokio::test]
async fn an_interrupt_returns_unread_input_to_the_line() {
    let gate = StreamGate::new();
    let (server, fixture) = with_replies([stalled_reply("one two three four", &gate)]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("count\r");
    gate.reached(1).await;
    terminal.keys("and then five\r");
    terminal.shows("> and then five").await;
    terminal.keys("\u{3}");
    terminal.shows("what it has not read is on your line").await.prompts("and then five").await;
    gate.open();
    terminal.keys("\u{15}/quit\r");
    terminal.exits(0).await;
    assert_eq!(server.finish().await.unwrap().len(), 1, "nothing was sent after the interrupt");
}

#[tokio::test]
async fn a_trailing_backslash_continues_the_prompt_on_the_next_line() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Two lines.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.keys("one\\\r");
    terminal.sees("the backslash", |screen| screen.contains("> one\\")).await;
    terminal.keys("two\r");
    terminal.shows("Two lines.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
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
    terminal.prompts("").await;
    terminal.keys("note it\r");
    terminal
        .shows(&format!("write notes.txt -> {}", fixture.home("profile").display()))
        .await
        .shows("n and why:")
        .await;
    terminal.keys("n\r");
    terminal.shows("echo\\u{a0}safe\\u{202e} ␛[8m; rm\\u{200b} -rf x").await;
    terminal
        .sees("a second question", |screen| {
            screen.matches("allow?").count() == 2 && screen.ends_with("n and why:")
        })
        .await;
    terminal.keys("n\r");
    terminal.shows("It was refused.").await.prompts("").await;
    assert!(!fixture.home("profile").exists());
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    server.finish().await.unwrap();
}
