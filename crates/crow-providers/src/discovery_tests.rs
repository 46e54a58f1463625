use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

use super::*;
use crate::http::HttpClient;

const OLLAMA: &str = r#"{"object":"list","data":[{"id":"nomic-embed-text:latest","object":"model"},{"id":"qwen3:8b","object":"model"}]}"#;
const VLLM: &str =
    r#"{"object":"list","data":[{"id":"Qwen/Qwen3","object":"model","max_model_len":32768}]}"#;
const LLAMA_CPP: &str = r#"{"models":[{"name":"m.gguf"}],"object":"list","data":[{"id":"m.gguf","meta":{"n_ctx":4096,"n_ctx_train":131072}}]}"#;

/// A server that gives every request the same answer, or none.
#[derive(Debug)]
struct Server {
    address: String,
    questions: Arc<Mutex<Vec<String>>>,
    _task: tokio::task::JoinSet<()>,
}

impl Server {
    async fn start(answer: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let mut task = tokio::task::JoinSet::new();
        let seen = Arc::clone(&questions);
        task.spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 4096];
                let length = stream.read(&mut bytes).await.unwrap();
                bytes.truncate(length);
                seen.lock().unwrap().push(String::from_utf8(bytes).unwrap());
                match &answer {
                    Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
                    None => open.push(stream),
                }
            }
        });
        Self { address, questions, _task: task }
    }

    async fn with_models(list: &str) -> Self {
        Self::start(Some(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{list}",
            list.len()
        )))
        .await
    }
}

fn models(variables: Vec<(&'static str, String)>) -> ProviderModels {
    let lookup = move |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    };
    ProviderModels::new(Vec::new(), lookup, HttpClient::default()).unwrap()
}

/// Returns an address where nothing listens.
async fn unused_address() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

fn model(id: &str, context_window: Option<u64>) -> FoundModel {
    FoundModel { id: id.to_owned(), context_window }
}

#[tokio::test]
async fn running_servers_are_found_with_their_models() {
    let ollama = Server::with_models(OLLAMA).await;
    let vllm = Server::with_models(VLLM).await;
    let llama_cpp = Server::with_models(LLAMA_CPP).await;
    let models = models(vec![
        ("OLLAMA_HOST", ollama.address.clone()),
        ("LLAMACPP_HOST", format!("http://{}/v1", llama_cpp.address)),
        ("LMSTUDIO_HOST", unused_address().await),
        ("VLLM_HOST", vllm.address.clone()),
        ("VLLM_API_KEY", "sk-local".to_owned()),
    ]);
    let server = |provider: &str, address: &str, model: FoundModel| FoundServer {
        provider: provider.to_owned(),
        base_url: format!("http://{address}/v1"),
        models: vec![model],
    };
    assert_eq!(
        discover(&models).await,
        [
            server("ollama", &ollama.address, model("qwen3:8b", None)),
            server("llamacpp", &llama_cpp.address, model("m.gguf", Some(4096))),
            server("vllm", &vllm.address, model("Qwen/Qwen3", Some(32_768))),
        ]
    );
    let question = vllm.questions.lock().unwrap()[0].clone();
    assert!(question.starts_with("GET /v1/models HTTP/1.0\r\n"), "{question}");
    assert!(question.contains("\r\nAuthorization: Bearer sk-local\r\n"), "{question}");
    assert!(!ollama.questions.lock().unwrap()[0].contains("Authorization"));
}

#[tokio::test]
async fn silent_and_unsuitable_servers_are_skipped_without_delay() {
    let silent = Server::start(None).await;
    let refusing =
        Server::start(Some("HTTP/1.1 401 Unauthorized\r\n\r\n{\"data\":[]}".to_owned())).await;
    let page = Server::start(Some("HTTP/1.1 200 OK\r\n\r\n<html></html>".to_owned())).await;
    let empty = Server::with_models(r#"{"object":"list","data":[]}"#).await;
    let models = models(vec![
        ("OLLAMA_HOST", silent.address.clone()),
        ("LLAMACPP_HOST", refusing.address.clone()),
        ("LMSTUDIO_HOST", page.address.clone()),
        ("VLLM_HOST", empty.address.clone()),
    ]);
    let began = Instant::now();
    assert_eq!(discover(&models).await, []);
    assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_behind_tls_or_at_an_invalid_address_is_skipped() {
    let models = models(vec![
        ("OLLAMA_HOST", "https://127.0.0.1:1".to_owned()),
        ("LLAMACPP_HOST", "no host".to_owned()),
        ("LMSTUDIO_HOST", unused_address().await),
        ("VLLM_HOST", unused_address().await),
    ]);
    assert_eq!(discover(&models).await, []);
}

#[tokio::test]
async fn a_chosen_route_replaces_the_configured_local_server() {
    let (before, chosen) = (Server::with_models(OLLAMA).await, Server::with_models(VLLM).await);
    let models = models(vec![
        ("OLLAMA_HOST", before.address.clone()),
        ("OLLAMA_API_KEY", "sk-local".to_owned()),
        ("LLAMACPP_HOST", unused_address().await),
        ("LMSTUDIO_HOST", unused_address().await),
        ("VLLM_HOST", unused_address().await),
    ]);
    let change = crate::route::RouteChange {
        provider: "ollama".to_owned(),
        protocol: crate::dialect::Protocol::OpenAi,
        base_url: format!("http://{}/v1", chosen.address),
        headers: vec![ExtraHeader { name: "x-team".to_owned(), value: "crow".to_owned() }],
    };
    models.set_route(change).unwrap();
    let found = discover(&models).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].models, [model("Qwen/Qwen3", Some(32_768))]);
    assert!(before.questions.lock().unwrap().is_empty());
    let question = chosen.questions.lock().unwrap()[0].clone();
    assert!(question.contains("\r\nx-team: crow\r\n") && !question.contains("sk-local"));
    models.disable("ollama");
    assert_eq!(discover(&models).await, []);
}
