//! `doctor`: keys, the model, the configuration, servers and trust.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::program::Place;

const KEY: &str = "sk-doctor-0123456789";

/// A place without any model server.
fn place() -> Place {
    let mut place = Place::new();
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        place.set(name, "127.0.0.1:9");
    }
    place
}

fn write(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs it, whatever the sandbox of this machine is worth.
async fn doctor(place: &Place) -> String {
    let ran = place.run(&["doctor"]).await;
    assert!(!ran.out.contains("sk-") && !ran.err.contains("sk-"), "{}{}", ran.out, ran.err);
    ran.out
}

fn says(out: &str, lines: &[&str]) {
    for line in lines {
        assert!(out.contains(line), "{line:?} is not in\n{out}");
    }
}

#[tokio::test]
async fn doctor_without_a_key_reports_the_missing_model_and_a_remedy() {
    let out = doctor(&place()).await;
    says(
        &out,
        &[
            "! keys: no provider has one",
            "crow-agent login PROVIDER",
            "! model: there is none to talk to",
            "✓ configuration: no file of your own in ",
            "✓ MCP servers: none",
            "has no configuration",
        ],
    );
}

#[tokio::test]
async fn doctor_shows_where_keys_come_from_and_why_a_model_is_used() {
    let mut place = place();
    place.run_with_input(&["login", "openai", "--yes"], KEY).await.exited(0);
    place.set("ANTHROPIC_API_KEY", KEY);
    let out = doctor(&place).await;
    says(
        &out,
        &[
            "✓ key of anthropic: in the variable ANTHROPIC_API_KEY",
            "✓ key of openai: stored",
            "✓ model: anthropic/",
            "the default of anthropic, the first provider with a key",
        ],
    );
    place.run(&["config", "set", "model", "gemini/gemini-test"]).await.exited(0);
    let out = doctor(&place).await;
    says(
        &out,
        &[
            "! model: gemini/gemini-test: config.toml names it; gemini has no key",
            "✓ configuration: config.toml in ",
        ],
    );
    let agent = place.home(".config/crow-agent/agents/base/builder.toml");
    write(&agent, "[model]\nprovider = \"openai\"\nmodel = \"gpt-test\"\n");
    let out = doctor(&place).await;
    says(
        &out,
        &["✓ model: openai/gpt-test: the agent builder names it", "agents/base/builder.toml"],
    );
}

#[tokio::test]
async fn doctor_reports_invalid_files_servers_and_untrusted_projects() {
    let place = place();
    let config = place.home(".config/crow-agent");
    write(
        &config.join("config.toml"),
        "[mcp.servers.wiki]\ncommand = \"touch\"\nargs = [\"started\"]\n",
    );
    write(&config.join("agents/lost.toml"), "description = \"x\"\n");
    write(&place.project(".crow-agent/config.toml"), "agent = \"PLAN\"\n");
    let out = doctor(&place).await;
    says(
        &out,
        &[
            "✓ MCP servers: wiki",
            "agents/lost.toml is not read",
            "is not trusted, and is not used\n  `crow-agent trust` shows it and asks",
        ],
    );
    assert!(!place.project("started").exists());
    place.run(&["trust", "--yes"]).await.exited(0);
    let out = doctor(&place).await;
    says(&out, &["is trusted", "✓ configuration of the project: .crow-agent/config.toml"]);
    write(&config.join("config.toml"), "modell = 1\n");
    let ran = place.run(&["doctor", "-o", "json"]).await;
    let bad: Vec<_> =
        ran.exited(1).lines().into_iter().filter(|line| line["state"] == "bad").collect();
    assert!(
        bad.iter().any(|line| line["about"] == "configuration"
            && line["text"].as_str().unwrap().contains("config.toml:1:")),
        "{bad:?}"
    );
}

#[tokio::test]
async fn doctor_shows_whether_a_local_server_may_get_prompts() {
    let server = ModelServer::start(Vec::<ScriptedReply>::new()).await;
    let mut place = place();
    let url = server.base_url(WireDialect::OpenAiChat);
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    place.set("OLLAMA_HOST", address);
    let out = doctor(&place).await;
    let found = format!("✓ local server: ollama at {url}, 1 model");
    says(&out, &[&found, "it gets no prompt before", "! model: none is named; ollama at "]);
    let agreed = format!("{{\"version\": 1, \"addresses\": [\"{url}\"]}}");
    write(&place.home(".local/share/crow-agent/local-servers.json"), &agreed);
    let out = doctor(&place).await;
    says(&out, &["you agreed that it gets prompts", "✓ model: ollama/test-model, found at "]);
    assert_eq!(server.finish().await.unwrap().len(), 0);
}
