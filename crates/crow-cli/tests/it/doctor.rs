//! The command `doctor`: keys, the model, the configuration, servers and trust.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::program::Fixture;

const KEY: &str = "sk-doctor-0123456789";

/// Returns a fixture without any model server.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    fixture
}

fn write(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the output of `doctor`, without a check of the exit code, which depends on this machine's sandbox.
async fn doctor(fixture: &Fixture) -> String {
    let ran = fixture.run(&["doctor"]).await;
    assert!(!ran.out.contains("sk-") && !ran.err.contains("sk-"), "{}{}", ran.out, ran.err);
    ran.out
}

fn assert_contains(out: &str, lines: &[&str]) {
    for line in lines {
        assert!(out.contains(line), "{line:?} is not in\n{out}");
    }
}

#[tokio::test]
async fn doctor_without_a_key_reports_the_missing_model_and_a_remedy() {
    let out = doctor(&fixture()).await;
    assert_contains(
        &out,
        &[
            "! keys: no provider has one",
            "crow-agent login PROVIDER",
            "! model: none is available",
            "✓ configuration: no file of your own in ",
            "✓ MCP servers: none",
            "has no configuration",
        ],
    );
}

#[tokio::test]
async fn doctor_shows_where_keys_come_from_and_why_a_model_is_used() {
    let mut fixture = fixture();
    fixture.run_with_input(&["login", "openai", "--yes"], KEY).await.exited(0);
    fixture.set_env("ANTHROPIC_API_KEY", KEY);
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &[
            "✓ key of anthropic: in the variable ANTHROPIC_API_KEY",
            "✓ key of openai: stored",
            "✓ model: anthropic/",
            "the default of anthropic, the first provider with a key",
        ],
    );
    fixture.run(&["config", "set", "model", "gemini/gemini-test"]).await.exited(0);
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &[
            "! model: gemini/gemini-test: config.toml names it; gemini has no key",
            "✓ configuration: config.toml in ",
        ],
    );
    let agent = fixture.home(".config/crow-agent/agents/base/builder.toml");
    write(&agent, "[model]\nprovider = \"openai\"\nmodel = \"gpt-test\"\n");
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &["✓ model: openai/gpt-test: the agent builder names it", "agents/base/builder.toml"],
    );
}

#[tokio::test]
async fn doctor_reports_invalid_files_servers_and_untrusted_projects() {
    let fixture = fixture();
    let config = fixture.home(".config/crow-agent");
    write(
        &config.join("config.toml"),
        "[mcp.servers.wiki]\ncommand = \"touch\"\nargs = [\"started\"]\n",
    );
    write(&config.join("agents/lost.toml"), "description = \"x\"\n");
    write(&fixture.project(".crow-agent/config.toml"), "agent = \"PLAN\"\n");
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &[
            "✓ MCP servers: wiki",
            "agents/lost.toml is not read",
            "is not trusted, and is not used\n    `crow-agent trust` shows it and asks",
        ],
    );
    assert!(!fixture.project("started").exists());
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &["is trusted", "✓ configuration of the project: .crow-agent/config.toml"],
    );
    write(&config.join("config.toml"), "modell = 1\n");
    let ran = fixture.run(&["doctor", "-o", "json"]).await;
    let bad: Vec<_> =
        ran.exited(1).lines().into_iter().filter(|line| line["state"] == "bad").collect();
    assert!(
        bad.iter().any(|line| line["about"] == "configuration"
            && line["text"].as_str().unwrap().contains("config.toml:1:")),
        "{bad:?}"
    );
}

#[tokio::test]
async fn doctor_makes_many_checks_and_all_findings_but_fine_ones_have_a_remedy() {
    let fixture = fixture();
    let lines = fixture.run(&["doctor", "-o", "json"]).await.lines();
    assert!(lines.len() >= 30, "{} checks", lines.len());
    for line in lines.iter().filter(|line| line["state"] != "fine") {
        // Missing kernel features have no remedy.
        let is_gap = line["about"] == "sandbox";
        assert!(is_gap || !line["hint"].as_str().unwrap().is_empty(), "{line}");
    }
}

#[tokio::test]
async fn doctor_with_fix_takes_the_rights_of_others_from_crows_files_only() {
    let fixture = fixture();
    let (sessions, other) =
        (fixture.home(".local/share/crow-agent/sessions"), fixture.home("other"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [&sessions, &other] {
        fs::create_dir_all(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let out = doctor(&fixture).await;
    assert_contains(&out, &["! sessions: other users can read ", "doctor --fix"]);
    assert_eq!(mode(&sessions), 0o755);
    let fixed = fixture.run(&["doctor", "--fix"]).await.out;
    assert_contains(&fixed, &["✓ only you can read "]);
    assert_eq!((mode(&sessions), mode(&other)), (0o700, 0o755));
    assert!(!doctor(&fixture).await.contains("other users can read"));
}

#[tokio::test]
async fn doctor_shows_whether_a_local_server_may_get_prompts() {
    let server = ModelServer::start(Vec::<ScriptedReply>::new()).await;
    let mut fixture = fixture();
    let url = server.base_url(WireDialect::OpenAiChat);
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    fixture.set_env("OLLAMA_HOST", address);
    let out = doctor(&fixture).await;
    let found = format!("✓ local server: ollama at {url}, 1 model");
    assert_contains(
        &out,
        &[&found, "it gets no prompts until", "! model: none is chosen; ollama at "],
    );
    let agreed = format!("{{\"version\": 1, \"addresses\": [\"{url}\"]}}");
    write(&fixture.home(".local/share/crow-agent/local-servers.json"), &agreed);
    let out = doctor(&fixture).await;
    assert_contains(
        &out,
        &["you agreed that it gets prompts", "✓ model: ollama/test-model, found at "],
    );
    assert_eq!(server.finish().await.unwrap().len(), 0);
}
