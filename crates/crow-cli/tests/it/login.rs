//! Stored keys: `login` and `logout`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use crow_testkit::{ModelServer, RecordedRequest, ScriptedReply, WireDialect};

use crate::{
    program::{Fixture, any_file_contains},
    terminal::Terminal,
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const KEY: &str = "sk-stored-0123456789";

/// Returns a fixture whose provider is the server, without a key.
fn fixture_with_server(server: &ModelServer) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_BASE_URL", &server.base_url(WireDialect::AnthropicMessages));
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    fixture
}

fn credentials_file(fixture: &Fixture) -> PathBuf {
    fixture.home(".config/crow-agent/credentials.json")
}

fn sent_key(request: &RecordedRequest) -> &str {
    request.headers.iter().find(|(name, _)| name == "x-api-key").map_or("", |(_, key)| key)
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_key_is_stored_used_and_removed() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = fixture_with_server(&server);
    let ran = fixture.run_with_input(&["login", "anthropic"], KEY).await;
    assert!(ran.exited(2).err.contains("--yes"), "{}", ran.err);
    assert!(ran.err.contains("credentials.json"), "{}", ran.err);
    assert!(!credentials_file(&fixture).exists());
    let ran = fixture.run_with_input(&["login", "anthropic", "--yes"], &format!("{KEY}\n")).await;
    assert!(ran.exited(0).err.contains("ANTHROPIC_BASE_URL sets another address"), "{}", ran.err);
    assert!(!ran.out.contains("sk-") && !ran.err.contains("sk-"));
    assert_eq!(
        (mode(&credentials_file(&fixture)), mode(credentials_file(&fixture).parent().unwrap())),
        (0o600, 0o700)
    );
    let ran = fixture.run(&["login", "--status"]).await;
    assert!(ran.exited(0).out.contains("key stored") && !ran.out.contains("sk-"), "{}", ran.out);
    let ran = fixture.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    assert_eq!(sent_key(&server.finish().await.unwrap()[0]), KEY);
    let ran = fixture.run(&["logout"]).await;
    assert!(ran.exited(0).out.contains("is deleted"), "{}", ran.out);
    fixture.run(&["run", "hi", "-m", MODEL]).await.exited(3);
    assert!(!any_file_contains(&fixture.home(""), KEY));
    fixture.run(&["logout"]).await.exited(0);
}

#[tokio::test]
async fn a_stored_key_is_not_sent_to_another_address() {
    let (own, evil) = (
        ModelServer::start(Vec::<ScriptedReply>::new()).await,
        ModelServer::start(Vec::<ScriptedReply>::new()).await,
    );
    let mut fixture = fixture_with_server(&own);
    fixture.run_with_input(&["login", "anthropic", "--yes"], KEY).await.exited(0);
    fixture.set_env("ANTHROPIC_BASE_URL", &evil.base_url(WireDialect::AnthropicMessages));
    for args in [&["run", "hi", "-m", MODEL][..], &["run", "hi"]] {
        let ran = fixture.run(args).await;
        let error_text = &ran.exited(2).err;
        assert!(
            error_text.contains("not sent there") && error_text.contains("ANTHROPIC_BASE_URL"),
            "{error_text}"
        );
    }
    assert_eq!(evil.finish().await.unwrap().len(), 0);
    own.finish().await.unwrap();
}

#[tokio::test]
async fn an_environment_variable_overrides_the_stored_key() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let mut fixture = fixture_with_server(&server);
    fixture.run_with_input(&["login", "anthropic", "--yes"], KEY).await.exited(0);
    fixture.set_env("ANTHROPIC_API_KEY", "sk-variable-0123456789");
    fixture.run(&["run", "hi", "-m", MODEL]).await.exited(0);
    assert_eq!(sent_key(&server.finish().await.unwrap()[0]), "sk-variable-0123456789");
}

#[tokio::test]
async fn a_broken_or_world_readable_credentials_file_is_refused_and_kept() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let mut fixture = fixture_with_server(&server);
    fixture.run_with_input(&["login", "anthropic", "--yes"], KEY).await.exited(0);
    fs::set_permissions(credentials_file(&fixture), fs::Permissions::from_mode(0o644)).unwrap();
    for args in [&["run", "hi", "-m", MODEL][..], &["run", "hi"], &["logout"]] {
        let ran = fixture.run(args).await;
        assert!(ran.exited(2).err.contains("chmod 600"), "{}", ran.err);
    }
    fs::set_permissions(credentials_file(&fixture), fs::Permissions::from_mode(0o600)).unwrap();
    let broken = fs::read_to_string(credentials_file(&fixture))
        .unwrap()
        .replace("\"version\": 1", "\"version\": x");
    fs::write(credentials_file(&fixture), &broken).unwrap();
    for args in [&["run", "hi", "-m", MODEL][..], &["login", "openai", "--yes"], &["logout"]] {
        let ran = fixture.run_with_input(args, "sk-another-0123456789").await;
        assert!(ran.exited(2).err.contains("credentials.json:2:"), "{}", ran.err);
        assert!(!ran.err.contains("sk-"), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(credentials_file(&fixture)).unwrap(), broken);
    // With a key in a variable the broken file does not matter.
    fixture.set_env("ANTHROPIC_API_KEY", "sk-variable-0123456789");
    fixture.run(&["run", "hi", "-m", MODEL]).await.exited(0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_invalid_key_is_refused_without_being_shown() {
    let fixture = Fixture::new();
    for text in ["", "  \n", "sk-one sk-two", "sk-\u{1b}[0m"] {
        let ran = fixture.run_with_input(&["login", "openai", "--yes"], text).await;
        assert!(ran.exited(2).err.contains("cannot be a key"), "{}", ran.err);
        assert!(!ran.err.contains("sk-"), "{}", ran.err);
    }
    let ran = fixture.run(&["login"]).await;
    assert!(ran.exited(2).err.contains("anthropic, openai"), "{}", ran.err);
    fixture.run(&["login", "replay", "--yes"]).await.exited(2);
    fixture.run(&["login", "nobody", "--yes"]).await.exited(2);
}

#[tokio::test]
async fn without_a_home_nothing_is_stored() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["login", "openai", "--yes"]);
    command.env_remove("HOME");
    let ran = crate::program::feed(command, KEY).await;
    assert!(ran.exited(2).err.contains("HOME"), "{}", ran.err);
}

#[tokio::test]
async fn a_typed_key_is_not_echoed() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["login", "openai"], 100, "xterm-256color");
    terminal.wait_for_text("it is not shown").await;
    terminal.type_keys("sk-typed-wrong\u{15}sk-typed-0123456789\r");
    terminal.wait_for_text("Store it? [y/N]").await;
    terminal.type_keys("y\r");
    let screen = terminal.wait_for_exit(0).await;
    assert!(screen.contains("Store it? [y/N] y\n"), "{screen}");
    assert!(screen.contains("stored;") && !screen.contains("sk-typed"), "{screen}");
    assert!(
        fs::read_to_string(credentials_file(&fixture)).unwrap().contains("sk-typed-0123456789")
    );
    // openai-chat uses the same key.
    let ran = fixture.run(&["login", "--status"]).await;
    assert_eq!(ran.exited(0).out.matches("key stored").count(), 2, "{}", ran.out);
    let mut terminal = Terminal::start(&fixture, &["login", "gemini"], 100, "xterm-256color");
    terminal.wait_for_text("it is not shown").await;
    terminal.type_keys("sk-typed-and-not-stored\r");
    terminal.wait_for_text("Store it? [y/N]").await;
    terminal.type_keys("\r");
    let screen = terminal.wait_for_exit(0).await;
    assert!(screen.contains("not stored") && !screen.contains("sk-typed"), "{screen}");
    assert!(!fs::read_to_string(credentials_file(&fixture)).unwrap().contains("not-stored"));
    assert!(screen.contains("Store it? [y/N] n\n"), "{screen}");
    let mut terminal =
        Terminal::start(&fixture, &["login", "gemini", "--yes"], 100, "xterm-256color");
    terminal.wait_for_text("it is not shown").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_exit(130).await;
}

#[tokio::test]
async fn a_key_pasted_at_the_confirmation_is_neither_shown_nor_stored() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["login", "openai"], 100, "xterm-256color");
    terminal.wait_for_text("it is not shown").await;
    terminal.type_keys("sk-first-0123456789\r");
    terminal.wait_for_text("Store it? [y/N]").await;
    terminal.type_keys("sk-again-0123456789\rsk-behind-it\r");
    let screen = terminal.wait_for_exit(0).await;
    assert!(screen.contains("Store it? [y/N] n\n") && !screen.contains("sk-"), "{screen}");
    assert!(!credentials_file(&fixture).exists());
    let mut terminal = Terminal::start(&fixture, &["login", "openai"], 100, "xterm-256color");
    terminal.wait_for_text("it is not shown").await;
    terminal.type_keys("sk-first-0123456789\r");
    terminal.wait_for_text("Store it? [y/N]").await;
    terminal.type_keys("\u{3}");
    terminal.wait_for_exit(130).await;
}
