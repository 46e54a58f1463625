//! Servers that tests script at the level of bytes.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{
        Http, HttpError, HttpRequest, HttpResponse, PipedProcess, PipedProcesses, PipedSpec,
        ProcessEnd, ProcessError,
    },
    mcp::{McpServerConfig, McpTransport},
    tool::{AgentContext, Tool, ToolContext, ToolResult, ToolSource as _},
    workspace::Workspace,
};
use crow_mcp::{ConnectionContext, McpSettings, McpTools, SchemaCache, UserBrowser};
pub(crate) use crow_testkit::tools::call;
use crow_testkit::tools::{agent_context, tool_context};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio_util::{
    compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _},
    sync::CancellationToken,
};

/// A server's end of its pipes.
pub(crate) struct Io {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
    pub(crate) spec: PipedSpec,
}

impl Io {
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Reads up to a message with this method.
    pub(crate) async fn read_method(&mut self, method: &str) -> Option<Value> {
        loop {
            let message = self.read().await?;
            if message["method"] == method {
                return Some(message);
            }
        }
    }

    /// Reads a message; `None` if `is_done`.
    pub(crate) async fn read_unless(&mut self, is_done: bool) -> Option<Value> {
        if is_done { None } else { self.read().await }
    }

    pub(crate) async fn write_raw(&mut self, bytes: &[u8]) -> bool {
        self.out.write_all(bytes).await.is_ok()
    }

    pub(crate) async fn write(&mut self, message: Value) -> bool {
        self.write_raw(format!("{message}\n").as_bytes()).await
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) -> bool {
        self.write(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await
    }

    /// Answers the handshake.
    pub(crate) async fn handshake(&mut self) {
        let hello = self.read_method("initialize").await.unwrap();
        let version = hello["params"]["protocolVersion"].clone();
        let result = json!({
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fake", "version": "1"},
        });
        self.answer(&hello, result).await;
        self.read_method("notifications/initialized").await.unwrap();
    }

    /// Answers the handshake, and lists these tools on request.
    pub(crate) async fn offer(&mut self, tools: &Value) {
        self.handshake().await;
        let request = self.read_method("tools/list").await.unwrap();
        self.answer(&request, json!({"tools": tools})).await;
    }

    /// Returns the next call.
    pub(crate) async fn call(&mut self) -> Option<Value> {
        self.read_method("tools/call").await
    }

    /// Answers each call with its arguments.
    pub(crate) async fn echo(&mut self) {
        while let Some(call) = self.call().await {
            let text = call["params"]["arguments"].to_string();
            self.answer(&call, text_result(&text)).await;
        }
    }
}

pub(crate) fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}})
}

type Script = dyn Fn(usize, Io) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// Programs that a test scripts.
#[derive(Clone)]
pub(crate) struct Fakes {
    scripts: Arc<BTreeMap<String, Box<Script>>>,
    pub(crate) started: Arc<AtomicUsize>,
}

impl Fakes {
    pub(crate) fn none() -> Self {
        Self { scripts: Arc::default(), started: Arc::default() }
    }
}

impl fmt::Debug for Fakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fakes")
    }
}

#[async_trait]
impl PipedProcesses for Fakes {
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        let program = spec.argv[0].clone();
        let Some(script) = self.scripts.get(&program) else {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(ProcessError::Start { program, source });
        };
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, out) = tokio::io::split(theirs);
        let io = Io { lines: BufReader::new(read).lines(), out, spec };
        let script = script(number, io);
        let (read, write) = tokio::io::split(ours);
        Ok(PipedProcess {
            input: Box::new(write.compat_write()),
            output: Box::new(read.compat()),
            end: Box::pin(async move {
                tokio::select! {
                    () = cancellation.cancelled() => Ok(ProcessEnd::Cancelled),
                    () = script => Ok(ProcessEnd::Exited(7)),
                }
            }),
        })
    }
}

/// HTTP without any server.
#[derive(Debug)]
pub(crate) struct NoHttp;

#[async_trait]
impl Http for NoHttp {
    async fn send(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::Connect("nobody is there".to_owned()))
    }
}

/// Servers of a test: scripts, settings and an optional cache of tools.
#[derive(Default)]
pub(crate) struct Servers {
    scripts: BTreeMap<String, Box<Script>>,
    pub(crate) settings: Vec<McpSettings>,
    pub(crate) cache: Option<SchemaCache>,
    browser: Option<Arc<dyn UserBrowser>>,
}

impl Servers {
    /// Lets servers ask a user, whose browser this is.
    pub(crate) fn attended(mut self, browser: Arc<impl UserBrowser + 'static>) -> Self {
        self.browser = Some(browser);
        self
    }

    pub(crate) fn of<F, Fut>(name: &str, script: F) -> Self
    where
        F: Fn(usize, Io) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::default().and(name, script)
    }

    pub(crate) fn and<F, Fut>(mut self, name: &str, script: F) -> Self
    where
        F: Fn(usize, Io) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let script: Box<Script> = Box::new(move |number, io| Box::pin(script(number, io)));
        self.scripts.insert(name.to_owned(), script);
        self.named(name)
    }

    /// Adds the settings of a server. Without a script, its program does not exist.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.settings.push(stdio(name).into());
        self
    }

    pub(crate) fn cached_in(mut self, folder: &Path) -> Self {
        self.cache = Some(SchemaCache::new(folder));
        self
    }

    pub(crate) fn build(self) -> Session {
        let started = Arc::default();
        let fakes = Fakes { scripts: Arc::new(self.scripts), started: Arc::clone(&started) };
        let outside = ConnectionContext {
            processes: Arc::new(fakes),
            http: Arc::new(NoHttp),
            roots: vec!["/p/my project".into()],
            logins: None,
            browser: self.browser,
        };
        Session { tools: McpTools::new(self.settings, self.cache, outside), started }
    }

    /// Starts the servers and waits for their tools.
    pub(crate) async fn start(self) -> Session {
        let session = self.build();
        session.tools.ready(&CancellationToken::new()).await;
        session
    }
}

pub(crate) fn stdio(name: &str) -> McpServerConfig {
    McpServerConfig {
        name: name.to_owned(),
        transport: McpTransport::Stdio {
            command: name.to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        },
    }
}

/// A session with the tools of servers.
pub(crate) struct Session {
    pub(crate) tools: McpTools,
    pub(crate) started: Arc<AtomicUsize>,
}

impl Session {
    pub(crate) fn names(&self) -> Vec<String> {
        self.tools.tools().tools.iter().map(|tool| tool.name().to_owned()).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.tools.tools();
        let found = tools.tools.iter().find(|tool| tool.name() == name);
        Arc::clone(found.unwrap_or_else(|| panic!("no {name} in {tools:?}")))
    }

    pub(crate) fn starts(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    pub(crate) fn news(&self) -> Vec<String> {
        self.tools.take_notices().into_iter().map(|news| news.text).collect()
    }

    /// Calls a tool as the pipeline would.
    pub(crate) async fn call(&self, name: &str, input: Value) -> ToolResult {
        call(self.tool(name).as_ref(), input, &context()).await
    }

    /// Waits until the tools have a later revision.
    pub(crate) async fn wait_for_change(&self, revision: u64) {
        let mut changes = self.tools.changes();
        let change = changes.wait_for(|now| *now > revision);
        tokio::time::timeout(Duration::from_secs(30), change).await.unwrap().unwrap();
    }

    pub(crate) fn revision(&self) -> u64 {
        self.tools.tools().revision
    }
}

pub(crate) fn context() -> ToolContext {
    tool_context(AgentContext {
        agent_name: "builder".into(),
        ..agent_context(Workspace::new("/p"))
    })
}
