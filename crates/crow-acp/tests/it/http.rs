//! The remote transport.

use std::net::SocketAddr;

use crow_core::ids::SessionId;
use crow_runtime::AccessToken;
use crow_runtime::AgentHost as _;
use crow_testkit::{
    scripted::{Play, call, reply, text},
    wait_until,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::client::{Product, message_text};

const TOKEN: &str = "0123456789abcdef0123";

/// A server that listens on a loopback address.
struct ListeningServer {
    address: SocketAddr,
    server_task: JoinSet<()>,
    stop: oneshot::Sender<()>,
}

impl ListeningServer {
    async fn start(product: &Product, token: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = product.server.clone();
        let token = token.map(|token| AccessToken::new(token).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut server_task = JoinSet::new();
        server_task.spawn(async move {
            let stopped = async move { drop(stopped.await) };
            server.serve_http(listener, token, stopped).await.unwrap();
        });
        Self { address, server_task, stop }
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

    /// Opens an event stream.
    async fn events(&self, headers: &str) -> BufReader<TcpStream> {
        let mut events = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        let get = format!(
            "GET /acp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{headers}\r\n",
            self.address
        );
        events.get_mut().write_all(get.as_bytes()).await.unwrap();
        events
    }

    /// Opens a WebSocket.
    async fn socket(&self) -> WebSocketStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (socket, response) =
            client_async(format!("ws://{}/acp", self.address), stream).await.unwrap();
        assert!(response.headers().contains_key("acp-connection-id"));
        socket
    }

    /// Creates a session over HTTP. Returns its id, and the headers of its requests.
    async fn session(&self, product: &Product) -> (String, String) {
        let (_, answer) = self.post("", &initialize_request()).await;
        let id = format!("Acp-Connection-Id: {}\r\n", header(&answer, "acp-connection-id"));
        let mut events = self.events(&id).await;
        let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
        let new = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params });
        self.post(&id, &new).await;
        let made = until(&mut events, |message| message["id"] == 2).await;
        let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
        let headers = format!("{id}Acp-Session-Id: {session}\r\n");
        (session, headers)
    }

    async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.server_task.join_next().await.unwrap().unwrap();
    }
}

/// Waits for a message that matches.
async fn until(events: &mut BufReader<TcpStream>, matches: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(events.read_line(&mut line).await.unwrap(), 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data:") {
            let message: Value = serde_json::from_str(data).unwrap();
            if matches(&message) {
                return message;
            }
        }
    }
}

/// Number of steps of a turn with more updates than may be unwritten.
const STEPS: usize = 90;

/// A turn of many steps, each with a call and a text.
fn many_steps() -> impl Iterator<Item = Play> {
    let step = |n: usize| {
        let step_text = text(&format!("step {n};"));
        // All calls differ, because a model that repeats a call is stopped.
        let arguments = json!({ "path": "a.txt", "limit": n });
        if n == STEPS {
            reply([step_text])
        } else {
            reply([step_text, call(&n.to_string(), "read_file", arguments)])
        }
    };
    (1..=STEPS).map(step)
}

fn all_text() -> String {
    (1..=STEPS).flat_map(|n| ["step ".to_owned(), n.to_string(), ";".to_owned()]).collect()
}

/// Waits until the model was asked for all steps, while nothing is read.
async fn wait_for_all_steps(product: &Product) {
    wait_until(|| product.model.requests().len() >= STEPS).await;
}

/// Sends a message over a WebSocket.
async fn send(socket: &mut WebSocketStream<TcpStream>, message: &Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// Reads from a WebSocket until a message matches. Returns it, and the updates before it.
async fn read_until(
    socket: &mut WebSocketStream<TcpStream>,
    matches: impl Fn(&Value) -> bool,
) -> (Value, Vec<Value>) {
    let mut updates = Vec::new();
    loop {
        let message = socket.next().await.unwrap().unwrap();
        let Message::Text(message) = message else { continue };
        let message: Value = serde_json::from_str(&message).unwrap();
        if matches(&message) {
            return (message, updates);
        }
        updates.push(message["params"]["update"].clone());
    }
}

/// Waits for the response to a request. Returns it, and the updates before it.
async fn updates_until(events: &mut BufReader<TcpStream>, id: u64) -> (Value, Vec<Value>) {
    let mut updates = Vec::new();
    loop {
        let message = until(events, |_| true).await;
        if message["id"] == id {
            return (message, updates);
        }
        updates.push(message["params"]["update"].clone());
    }
}

fn initialize_request() -> Value {
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn header(answer: &str, name: &str) -> String {
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with(name)).unwrap();
    line.split_once(": ").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_turn_over_http_sends_its_events_in_a_stream() {
    let product = Product::new([reply([text("Hello.")])]);
    let server = ListeningServer::start(&product, None).await;
    let (status, answer) = server.post("", &initialize_request()).await;
    assert_eq!(status, 200, "{answer}");
    let id = format!("Acp-Connection-Id: {}\r\n", header(&answer, "acp-connection-id"));
    let mut events = server.events(&id).await;
    let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
    let new = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params });
    let (status, answer) = server.post(&id, &new).await;
    assert_eq!(status, 202, "{answer}");
    let made = until(&mut events, |message| message["id"] == 2).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let session_headers = format!("{id}Acp-Session-Id: {session}\r\n");
    let mut events = server.events(&session_headers).await;
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let prompt = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params });
    assert_eq!(server.post(&session_headers, &prompt).await.0, 202);
    let kind = |message: &Value| message["params"]["update"]["sessionUpdate"].clone();
    let chunk = until(&mut events, |message| kind(message) == "agent_message_chunk").await;
    assert_eq!(chunk["params"]["update"]["content"]["text"], "Hello.");
    let end = until(&mut events, |message| message["id"] == 3).await;
    assert_eq!(end["result"]["stopReason"], "end_turn");
    server.stop().await;
    assert!(
        product.host.requests().contains(&format!("close {session}")),
        "its sessions are closed"
    );
}

#[tokio::test]
async fn requests_without_the_token_are_refused_and_do_not_reach_the_host() {
    let product = Product::new([]);
    let server = ListeningServer::start(&product, Some(TOKEN)).await;
    assert_eq!(server.post("", &initialize_request()).await.0, 401);
    assert_eq!(server.post("Authorization: Bearer wrong\r\n", &initialize_request()).await.0, 401);
    let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(server.post(&authorization, &initialize_request()).await.0, 200);
    assert_eq!(product.host.requests(), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_browser_page_is_refused_without_a_token() {
    let product = Product::new([]);
    let server = ListeningServer::start(&product, None).await;
    assert_eq!(server.post("Origin: http://localhost\r\n", &initialize_request()).await.0, 403);
    server.stop().await;
}

#[tokio::test]
async fn an_address_beyond_loopback_needs_a_token() {
    let product = Product::new([]);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let served = product.server.serve_http(listener, None, std::future::pending()).await;
    assert!(served.unwrap_err().to_string().contains("token"));
}

/// Creates a session over a WebSocket.
async fn session(product: &Product, socket: &mut WebSocketStream<TcpStream>) -> String {
    send(socket, &initialize_request()).await;
    let params = json!({ "cwd": product.cwd(), "mcpServers": [] });
    send(socket, &json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params }))
        .await;
    let (made, _) = read_until(socket, |message| message["id"] == 2).await;
    made["result"]["sessionId"].as_str().unwrap().to_owned()
}

fn prompt(session: &str) -> Value {
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params })
}

#[tokio::test]
async fn a_client_that_reads_its_websocket_late_gets_everything() {
    let product = Product::new(many_steps());
    std::fs::write(product.cwd().join("a.txt"), "a").unwrap();
    let server = ListeningServer::start(&product, None).await;
    let mut socket = server.socket().await;
    let session = session(&product, &mut socket).await;
    send(&mut socket, &prompt(&session)).await;
    wait_for_all_steps(&product).await;
    let (end, updates) = read_until(&mut socket, |message| message["id"] == 3).await;
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert_eq!(message_text(&updates), all_text());
    assert!(updates.len() > 300, "more than may wait: {}", updates.len());
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_its_events_late_gets_everything() {
    let product = Product::new(many_steps());
    std::fs::write(product.cwd().join("a.txt"), "a").unwrap();
    let server = ListeningServer::start(&product, None).await;
    let (session, session_headers) = server.session(&product).await;
    server.post(&session_headers, &prompt(&session)).await;
    wait_for_all_steps(&product).await;
    let mut events = server.events(&session_headers).await;
    let (end, updates) = updates_until(&mut events, 3).await;
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert_eq!(message_text(&updates), all_text());
    assert!(updates.len() > 300, "more than may wait: {}", updates.len());
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_could_not_be_closed_is_replayed_in_full_on_its_open_stream() {
    let product = Product::new(many_steps());
    std::fs::write(product.cwd().join("a.txt"), "a").unwrap();
    let server = ListeningServer::start(&product, None).await;
    let (session, session_headers) = server.session(&product).await;
    let mut events = server.events(&session_headers).await;
    server.post(&session_headers, &prompt(&session)).await;
    until(&mut events, |message| message["id"] == 3).await;
    product.host.close(&SessionId::new(session.as_str())).await.unwrap();
    let params = json!({ "sessionId": session });
    let close = json!({ "jsonrpc": "2.0", "id": 4, "method": "session/close", "params": params });
    server.post(&session_headers, &close).await;
    let refused = until(&mut events, |message| message["id"] == 4).await;
    assert!(refused["error"].is_object(), "{refused}");
    let params = json!({ "sessionId": session, "cwd": product.cwd(), "mcpServers": [] });
    let load = json!({ "jsonrpc": "2.0", "id": 5, "method": "session/load", "params": params });
    server.post(&session_headers, &load).await;
    let (loaded, updates) = updates_until(&mut events, 5).await;
    assert!(loaded["result"].is_object(), "{loaded}");
    assert_eq!(message_text(&updates), all_text());
    server.stop().await;
}

#[tokio::test]
async fn a_binary_websocket_message_is_answered_and_the_next_one_is_read() {
    let product = Product::new([]);
    let server = ListeningServer::start(&product, None).await;
    let mut socket = server.socket().await;
    send(&mut socket, &initialize_request()).await;
    read_until(&mut socket, |message| message["id"] == 1).await;
    socket.send(Message::binary(vec![0, 1, 2])).await.unwrap();
    socket.send(Message::text("no json")).await.unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {} });
    send(&mut socket, &list).await;
    let (listed, errors) = read_until(&mut socket, |message| message["id"] == 2).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
    assert_eq!(errors.len(), 2, "both are answered");
    server.stop().await;
}

#[tokio::test]
async fn a_browser_page_cannot_open_a_websocket_without_a_token() {
    let product = Product::new([]);
    let server = ListeningServer::start(&product, None).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let url = format!("ws://{}/acp", server.address);
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("origin", "http://localhost".parse().unwrap());
    let refused = client_async(request, stream).await.unwrap_err().to_string();
    assert!(refused.contains("403"), "{refused}");
    server.stop().await;
}
