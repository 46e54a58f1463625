//! The remote transport.

use std::net::SocketAddr;

use crow_acp::AccessToken;
use crow_testkit::scripted::{reply, text};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};

use crate::client::Product;

const TOKEN: &str = "0123456789abcdef0123";

/// A server that listens.
struct Listening {
    address: SocketAddr,
    serving: JoinSet<()>,
    stop: oneshot::Sender<()>,
}

impl Listening {
    async fn start(product: &Product, token: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = product.server.clone();
        let token = token.map(|token| AccessToken::new(token).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let stopped = async move { drop(stopped.await) };
            server.serve_http(listener, token, stopped).await.unwrap();
        });
        Self { address, serving, stop }
    }

    async fn post(&self, headers: &str, message: &Value) -> (u16, String) {
        let body = message.to_string();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "POST /acp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    /// Opens a stream of events.
    async fn events(&self, headers: &str) -> BufReader<TcpStream> {
        let mut events = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        let get = format!(
            "GET /acp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{headers}\r\n",
            self.address
        );
        events.get_mut().write_all(get.as_bytes()).await.unwrap();
        events
    }

    async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.serving.join_next().await.unwrap().unwrap();
    }
}

/// Waits for a message that fits.
async fn until(events: &mut BufReader<TcpStream>, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(events.read_line(&mut line).await.unwrap(), 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data:") {
            let message: Value = serde_json::from_str(data).unwrap();
            if fits(&message) {
                return message;
            }
        }
    }
}

fn hello() -> Value {
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn header(answer: &str, name: &str) -> String {
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with(name)).unwrap();
    line.split_once(": ").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_turn_goes_over_http_and_its_events_come_in_a_stream() {
    let product = Product::new([reply([text("Hello.")])]);
    let server = Listening::start(&product, None).await;
    let (status, answer) = server.post("", &hello()).await;
    assert_eq!(status, 200, "{answer}");
    let id = format!("Acp-Connection-Id: {}\r\n", header(&answer, "acp-connection-id"));
    let mut events = server.events(&id).await;
    let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
    let new = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params });
    let (status, answer) = server.post(&id, &new).await;
    assert_eq!(status, 202, "{answer}");
    let made = until(&mut events, |message| message["id"] == 2).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let of_session = format!("{id}Acp-Session-Id: {session}\r\n");
    let mut events = server.events(&of_session).await;
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let prompt = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params });
    assert_eq!(server.post(&of_session, &prompt).await.0, 202);
    let kind = |message: &Value| message["params"]["update"]["sessionUpdate"].clone();
    let said = until(&mut events, |message| kind(message) == "agent_message_chunk").await;
    assert_eq!(said["params"]["update"]["content"]["text"], "Hello.");
    let end = until(&mut events, |message| message["id"] == 3).await;
    assert_eq!(end["result"]["stopReason"], "end_turn");
    server.stop().await;
    assert!(product.host.asked().contains(&format!("close {session}")), "its sessions are closed");
}

#[tokio::test]
async fn whoever_shows_no_token_learns_nothing() {
    let product = Product::new([]);
    let server = Listening::start(&product, Some(TOKEN)).await;
    assert_eq!(server.post("", &hello()).await.0, 401);
    assert_eq!(server.post("Authorization: Bearer wrong\r\n", &hello()).await.0, 401);
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(server.post(&shown, &hello()).await.0, 200);
    assert_eq!(product.host.asked(), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_a_browser_is_refused_without_a_token() {
    let product = Product::new([]);
    let server = Listening::start(&product, None).await;
    assert_eq!(server.post("Origin: http://localhost\r\n", &hello()).await.0, 403);
    server.stop().await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_token() {
    let product = Product::new([]);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let served = product.server.serve_http(listener, None, std::future::pending()).await;
    assert!(served.unwrap_err().to_string().contains("token"));
}
