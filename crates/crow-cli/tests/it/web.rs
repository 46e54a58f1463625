//! The web tools in runs of the program, against a server of the test.

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::program::Fixture;

/// A server that answers every request with the same body, and counts the requests.
struct WebServer {
    port: u16,
    serving: JoinHandle<()>,
    requests: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl WebServer {
    async fn start(content_type: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
        let seen = std::sync::Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                // The program may have gone.
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        Self { port, serving, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn model(calls: &[(&str, serde_json::Value)]) -> (ModelServer, Fixture) {
    let calls = calls.iter().enumerate().map(|(number, (tool, input))| {
        ScriptedReply::new().call(format!("c{number}"), *tool, input)
    });
    let script: Vec<_> = calls.chain([ScriptedReply::new().text("Read.")]).collect();
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

#[tokio::test]
async fn a_page_is_fetched_only_from_an_allowed_host() {
    let web = WebServer::start("text/html", "<h1>Manual</h1><p>Turn <b>left</b>.").await;
    let url = format!("http://127.0.0.1:{}/manual", web.port);
    let host = format!("127.0.0.1:{}", web.port);
    let modes = ["ask", "read-only", "full-auto"];
    for mode in modes {
        let elsewhere = [("web_fetch", json!({"url": "https://docs.example/"}))];
        let (server, fixture) = model(&elsewhere).await;
        let args = ["run", "What does it say?", "-m", "anthropic/claude-test", "-p", mode];
        let run = fixture.run(&args).await;
        assert!(!run.exited(6).err.contains("accept-edits"), "of no use here: {}", run.err);
        let requests = server.finish().await.unwrap();
        let refusal = requests[1].body.to_string();
        assert!(refusal.contains("Not permitted by policy"), "{mode}: {refusal}");
        assert!(refusal.contains("--allow-host docs.example"), "{mode}: {refusal}");
        // An answer would not help with an address that is never read.
        let (server, fixture) = model(&[("web_fetch", json!({"url": url}))]).await;
        fixture.run(&args).await.exited(0);
        let requests = server.finish().await.unwrap();
        let refusal = requests[1].body.to_string();
        assert!(refusal.contains("--allow-host ADDRESS:PORT"), "{mode}: {refusal}");
    }
    assert_eq!(web.requests(), [""; 0], "nothing was asked for");
    for mode in modes {
        let (server, fixture) = model(&[("web_fetch", json!({"url": url}))]).await;
        let args = ["run", "What does it say?", "-m", "anthropic/claude-test", "-p", mode];
        let allow = ["--allow-host", host.as_str()];
        fixture.run(&[&args[..], &allow].concat()).await.exited(0);
        let requests = server.finish().await.unwrap();
        let result = requests[1].body.to_string();
        assert!(result.contains(r"# Manual\n\nTurn **left**."), "{mode}: {result}");
        assert!(result.contains("trust="), "{mode}: {result}");
        assert!(requests[0].body.to_string().contains("web_fetch"));
        assert!(!requests[0].body.to_string().contains("web_search"), "none is configured");
    }
    let asked = web.requests();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|head| !head.to_lowercase().contains("cookie")), "{asked:?}");
}

#[tokio::test]
async fn an_allowed_name_leads_to_no_private_address() {
    let web = WebServer::start("text/plain", "secret").await;
    let url = format!("http://localhost:{}/", web.port);
    let (server, fixture) = model(&[("web_fetch", json!({"url": url}))]).await;
    let config = fixture.home(".config/crow-agent");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "[sandbox]\nnetwork = true\n").unwrap();
    fixture.run(&["run", "x", "-m", "anthropic/claude-test", "-p", "full-auto"]).await;
    let requests = server.finish().await.unwrap();
    let result = requests[1].body.to_string();
    assert!(result.contains("of this machine or of the network around it"), "{result}");
    assert_eq!(web.requests(), [""; 0]);
}

#[tokio::test]
async fn a_configured_search_service_is_asked_without_a_question() {
    let web = WebServer::start(
        "application/json",
        r#"{"results": [{"url": "https://a.test/", "title": "Found", "content": "it"}]}"#,
    )
    .await;
    let calls = [("web_search", json!({"query": "crow agent"}))];
    let (server, fixture) = model(&calls).await;
    let config = fixture.home(".config/crow-agent");
    std::fs::create_dir_all(&config).unwrap();
    let chosen =
        format!("[web_search]\nservice = \"searxng\"\nurl = \"http://127.0.0.1:{}\"\n", web.port);
    std::fs::write(config.join("config.toml"), chosen).unwrap();
    let explained = fixture.run(&["permissions", "explain", "web_search crow"]).await;
    assert!(explained.exited(0).out.starts_with("search crow may run"), "{}", explained.out);
    fixture.run(&["run", "search", "-m", "anthropic/claude-test"]).await.exited(0);
    let requests = server.finish().await.unwrap();
    let result = requests[1].body.to_string();
    assert!(result.contains(r"1. Found\n   https://a.test/\n   it"), "{result}");
    let [head] = web.requests().try_into().unwrap();
    assert!(head.starts_with("GET /search?q=crow+agent&format=json HTTP/1.1"), "{head}");
}

#[tokio::test]
async fn the_search_of_a_provider_is_used_if_it_is_chosen() {
    let web = WebServer::start(
        "application/json",
        r#"{"candidates": [{"groundingMetadata": {
            "groundingChunks": [{"web": {"uri": "https://a.test/", "title": "Found"}}],
            "groundingSupports": [{"segment": {"text": "it"}, "groundingChunkIndices": [0]}]}}]}"#,
    )
    .await;
    let calls = [("web_search", json!({"query": "crow agent"}))];
    // Its key alone is there for models.
    let (server, mut fixture) = model(&calls).await;
    fixture.set_env("GEMINI_API_KEY", "gm-0123456789");
    fixture.set_env("GEMINI_BASE_URL", &format!("http://127.0.0.1:{}/v1beta", web.port));
    fixture.run(&["run", "search", "-m", "anthropic/claude-test"]).await;
    let requests = server.finish().await.unwrap();
    assert!(!requests[0].body.to_string().contains("web_search"));
    let (server, mut fixture) = model(&calls).await;
    fixture.set_env("GEMINI_API_KEY", "gm-0123456789");
    fixture.set_env("GEMINI_BASE_URL", &format!("http://127.0.0.1:{}/v1beta", web.port));
    let config = fixture.home(".config/crow-agent");
    std::fs::create_dir_all(&config).unwrap();
    let chosen = "[web_search]\nservice = \"gemini\"\nmodel = \"small-9\"\n";
    std::fs::write(config.join("config.toml"), chosen).unwrap();
    fixture.run(&["run", "search", "-m", "anthropic/claude-test"]).await.exited(0);
    let requests = server.finish().await.unwrap();
    let result = requests[1].body.to_string();
    assert!(result.contains(r"1. Found\n   https://a.test/\n   it"), "{result}");
    let [head] = web.requests().try_into().unwrap();
    let line = "POST /v1beta/models/small-9:generateContent HTTP/1.1";
    assert!(head.starts_with(line) && head.contains("gm-0123456789"), "{head}");
}

#[tokio::test]
async fn a_search_service_that_was_only_found_is_asked_about() {
    let calls = [("web_search", json!({"query": "crow agent"}))];
    let (server, mut fixture) = model(&calls).await;
    fixture.set_env("EXA_API_KEY", "a-key-of-another-program");
    let run = fixture.run(&["run", "search", "-m", "anthropic/claude-test"]).await;
    run.exited(6);
    let requests = server.finish().await.unwrap();
    assert!(requests[1].body.to_string().contains("Not permitted by policy"));
    // An administrator's question overrules the choice of a service.
    let rules = r#"{"version": 1, "rules": [{"id": "n", "matcher": {"tool_category": "network"}, "decision": "ask_user"}]}"#;
    let config = fixture.home(".config/crow-agent");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "[web_search]\nservice = \"exa\"\n").unwrap();
    let explain = ["permissions", "explain", "web_search x"];
    assert!(fixture.run(&explain).await.exited(0).out.starts_with("search x may run"));
    std::fs::write(config.join("permissions.json"), rules).unwrap();
    let explained = fixture.run(&explain).await;
    assert!(explained.exited(0).out.starts_with("search x is asked about"), "{}", explained.out);
}

#[tokio::test]
async fn a_mistake_in_the_search_service_is_told_and_the_run_goes_on() {
    let (server, fixture) = model(&[]).await;
    let config = fixture.home(".config/crow-agent");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "[web_search]\nservice = \"tavily\"\n").unwrap();
    let run = fixture.run(&["run", "hello", "-m", "anthropic/claude-test"]).await;
    let told = run.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("web_search: Tavily needs a key"), "{told}");
    assert!(!server.finish().await.unwrap()[0].body.to_string().contains("web_search"));
}

#[tokio::test]
async fn decisions_about_hosts_are_explained() {
    let fixture = Fixture::new();
    let explained =
        fixture.run(&["permissions", "explain", "web_fetch https://docs.rs/serde"]).await;
    assert!(
        explained.exited(0).out.starts_with("fetch https://docs.rs/serde is asked about"),
        "{}",
        explained.out
    );
    let wrong = fixture.run(&["permissions", "explain", "web_fetch https://[::1]/"]).await;
    assert!(wrong.exited(2).err.contains("addresses of IP version 6"), "{}", wrong.err);
}
