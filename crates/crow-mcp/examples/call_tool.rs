//! Connects to a server of the Model Context Protocol, lists its tools and calls one.
//!
//! The crate starts no process itself: here the "process" is a task that speaks the protocol over a pipe in memory. A product
//! gives the processes of its runtime in its place. `cargo run -p crow-mcp --example call_tool`

use std::{collections::BTreeMap, error::Error, io, io::Write as _, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_core::{
    capability::{
        Http, HttpError, HttpRequest, HttpResponse, PipedProcess, PipedProcesses, PipedSpec,
        ProcessEnd, ProcessError,
    },
    mcp::{McpServerConfig, McpTransport},
    tool::ToolSource as _,
    workspace::Workspace,
};
use crow_mcp::{ConnectionContext, McpSettings, McpTools};
use crow_testkit::tools::{agent_context, call, tool_context};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio_util::{
    compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _},
    sync::CancellationToken,
};

/// Starts the server below, whatever program is asked for.
#[derive(Debug)]
struct InMemory;

#[async_trait]
impl PipedProcesses for InMemory {
    async fn start(
        &self,
        _spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(ours);
        Ok(PipedProcess {
            input: Box::new(write.compat_write()),
            output: Box::new(read.compat()),
            end: Box::pin(async move {
                tokio::select! {
                    () = cancellation.cancelled() => Ok(ProcessEnd::Cancelled),
                    _ = serve(theirs) => Ok(ProcessEnd::Exited(0)),
                }
            }),
        })
    }
}

/// A server with one tool, at the level of JSON-RPC.
async fn serve(pipe: DuplexStream) -> io::Result<()> {
    let (read, mut write) = tokio::io::split(pipe);
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let request: Value = serde_json::from_str(&line)?;
        let text = |path: &str| request.pointer(path).and_then(Value::as_str);
        let result = match text("/method") {
            Some("initialize") => json!({
                "protocolVersion": text("/params/protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "birds", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{
                "name": "call_of",
                "description": "Says what a bird says.",
                "inputSchema": {"type": "object", "properties": {"bird": {"type": "string"}}},
            }]}),
            Some("tools/call") => {
                let bird = text("/params/arguments/bird").unwrap_or("bird");
                let said = format!("the {bird} says: caw");
                json!({"content": [{"type": "text", "text": said}]})
            }
            // Notifications have no answer.
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": request.get("id"), "result": result});
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

/// No server of this example is reached over HTTP.
#[derive(Debug)]
struct NoHttp;

#[async_trait]
impl Http for NoHttp {
    async fn send(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::Connect("there is no network here".to_owned()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = McpServerConfig {
        name: "birds".to_owned(),
        transport: McpTransport::Stdio {
            command: "birds".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        },
    };
    let outside = ConnectionContext {
        processes: Arc::new(InMemory),
        http: Arc::new(NoHttp),
        roots: vec![PathBuf::from("/example")],
        logins: None,
        browser: None,
    };
    let source = McpTools::new(vec![McpSettings::from(server)], None, outside);
    source.ready(&CancellationToken::new()).await;
    let ctx = tool_context(agent_context(Workspace::new("/example")));
    let mut out = io::stdout().lock();
    for tool in source.tools().tools.iter() {
        writeln!(out, "{}: {}", tool.name(), tool.description())?;
        let result = call(tool.as_ref(), json!({"bird": "crow"}), &ctx).await;
        writeln!(out, "  {}", result.output)?;
    }
    source.close().await;
    Ok(())
}
