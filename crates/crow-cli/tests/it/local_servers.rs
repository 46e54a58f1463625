//! Local model servers that were discovered but not configured.

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::{program::Fixture, terminal::Terminal};

/// Returns a fixture in which the server answers as Ollama, and no other server exists.
fn fixture(server: &ModelServer) -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    let url = server.base_url(WireDialect::OpenAiChat);
    let address = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    fixture.set_env("OLLAMA_HOST", &address);
    fixture
}

#[tokio::test]
async fn a_discovered_server_gets_no_prompt_without_a_terminal() {
    let server = ModelServer::start([
        ScriptedReply::new().text("hello"),
        ScriptedReply::new().text("hello"),
    ])
    .await;
    let fixture = fixture(&server);
    let ran = fixture.run(&["run", "the secret plan"]).await;
    assert!(ran.exited(3).err.contains("a model server was found at http://"), "{}", ran.err);
    assert!(ran.err.contains("--model ollama/test-model"), "{}", ran.err);
    assert!(ran.err.contains("model = \"ollama/test-model\""), "{}", ran.err);
    let ran = fixture.run(&["run", "the secret plan", "-o", "json"]).await;
    assert_eq!(ran.exited(3).result()["error"]["code"], "no_credentials");
    assert!(fixture.run(&["models"]).await.exited(0).out.contains("test-model"));
    // A model named explicitly needs no confirmation.
    let ran = fixture.run(&["run", "hi", "-m", "ollama/test-model"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    fixture.run(&["config", "set", "model", "ollama/test-model"]).await.exited(0);
    assert_eq!(fixture.run(&["run", "hi"]).await.exited(0).out, "hello\n");
    let requests = server.finish().await.unwrap();
    assert!(requests.iter().all(|one| !one.body.to_string().contains("secret plan")));
}

#[tokio::test]
async fn a_discovered_server_is_asked_about_until_it_is_accepted() {
    let server = ModelServer::start([
        ScriptedReply::new().text("hello"),
        ScriptedReply::new().text("again"),
    ])
    .await;
    let fixture = fixture(&server);
    for answer in ["\r", "n\r"] {
        let mut terminal = Terminal::start(&fixture, &["run", "hi"], 100, "xterm-256color");
        terminal.wait_for_text("ollama/test-model at http://").await.wait_for_text("[y/N]").await;
        terminal.type_keys(answer);
        terminal.wait_for_exit(3).await;
    }
    let mut terminal = Terminal::start(&fixture, &["run", "hi"], 100, "xterm-256color");
    terminal.wait_for_text("[y/N]").await;
    terminal.type_keys("y\r");
    terminal.wait_for_text("hello").await;
    terminal.wait_for_exit(0).await;
    let ran = fixture.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "again\n");
    assert!(ran.err.contains("using ollama/test-model, found at http://"), "{}", ran.err);
    server.finish().await.unwrap();
}
