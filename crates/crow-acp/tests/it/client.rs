//! A client that sends lines of JSON, and the product that it talks to.

use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_acp::{AcpIdentity, AcpServer};
use crow_core::{
    capability::{
        Http, HttpError, HttpRequest, HttpResponse, PipedProcess, PipedProcesses, PipedSpec,
        ProcessError,
    },
    mcp::McpServerConfig,
    tool::{ToolRegistry, ToolSource},
};
use crow_mcp::{ConnectionContext, McpSettings, McpTools};
use crow_runtime::{FileStore, HandleAnswerer, RuntimeConfig, SandboxConfig};
use crow_testkit::{
    host::ScriptedHost,
    scripted::{Play, ScriptedModel},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf,
    },
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Time limit for a message that is sent at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A product with a scripted model, and folders of its own.
pub(crate) struct Product {
    pub(crate) host: Arc<ScriptedHost>,
    pub(crate) model: ScriptedModel,
    pub(crate) server: AcpServer,
    folder: TempDir,
}

impl Product {
    pub(crate) fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::with(plays, |_| None)
    }

    /// Creates a product whose commands run in a sandbox.
    pub(crate) fn in_sandbox(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::with(plays, |folder| Some(SandboxConfig::new(folder.join("sandbox"))))
    }

    fn with(
        plays: impl IntoIterator<Item = Play>,
        sandbox: impl FnOnce(&std::path::Path) -> Option<SandboxConfig>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = ScriptedModel::new(plays);
        let mut tools = ToolRegistry::new();
        crow_tools::register_builtin(&mut tools);
        let config = RuntimeConfig {
            answerer: Arc::new(HandleAnswerer),
            store: Arc::new(FileStore::new(folder.path().join("sessions"))),
            sandbox: sandbox(folder.path()),
            ..RuntimeConfig::default()
        };
        let host = ScriptedHost::new(model.clone(), tools, config).with_servers(client_servers);
        let host = Arc::new(host);
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let identity = AcpIdentity {
            name: "crow-agent".to_owned(),
            title: "Crow".to_owned(),
            version: "0.0.0".to_owned(),
            ..AcpIdentity::default()
        };
        let server = AcpServer::new(Arc::clone(&host) as _, identity);
        Self { host, model, server, folder }
    }

    /// Returns the working directory of sessions.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().join("project").canonicalize().unwrap()
    }

    /// Connects a client. `buffer` is the capacity of the pipe in bytes.
    pub(crate) fn connect_with(&self, buffer: usize) -> Client {
        let (ours, theirs) = tokio::io::duplex(buffer);
        let (incoming, outgoing) = tokio::io::split(theirs);
        let server = self.server.clone();
        let mut server_task = JoinSet::new();
        server_task.spawn(async move {
            server.serve(incoming, outgoing, std::future::pending()).await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        let lines = BufReader::new(read).lines();
        let inbox = VecDeque::new();
        let cwd = self.cwd();
        Client { write: Some(write), lines, server_task, next_id: 0, inbox, cwd, check: |_| {} }
    }

    /// Connects a client and sends `initialize`.
    pub(crate) async fn connect(&self) -> Client {
        let mut client = self.connect_with(1 << 20);
        client.initialize(json!({})).await;
        client
    }
}

/// Returns the tools of the MCP servers that the client of a session serves. Other servers cannot be reached.
fn client_servers(servers: Vec<McpServerConfig>) -> Arc<dyn ToolSource> {
    let (processes, http) = (Arc::new(Unreachable), Arc::new(Unreachable));
    let outside = ConnectionContext {
        processes,
        http,
        roots: vec!["/p".into()],
        logins: None,
        browser: None,
    };
    let settings = servers.into_iter().map(McpSettings::from).collect();
    Arc::new(McpTools::new(settings, None, outside))
}

#[derive(Debug)]
struct Unreachable;

#[async_trait]
impl PipedProcesses for Unreachable {
    async fn start(
        &self,
        _spec: PipedSpec,
        _cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        Err(ProcessError::Unavailable)
    }
}

#[async_trait]
impl Http for Unreachable {
    async fn send(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::Connect("nobody is there".to_owned()))
    }
}

/// The client's end of a connection.
pub(crate) struct Client {
    write: Option<WriteHalf<DuplexStream>>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server_task: JoinSet<()>,
    next_id: u64,
    /// Messages that arrived and were not awaited yet, oldest first.
    pub(crate) inbox: VecDeque<Value>,
    cwd: PathBuf,
    /// Check that every message must pass.
    pub(crate) check: fn(&Value),
}

impl Client {
    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        self.request("initialize", params).await
    }

    /// Creates a session and returns its id.
    pub(crate) async fn session(&mut self) -> String {
        let params = json!({ "cwd": self.cwd, "mcpServers": [] });
        let made = self.request("session/new", params).await;
        made["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Sends a prompt and waits for its response.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.begin_prompt(session, text).await;
        self.answer(id).await
    }

    /// Sends a prompt and returns the id of its request.
    pub(crate) async fn begin_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.begin("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// Sends a request and returns its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(&message.to_string()).await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send_line(&message.to_string()).await;
    }

    /// Sends a prompt and right after it, in the same write, a cancel of its session. Returns the prompt's id.
    pub(crate) async fn begin_prompt_and_cancel(&mut self, session: &str, text: &str) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let content = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": content });
        let prompt =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
        let params = json!({ "sessionId": session });
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        self.send_line(&format!("{prompt}\n{cancel}")).await;
        id
    }

    pub(crate) async fn respond(&mut self, id: &Value, result: Value) {
        self.send_line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        let write = self.write.as_mut().unwrap();
        write.write_all(line.as_bytes()).await.unwrap();
        write.write_all(b"\n").await.unwrap();
    }

    /// Waits for the response to a request. Other messages stay in the inbox.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// Waits for a request of the agent.
    pub(crate) async fn await_request(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method && message.get("id").is_some()).await
    }

    /// Waits for an update of a kind.
    pub(crate) async fn await_update(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["update"]["sessionUpdate"] == kind).await
    }

    /// Waits for a message that matches. Those before it stay in the inbox.
    pub(crate) async fn until(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.inbox.iter().position(&matches) {
            return self.inbox.remove(index).unwrap();
        }
        loop {
            let message = self.next().await.expect("the agent has gone");
            if matches(&message) {
                return message;
            }
            self.inbox.push_back(message);
        }
    }

    /// Returns the next message.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(ANSWER_TIMEOUT, self.lines.next_line()).await;
        let line = line.expect("nothing comes").unwrap()?;
        let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (self.check)(&message);
        Some(message)
    }

    /// Takes the updates out of the inbox.
    pub(crate) fn updates(&mut self) -> Vec<Value> {
        let updates = self.inbox.iter().filter(|message| message["method"] == "session/update");
        let updates = updates.map(|message| message["params"]["update"].clone()).collect();
        self.inbox.retain(|message| message["method"] != "session/update");
        updates
    }

    /// Closes the connection, and waits until the server has ended it.
    pub(crate) async fn disconnect(mut self) {
        drop(self.write.take().map(|mut write| async move { write.shutdown().await }));
        drop(self.lines);
        let ended =
            timeout(ANSWER_TIMEOUT, self.server_task.join_next()).await.expect("the agent stays");
        ended.unwrap().unwrap();
    }
}

/// Returns the text of message chunks.
pub(crate) fn message_text(updates: &[Value]) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|update| update["content"]["text"].as_str().unwrap()).collect()
}
