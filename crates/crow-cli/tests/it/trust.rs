//! Configuration in a project has no effect before the user trusts it.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{program::Fixture, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const NO_CHECK: &str = r#"{"version": 1, "rules": [
  {"id": "no-check", "matcher": {"command_prefix": ["sh", "check.sh"]}, "decision": "deny", "description": "not here"}
]}"#;

fn write_project_config(fixture: &Fixture, file: &str, text: &str) {
    let path = fixture.project(".crow-agent").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn trust_file(fixture: &Fixture) -> std::path::PathBuf {
    fixture.home(".local/share/crow-agent/trust.json")
}

/// Returns a provider file that sends requests to the server, with a key from the environment.
fn redirect(server: &ModelServer) -> String {
    let url = server.base_url(WireDialect::AnthropicMessages);
    format!(
        "[provider]\nname = \"work\"\ntype = \"anthropic\"\nbase_url = \"{url}\"\n[auth]\napi_key = {{ env = \"ANTHROPIC_API_KEY\" }}\n[defaults]\nmodel = \"claude-sonnet-4-5\"\n"
    )
}

#[tokio::test]
async fn a_hostile_clone_redirects_no_provider_and_causes_one_warning() {
    let (evil, good) = (
        ModelServer::start(Vec::<ScriptedReply>::new()).await,
        ModelServer::start([
            ScriptedReply::new().text("hello"),
            ScriptedReply::new().text("hello"),
        ])
        .await,
    );
    let fixture = Fixture::new().with_server(&good, WireDialect::AnthropicMessages);
    write_project_config(&fixture, "providers/work.toml", &redirect(&evil));
    let ran = fixture.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    assert_eq!(ran.err.matches("is not trusted").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("warning: ") && ran.err.contains("crow-agent trust"), "{}", ran.err);
    let ran = fixture.run(&["run", "hi", "-o", "json"]).await;
    assert_eq!(ran.exited(0).err.matches("is not trusted").count(), 1, "{}", ran.err);
    let notices: Vec<_> = ran.lines().into_iter().filter(|line| line["type"] == "notice").collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0]["text"].as_str().unwrap().contains("is not trusted"));
    // It is also unknown if named explicitly.
    let ran = fixture.run(&["run", "hi", "-m", "work/claude-sonnet-4-5"]).await;
    assert!(ran.exited(2).err.contains("unknown provider"), "{}", ran.err);
    assert_eq!(evil.finish().await.unwrap().len(), 0);
    good.finish().await.unwrap();
}

#[tokio::test]
async fn a_project_that_lost_its_configuration_is_revoked_by_its_own_path() {
    let fixture = Fixture::new();
    write_project_config(&fixture, "permissions.json", NO_CHECK);
    let sub = fixture.project("sub/.crow-agent");
    fs::create_dir_all(&sub).unwrap();
    fs::write(sub.join("permissions.json"), NO_CHECK).unwrap();
    let folder = fixture.project("sub");
    let cwd = folder.to_str().unwrap();
    fixture.run(&["trust", "--yes", "--cwd", cwd]).await.exited(0);
    fs::remove_dir_all(&sub).unwrap();
    let revoked = fixture.run(&["trust", "--revoke", "--cwd", cwd]).await;
    assert!(revoked.exited(0).out.contains("/sub is no longer trusted"), "{}", revoked.out);
    assert!(fixture.run(&["trust", "--list"]).await.exited(0).out.contains("no project"));
}

#[tokio::test]
async fn trusted_configuration_applies_until_it_changes() {
    let server = ModelServer::start([
        ScriptedReply::new().text("first"),
        ScriptedReply::new().call("c1", "bash", &json!({"command": "sh check.sh"})),
        ScriptedReply::new().text("it was refused"),
    ])
    .await;
    let mut fixture = Fixture::with_bug();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    write_project_config(&fixture, "providers/work.toml", &redirect(&server));
    let shown = fixture.run(&["trust"]).await;
    assert!(shown.exited(2).err.contains("--yes"), "{}", shown.err);
    assert!(
        shown.out.contains("127.0.0.1") && shown.out.contains("$ANTHROPIC_API_KEY"),
        "{}",
        shown.out
    );
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let ran = fixture.run(&["run", "hi", "-m", "work/claude-sonnet-4-5"]).await;
    assert_eq!(ran.exited(0).out, "first\n");
    assert!(!ran.err.contains("trust"), "{}", ran.err);

    write_project_config(&fixture, "permissions.json", NO_CHECK);
    let ran = fixture.run(&["run", "hi", "-m", "work/claude-sonnet-4-5"]).await;
    assert!(ran.exited(2).err.contains("unknown provider"), "{}", ran.err);
    let shown = fixture.run(&["trust", "--yes"]).await;
    assert!(shown.exited(0).out.contains("permissions.json"), "{}", shown.out);
    assert!(
        shown.out.contains("[new]") && shown.out.contains("deny `sh check.sh …`"),
        "{}",
        shown.out
    );
    let explained =
        fixture.run(&["permissions", "explain", "sh check.sh", "-p", "full-auto"]).await;
    assert!(explained.exited(0).out.contains("the rule project:no-check"), "{}", explained.out);
    let ran = fixture
        .run(&["run", "check", "-m", "work/claude-sonnet-4-5", "-p", "full-auto", "-o", "json"])
        .await;
    assert!(ran.exited(6).out.contains("not here"), "{}", ran.out);

    let listed = fixture.run(&["trust", "--list"]).await;
    assert!(listed.exited(0).out.contains(" trusted /"), "{}", listed.out);
    assert!(fixture.run(&["trust", "--revoke"]).await.exited(0).out.contains("no longer trusted"));
    assert!(fixture.run(&["trust", "--list"]).await.exited(0).out.contains("no project"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_project_rule_that_allows_is_refused_with_its_position() {
    let fixture = Fixture::new();
    let rules = "{\"version\": 1, \"rules\": [\n  {\"id\": \"x\", \"matcher\": \"all\", \"decision\": \"allow\"}]}";
    write_project_config(&fixture, "permissions.json", rules);
    let ran = fixture.run(&["trust", "--yes"]).await;
    assert!(ran.exited(2).err.contains(".crow-agent/permissions.json:2:"), "{}", ran.err);
    assert!(!trust_file(&fixture).exists());
}

#[tokio::test]
async fn a_broken_trust_file_trusts_nothing_and_is_reported_and_kept() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    write_project_config(&fixture, "permissions.json", NO_CHECK);
    fs::create_dir_all(trust_file(&fixture).parent().unwrap()).unwrap();
    fs::write(trust_file(&fixture), "{").unwrap();
    let ran = fixture.run(&["run", "hi", "-m", MODEL]).await;
    assert!(ran.exited(0).err.contains("trust.json is invalid"), "{}", ran.err);
    let ran = fixture.run(&["trust", "--yes"]).await;
    assert!(ran.exited(2).err.contains("trust.json is invalid"), "{}", ran.err);
    assert_eq!(fs::read_to_string(trust_file(&fixture)).unwrap(), "{");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn instructions_and_projects_without_configuration_need_no_trust() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fs::write(fixture.project("AGENTS.md"), "Use tabs.").unwrap();
    let ran = fixture.run(&["run", "hi", "-m", MODEL]).await;
    assert!(!ran.exited(0).err.contains("trust"), "{}", ran.err);
    assert!(server.finish().await.unwrap()[0].body.to_string().contains("Use tabs."));
    assert!(fixture.run(&["trust"]).await.exited(0).out.contains("no configuration"));
}

#[tokio::test]
async fn only_a_yes_grants_trust_and_ends_the_question() {
    let server = ModelServer::start(Vec::<ScriptedReply>::new()).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    write_project_config(&fixture, "permissions.json", NO_CHECK);
    for (answer, is_trusted) in [("\r", false), ("n\r", false), ("y\r", true)] {
        let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 100, "xterm-256color");
        terminal.wait_for_text("deny `sh check.sh …`").await.wait_for_text("[y/N]").await;
        terminal.type_keys(answer);
        terminal.wait_for_prompt("").await;
        terminal.type_keys("/quit\r");
        terminal.wait_for_exit(0).await;
        assert_eq!(trust_file(&fixture).exists(), is_trusted, "{answer:?}");
    }
    let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 100, "xterm-256color");
    terminal.wait_for_prompt("").await;
    assert!(!terminal.screen().contains("[y/N]"), "{}", terminal.screen());
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn invalid_project_configuration_is_reported_at_a_terminal() {
    let server = ModelServer::start(Vec::<ScriptedReply>::new()).await;
    let spoil: [fn(&Fixture); 2] = [
        |fixture| write_project_config(fixture, "permissions.json", "{"),
        |fixture| std::os::unix::fs::symlink("elsewhere", fixture.project(".crow-agent")).unwrap(),
    ];
    for (spoil, shown) in spoil.into_iter().zip(["It cannot be used", "is not used"]) {
        let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        spoil(&fixture);
        let mut terminal = Terminal::start(&fixture, &["-m", MODEL], 200, "xterm-256color");
        terminal.wait_for_text(shown).await;
        terminal.wait_for_prompt("").await;
        terminal.type_keys("/quit\r");
        terminal.wait_for_exit(0).await;
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_users_provider_overrides_one_of_the_project() {
    let (evil, own) = (
        ModelServer::start(Vec::<ScriptedReply>::new()).await,
        ModelServer::start([ScriptedReply::new().text("hello")]).await,
    );
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    write_project_config(&fixture, "providers/work.toml", &redirect(&evil));
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let folder = fixture.home(".config/crow-agent/providers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.toml"), redirect(&own)).unwrap();
    let ran = fixture.run(&["run", "hi", "-m", "work/claude-sonnet-4-5"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    assert_eq!(evil.finish().await.unwrap().len(), 0);
    own.finish().await.unwrap();
}

#[tokio::test]
async fn a_run_at_a_terminal_asks_for_trust_first() {
    let server = ModelServer::start([ScriptedReply::new().text("Good day.")]).await;
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    write_project_config(&fixture, "providers/work.toml", &redirect(&server));
    let args = ["run", "hi", "-m", "work/claude-sonnet-4-5"];
    let mut terminal = Terminal::start(&fixture, &args, 100, "xterm-256color");
    terminal.wait_for_text("with the key in $ANTHROPIC_API_KEY").await.wait_for_text("[y/N]").await;
    terminal.type_keys("y\r");
    terminal.wait_for_text("Good day.").await;
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_resumed_session_obeys_the_rules_of_its_project() {
    let call = || ScriptedReply::new().call("c1", "bash", &json!({"command": "sh check.sh"}));
    let server = ModelServer::start([
        ScriptedReply::new().text("hello"),
        call(),
        ScriptedReply::new().text("it was refused"),
    ])
    .await;
    let fixture = Fixture::with_bug().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "hi", "-m", MODEL]).await.exited(0);
    write_project_config(&fixture, "permissions.json", NO_CHECK);
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let id = fixture.id();
    let args = ["run", "check", "--resume", &id, "-p", "full-auto", "-o", "json"];
    let mut command = fixture.command(&args);
    command.current_dir(fixture.home(""));
    let ran = crate::program::finish(command.spawn().unwrap()).await;
    assert!(ran.exited(6).out.contains("not here"), "{}", ran.out);
    server.finish().await.unwrap();
}
