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

#[tokio::test]
async fn models_that_a_gateway_lists_are_remembered_until_it_is_asked_again() {
    let server = ModelServer::start(Vec::<crow_testkit::ScriptStep>::new()).await;
    let mut fixture = fixture(&server);
    fixture.set_env("OLLAMA_HOST", "127.0.0.1:9");
    let folder = fixture.home(".config/crow-agent/providers");
    std::fs::create_dir_all(&folder).unwrap();
    let url = server.base_url(WireDialect::OpenAiChat);
    let text = format!(
        "[provider]\nname = \"gate\"\ntype = \"openai-chat\"\nbase_url = \"{url}\"\n\n\
         [auth]\napi_key = \"sk-of-the-gateway\"\n"
    );
    std::fs::write(folder.join("gate.toml"), text).unwrap();
    let listed = |out: &str| out.contains("gate/test-model");
    assert!(!listed(&fixture.run(&["models", "gate"]).await.exited(0).out));
    assert!(listed(&fixture.run(&["models", "gate", "--refresh"]).await.exited(0).out));
    // From then on without a request.
    server.finish().await.unwrap();
    assert!(listed(&fixture.run(&["models", "gate"]).await.exited(0).out));
    let json = fixture.run(&["models", "gate", "-o", "json"]).await;
    assert!(json.exited(0).out.contains("\"listed\":[\"test-model\"]"), "{}", json.out);
    // A provider that does not answer is named and keeps its list.
    let ran = fixture.run(&["models", "gate", "--refresh"]).await;
    assert!(ran.exited(0).err.contains("gate could not be asked for its models"), "{}", ran.err);
    assert!(listed(&ran.out) && !ran.err.contains("sk-of-the-gateway"));
}
