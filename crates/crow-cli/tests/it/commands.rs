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
    terminal.type_keys("/status\r");
    terminal
        .wait_for("the mode of the new session", |screen| {
            screen.matches("judge, reviewed by reviewer").count() == 2
        })
        .await;
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

fn write(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn commands_of_files_are_listed_with_their_origins_and_conflicts() {
    let fixture = Fixture::new();
    let out = fixture.run(&["commands", "list"]).await;
    assert!(out.exited(0).out.contains("There are no commands of your own."), "{}", out.out);
    let folder = fixture.home(".config/crow-agent");
    let text = "---\ndescription: greets somebody\nargument-hint: NAME\n---\nGreet $1.\n";
    write(&folder.join("prompts/commands/greet.md"), text);
    // One name of a command of the host, and one of a command of the terminal.
    write(&folder.join("prompts/commands/doctor.md"), "Look at me.\n");
    write(&folder.join("prompts/commands/keys.md"), "Look at the keys.\n");
    for skill in ["tidy", "greet"] {
        let text = format!("---\nname: {skill}\ndescription: does {skill}\n---\nDo it.\n");
        write(&folder.join(format!("skills/{skill}/SKILL.md")), &text);
    }
    let ran = fixture.run(&["commands"]).await;
    let out = &ran.exited(0).out;
    for part in [
        "/greet NAME  [prompt file, user]\n  greets somebody\n",
        "/doctor  [prompt file, user, not used]\n",
        "/keys  [prompt file, user, not used]\n",
        "  ! the command /keys of ",
        "/tidy  [skill, user]\n  does tidy\n",
        "/greet  [skill, user, not used]\n",
        "  ! /greet is a command of a prompt file",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    let ran = fixture.run(&["commands", "list", "-o", "json"]).await;
    let lines = ran.exited(0).lines();
    let used: Vec<_> = lines
        .iter()
        .filter(|line| line["used"] == true)
        .map(|line| (line["name"].as_str().unwrap(), line["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(used, [("greet", "prompt file"), ("tidy", "skill")]);
    assert_eq!(lines[1]["argument"], "NAME");
    assert_eq!(lines, fixture.run(&["commands", "-o", "json"]).await.lines());
}

/// Returns true if all lines of an output are on the screen, which wraps them.
fn has_lines(screen: &str, output: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let screen = squeezed(screen);
    output.lines().all(|line| screen.contains(&squeezed(line)))
}

#[tokio::test]
async fn commands_of_the_command_line_show_the_same_in_a_chat() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Good day.").into()]).await;
    let folder = fixture.home(".config/crow-agent");
    write(
        &folder.join("skills/tidy/SKILL.md"),
        "---\nname: tidy\ndescription: tidies up\n---\nSweep the floor.\n",
    );
    let hooks = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}});
    write(&folder.join("hooks.json"), &hooks.to_string());
    fixture.run(&["mcp", "add", "absent", "/no/such/program"]).await.exited(0);
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("say something\r");
    terminal.wait_for_run_end("Good day.").await.wait_for_prompt("").await;
    for (typed, args) in [
        ("/skills", &["skills", "list"][..]),
        ("/skills tidy", &["skills", "show", "tidy"]),
        ("/hooks", &["hooks", "list"]),
        ("/mcp", &["mcp", "list"]),
    ] {
        let expected = fixture.run(args).await.exited(0).out.clone();
        assert!(!expected.trim().is_empty(), "{args:?}");
        terminal.type_keys(&format!("{typed}\r"));
        terminal.wait_for(typed, |screen| has_lines(screen, &expected)).await;
        terminal.wait_for_prompt("").await;
    }
    terminal.wait_for_text("in this session:").await.wait_for_text("  absent: ").await;
    for (typed, expected) in [
        ("/trace", "run 1"),
        ("/stats model", "all "),
        ("/stats nothing", "give one of day, model, project, agent, tool"),
        ("/doctor now", "takes no argument"),
        ("/doctor", " checks: "),
        ("/skills absent", "crow-agent skills list shows them"),
    ] {
        terminal.type_keys(&format!("{typed}\r"));
        terminal.wait_for_text(expected).await.wait_for_prompt("").await;
    }
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_report_of_the_session_is_written_by_the_chat() {
    let (server, fixture) = with_replies([ScriptedReply::new().text("Good day.").into()]).await;
    let mut terminal = open_chat(&fixture).await;
    terminal.type_keys("say something\r");
    terminal.wait_for_run_end("Good day.").await.wait_for_prompt("").await;
    fs::write(fixture.project("mine.html"), "mine").unwrap();
    terminal.type_keys("/report mine.html\r");
    terminal.wait_for_text("mine.html exists already").await.wait_for_prompt("").await;
    // Without a name the report is replaced by a newer one.
    for number in 1..=2 {
        terminal.type_keys("/report\r");
        terminal
            .wait_for("the file", |screen| screen.matches("crow-report-").count() == number)
            .await;
        terminal.wait_for_prompt("").await;
    }
    terminal.type_keys("/report other.html\r");
    terminal.wait_for_text("other.html\n").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert_eq!(fs::read_to_string(fixture.project("mine.html")).unwrap(), "mine");
    let report = fs::read_to_string(fixture.project("other.html")).unwrap();
    assert!(report.contains("say something") && report.contains("Good day."));
    assert!(fixture.project(&format!("crow-report-{}.html", fixture.id())).exists());
    server.finish().await.unwrap();
}
