//! Model servers of this machine that were found and not named.

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::{program::Place, terminal::Terminal};

/// A place where a server answers as Ollama would, and no other.
fn place(server: &ModelServer) -> Place {
    let mut place = Place::new();
    for name in ["LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        place.set(name, "127.0.0.1:9");
    }
    let url = server.base_url(WireDialect::OpenAiChat);
    let address = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    place.set("OLLAMA_HOST", &address);
    place
}

#[tokio::test]
async fn a_discovered_server_gets_no_prompt_without_a_terminal() {
    let server = ModelServer::start([
        ScriptedReply::new().text("hello"),
        ScriptedReply::new().text("hello"),
    ])
    .await;
    let place = place(&server);
    let ran = place.run(&["run", "the secret plan"]).await;
    assert!(ran.exited(3).err.contains("a model server was found at http://"), "{}", ran.err);
    assert!(ran.err.contains("--model ollama/test-model"), "{}", ran.err);
    assert!(ran.err.contains("model = \"ollama/test-model\""), "{}", ran.err);
    let ran = place.run(&["run", "the secret plan", "-o", "json"]).await;
    assert_eq!(ran.exited(3).result()["error"]["code"], "no_credentials");
    assert!(place.run(&["models"]).await.exited(0).out.contains("test-model"));
    // Who names it has chosen it.
    let ran = place.run(&["run", "hi", "-m", "ollama/test-model"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    place.run(&["config", "set", "model", "ollama/test-model"]).await.exited(0);
    assert_eq!(place.run(&["run", "hi"]).await.exited(0).out, "hello\n");
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
    let place = place(&server);
    for answer in ["\r", "n\r"] {
        let mut terminal = Terminal::start(&place, &["run", "hi"], 100, "xterm-256color");
        terminal.shows("ollama/test-model at http://").await.shows("[y/N]").await;
        terminal.keys(answer);
        terminal.exits(3).await;
    }
    let mut terminal = Terminal::start(&place, &["run", "hi"], 100, "xterm-256color");
    terminal.shows("[y/N]").await;
    terminal.keys("y\r");
    terminal.shows("hello").await;
    terminal.exits(0).await;
    let ran = place.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "again\n");
    assert!(ran.err.contains("using ollama/test-model, found at http://"), "{}", ran.err);
    server.finish().await.unwrap();
}
