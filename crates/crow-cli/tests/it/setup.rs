//! The setup of a model at the terminal.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, ServerOptions, WireDialect, refused_base_url};

use crate::{
    program::{Fixture, any_file_contains},
    terminal::Terminal,
};

const KEY: &str = "sk-right-0123456789";
/// Beginning of the question about the checks of a project.
const CHECK_QUESTION: &str = "This project configures no checks.";
/// The last line of the list of sources.
const SOURCES: &str = "A number or a name; q leaves.";

/// Returns a server that lists its models only with the key, and answers once.
async fn server_with_key() -> ModelServer {
    let options = ServerOptions {
        models: vec!["claude-sonnet-4-5".to_owned(), "other-model".to_owned()],
        key: Some(KEY.to_owned()),
        ..ServerOptions::default()
    };
    ModelServer::start_with([ScriptedReply::new().text("Good day.")], options).await
}

/// Returns a fixture whose provider is at an address, without a key and without local servers.
fn fixture_at(address: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_BASE_URL", address);
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    fixture
}

fn fixture_with(server: &ModelServer) -> Fixture {
    fixture_at(&server.base_url(WireDialect::AnthropicMessages))
}

/// Waits until a text is on the screen, and below it an answer can be typed.
async fn wait_for_step<'a>(terminal: &'a mut Terminal, text: &str) -> &'a mut Terminal {
    let can_type = |screen: &str| ["\n?", "\nkey:"].iter().any(|mark| screen.ends_with(mark));
    terminal.wait_for(text, |screen| screen.contains(text) && can_type(screen)).await
}

fn config(fixture: &Fixture) -> String {
    fs::read_to_string(fixture.home(".config/crow-agent/config.toml")).unwrap_or_default()
}

fn is_stored(fixture: &Fixture) -> bool {
    fixture.home(".config/crow-agent/credentials.json").exists() || !config(fixture).is_empty()
}

#[tokio::test]
async fn a_chat_without_a_model_sets_one_up_and_answers() {
    let server = server_with_key().await;
    let fixture = fixture_with(&server);
    let mut terminal = Terminal::start(&fixture, &[], 100, "xterm-256color");
    terminal.wait_for_text("Crow needs a language model").await;
    terminal.wait_for_text("console.anthropic.com/settings/keys").await;
    for (text, answer) in [
        (SOURCES, "nonsense"),
        ("no such number and no such name", "1"),
        ("readable by you alone", "two words"),
        ("This cannot be a key", "sk-wrong-0123456789"),
        // The provider's own words.
        ("invalid x-api-key", KEY),
        ("Which model?", "7"),
        ("There is no number 7.", "claude-tsonet"),
        ("anthropic does not list claude-tsonet", ""),
        ("Give another model.", "claude-sonnet-4-5"),
        ("Which colours?", "pink"),
        ("unknown theme", ""),
    ] {
        wait_for_step(&mut terminal, text).await.type_keys(&format!("{answer}\r"));
    }
    terminal.wait_for_text("The model is anthropic/claude-sonnet-4-5").await;
    terminal.wait_for_prompt("").await;
    assert!(!terminal.screen().contains("sk-"), "{}", terminal.screen());
    terminal.type_keys("hello\r");
    terminal.wait_for_run_end("Good day.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    assert!(config(&fixture).contains("model = \"anthropic/claude-sonnet-4-5\""));
    assert!(!config(&fixture).contains("theme"), "auto is the default");
    assert!(!any_file_contains(&fixture.home(""), "sk-wrong"));
    let requests = server.finish().await.unwrap();
    assert_eq!(requests[0].header("x-api-key"), Some(KEY));
    assert_eq!(requests[0].model(), "claude-sonnet-4-5");
}

#[tokio::test]
async fn every_step_can_be_left_and_nothing_is_stored() {
    let server = server_with_key().await;
    let fixture = fixture_with(&server);
    let key = format!("{KEY}\r");
    let steps = [
        (SOURCES, "anthropic\r"),
        ("key:", key.as_str()),
        ("Which model?", "\r"),
        ("Which colours?", ""),
    ];
    for (number, leave) in (0..steps.len()).flat_map(|one| [(one, "\u{3}"), (one, "q\r")]) {
        let mut terminal = Terminal::start(&fixture, &[], 100, "xterm-256color");
        for (text, answer) in &steps[..number] {
            wait_for_step(&mut terminal, text).await.type_keys(answer);
        }
        wait_for_step(&mut terminal, steps[number].0).await.type_keys(leave);
        let screen = terminal.wait_for_exit(3).await;
        assert!(screen.contains("export ANTHROPIC_API_KEY"), "{number}: {screen}");
        assert!(!screen.contains("sk-") && !is_stored(&fixture), "{number}: {screen}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_dumb_terminal_of_forty_columns_is_set_up_without_a_question_about_colours() {
    let server = server_with_key().await;
    let fixture = fixture_with(&server);
    let mut terminal = Terminal::start(&fixture, &[], 40, "dumb");
    wait_for_step(&mut terminal, "5  another server").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("anthropic\r");
    wait_for_step(&mut terminal, "is not shown").await.type_keys(&format!("{KEY}\r"));
    wait_for_step(&mut terminal, "Which model?").await;
    assert_eq!(terminal.broken_lines(), 0, "{}", terminal.screen());
    terminal.type_keys("2\r");
    terminal.wait_for_text("Stored.").await.wait_for_prompt("").await;
    terminal.type_keys("hello\r");
    terminal.wait_for_run_end("Good day.").await.wait_for_prompt("").await;
    terminal.type_keys("/quit\r");
    let screen = terminal.wait_for_exit(0).await;
    assert!(!screen.contains("colours?"), "{screen}");
    assert_eq!(server.finish().await.unwrap()[0].model(), "other-model");
}

#[tokio::test]
async fn a_local_server_is_used_after_consent_which_is_kept() {
    let server = ModelServer::start([
        ScriptedReply::new().text("Good day."),
        ScriptedReply::new().text("Again."),
    ])
    .await;
    let mut fixture = fixture_at(&refused_base_url(WireDialect::AnthropicMessages).await);
    fixture.set_env("OLLAMA_HOST", &server.address().to_string());
    let mut terminal = Terminal::start(&fixture, &[], 100, "xterm-256color");
    terminal.wait_for_text("ollama: a server at http://127.0.0.1").await;
    for (text, answer) in [
        (SOURCES, "ollama"),
        ("Send it your prompts", "perhaps"),
        ("This is neither y nor n.", "n"),
        ("? n\n", "5"),
        ("? 5\n", "y"),
        ("Which model?", ""),
        ("Which colours?", "light"),
    ] {
        wait_for_step(&mut terminal, text).await.type_keys(&format!("{answer}\r"));
    }
    terminal.wait_for_text("The model is ollama/test-model").await;
    // Its window is unknown, so the status line has no part of it.
    terminal.wait_for_text("/help shows commands").await.wait_for_text("\n> ").await;
    terminal.type_keys("hello\r");
    terminal.wait_for_run_end("Good day.").await.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    assert!(config(&fixture).contains("theme = \"light\""), "{}", config(&fixture));
    // The consent holds without the setting, too.
    fs::remove_file(fixture.home(".config/crow-agent/config.toml")).unwrap();
    assert_eq!(fixture.run(&["run", "hi"]).await.exited(0).out, "Again.\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_key_that_cannot_be_checked_is_used_if_the_user_wants_it() {
    let fixture = fixture_at(&refused_base_url(WireDialect::AnthropicMessages).await);
    let mut terminal = Terminal::start(&fixture, &["setup"], 100, "xterm-256color");
    for (text, answer) in [
        (SOURCES, "anthropic"),
        ("key:", KEY),
        ("Use the key all the same?", "y"),
        // Those that are known without the provider.
        ("1  claude-", ""),
        ("Which colours?", ""),
    ] {
        wait_for_step(&mut terminal, text).await.type_keys(&format!("{answer}\r"));
    }
    let screen = terminal.wait_for_exit(0).await;
    assert!(screen.contains("`crow-agent` starts a chat") && !screen.contains("sk-"), "{screen}");
    assert!(config(&fixture).contains("model = \"anthropic/claude-"), "{}", config(&fixture));
    let ran = fixture.run(&["login", "--status"]).await;
    assert_eq!(ran.exited(0).out.matches("key stored").count(), 1, "{}", ran.out);
}

#[tokio::test]
async fn the_setup_on_demand_uses_the_key_that_is_there() {
    let server = server_with_key().await;
    let mut fixture = fixture_with(&server);
    fixture.set_env("ANTHROPIC_API_KEY", KEY);
    let mut terminal = Terminal::start(&fixture, &["setup"], 100, "dumb");
    terminal.wait_for_text("anthropic: it has a key").await;
    wait_for_step(&mut terminal, SOURCES).await.type_keys("anthropic\r");
    wait_for_step(&mut terminal, "Which model?").await.type_keys("2\r");
    terminal.wait_for_exit(0).await;
    assert!(config(&fixture).contains("model = \"anthropic/other-model\""));
    let mut terminal = Terminal::start(&fixture, &["setup"], 100, "dumb");
    wait_for_step(&mut terminal, SOURCES).await.type_keys("q\r");
    let screen = terminal.wait_for_exit(0).await;
    assert!(screen.contains("nothing was changed"), "{screen}");
    // A wrong key in the variable is not asked for, but named.
    fixture.set_env("ANTHROPIC_API_KEY", "sk-wrong-0123456789");
    let mut terminal = Terminal::start(&fixture, &["setup"], 100, "dumb");
    wait_for_step(&mut terminal, SOURCES).await.type_keys("anthropic\r");
    wait_for_step(&mut terminal, "Change the key in").await.type_keys("q\r");
    terminal.wait_for_exit(0).await;
    let ran = fixture.run(&["setup"]).await;
    assert!(ran.exited(2).err.contains("the setup needs a terminal"), "{}", ran.err);
}

#[tokio::test]
async fn checks_of_the_project_are_proposed_only_once_there_is_a_model() {
    let server = server_with_key().await;
    let mut fixture = fixture_with(&server);
    fs::write(fixture.project("Cargo.toml"), "").unwrap();
    let terminal = Terminal::start(&fixture, &["run", "hi"], 100, "xterm");
    let screen = terminal.wait_for_exit(3).await;
    assert!(!screen.contains(CHECK_QUESTION), "{screen}");
    let mut terminal = Terminal::start(&fixture, &[], 100, "xterm");
    wait_for_step(&mut terminal, SOURCES).await.type_keys("q\r");
    let screen = terminal.wait_for_exit(3).await;
    assert!(!screen.contains(CHECK_QUESTION), "{screen}");
    fixture.set_env("ANTHROPIC_API_KEY", KEY);
    let args = ["-m", "anthropic/claude-sonnet-4-5"];
    let mut terminal = Terminal::start(&fixture, &args, 100, "xterm");
    terminal.wait_for_text(CHECK_QUESTION).await.wait_for_text("[y/N]").await.type_keys("y\r");
    terminal.wait_for_prompt("").await.type_keys("hello\r");
    terminal.wait_for_run_end("Good day.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    // The check that was accepted is told to the agent of this session.
    let requests = server.finish().await.unwrap();
    assert!(requests[0].body.to_string().contains("cargo test"), "{}", requests[0].body);
}
