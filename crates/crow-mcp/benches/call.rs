//! Measures what the client adds to a call of a server's tool: the same server, a process behind pipes, is called by the
//! client and by a bare loop that writes a line and reads one.
//!
//! `cargo bench -p crow-mcp --bench call` prints the median of calls, in turn by both, for a short and a long answer.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, starts its server, prints, and fails loudly"
)]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::{
    capability::{
        Http, HttpError, HttpRequest, HttpResponse, PipedProcess, PipedProcesses, PipedSpec,
        ProcessEnd, ProcessError,
    },
    mcp::{McpServerConfig, McpTransport},
    tool::{Tool, ToolContext, ToolSource as _, ToolStatus},
    workspace::Workspace,
};
use crow_mcp::{ConnectionContext, McpSettings, McpTools};
use crow_testkit::tools::{agent_context, call, tool_context};
use serde_json::{Value, json};
use tokio_util::{
    compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _},
    sync::CancellationToken,
};

const ROUNDS: usize = 500;
/// The argument that makes this program the server.
const SERVE: &str = "serve-tools";

/// Answers requests, one a line, until standard input ends.
fn serve() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |path: &str| request.pointer(path).and_then(Value::as_str);
        let result = match text("/method") {
            Some("initialize") => json!({
                "protocolVersion": text("/params/protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{
                "name": "repeat",
                "description": "Answers with a text of this length.",
                "inputSchema": {"type": "object", "properties": {"length": {"type": "integer"}}},
            }]}),
            Some("tools/call") => {
                let length = request.pointer("/params/arguments/length").and_then(Value::as_u64);
                let said =
                    "a b c d e f g h\n".repeat(usize::try_from(length.unwrap()).unwrap() / 16);
                json!({"content": [{"type": "text", "text": said}]})
            }
            // Notifications have no answer.
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": request.get("id"), "result": result});
        out.write_all(format!("{answer}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// Starts the server as a process.
#[derive(Debug)]
struct BenchProcesses;

#[async_trait]
impl PipedProcesses for BenchProcesses {
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        let mut command = tokio::process::Command::new(&spec.argv[0]);
        command.args(&spec.argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        Ok(PipedProcess {
            input: Box::new(child.stdin.take().unwrap().compat_write()),
            output: Box::new(child.stdout.take().unwrap().compat()),
            end: Box::pin(async move {
                tokio::select! {
                    () = cancellation.cancelled() => {
                        child.kill().await.unwrap();
                        Ok(ProcessEnd::Cancelled)
                    }
                    status = child.wait() => Ok(ProcessEnd::Exited(status.unwrap().code().unwrap())),
                }
            }),
        })
    }
}

/// No server of this benchmark is reached over HTTP.
#[derive(Debug)]
struct NoHttp;

#[async_trait]
impl Http for NoHttp {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::Connect("there is no network here".to_owned()))
    }
}

/// The reference: writes a line, reads a line and parses it.
struct BareLoop {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BareLoop {
    fn start(program: &str) -> Self {
        let mut command = Command::new(program);
        command.arg(SERVE).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    fn call(&mut self, length: usize) -> usize {
        let params = json!({"name": "repeat", "arguments": {"length": length}});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.input.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        answer.pointer("/result/content/0/text").and_then(Value::as_str).unwrap().len()
    }
}

fn main() {
    if std::env::args().any(|argument| argument == SERVE) {
        return serve();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(compare());
}

async fn compare() {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let server = McpServerConfig {
        name: "bench".to_owned(),
        transport: McpTransport::Stdio {
            command: program.clone(),
            args: vec![SERVE.to_owned()],
            env: BTreeMap::new(),
            cwd: None,
        },
    };
    let outside = ConnectionContext {
        processes: Arc::new(BenchProcesses),
        http: Arc::new(NoHttp),
        roots: vec![PathBuf::from("/example")],
        logins: None,
        browser: None,
    };
    let source = McpTools::new(vec![McpSettings::from(server)], None, outside);
    source.ready(&CancellationToken::new()).await;
    let tools = source.tools().tools;
    let ctx = tool_context(agent_context(Workspace::new("/example")));
    let mut bare = BareLoop::start(&program);
    println!("{:>12} {:>12} {:>12} {:>12}", "answer", "client", "bare loop", "added");
    for length in [16, 10_000] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let started = Instant::now();
            call_once(tools[0].as_ref(), length, &ctx).await;
            ours.push(started.elapsed());
            let started = Instant::now();
            assert_eq!(bare.call(length), length / 16 * 16);
            theirs.push(started.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let added = ours.saturating_sub(theirs);
        let ms = |time: Duration| format!("{:.3} ms", time.as_micros() as f64 / 1000.0);
        let answer = format!("{length} B");
        println!("{answer:>12} {:>12} {:>12} {:>12}", ms(ours), ms(theirs), ms(added));
    }
    source.close().await;
    bare.process.kill().unwrap();
    bare.process.wait().unwrap();
}

async fn call_once(tool: &dyn Tool, length: usize, ctx: &ToolContext) {
    let result = call(tool, json!({"length": length}), ctx).await;
    assert_eq!(result.status, ToolStatus::Success, "{}", result.output);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
