//! The memory of long conversations, with the HTTP client and the store of the product.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use crow_agent::{AgentConfig, BaseAgent};
use crow_core::{
    event::InputSource,
    message::Block,
    model::{Abilities, ModelInfo, ResolvedModel, ToolCallFormat},
    tool::{CallPlan, Tool, ToolCategory, ToolContext, ToolRegistry, ToolResult},
    turn::TurnLimits,
};
use crow_providers::{ChatVariant, Dialect, Endpoint, HttpClient, HttpProvider};
use crow_runtime::{AgentRuntime, AgentSession, FileStore, RuntimeConfig, SessionSpec};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use crate::{proc::Proc, table::TableRow};

/// The argument that turns the benchmark into the conversation that is sent whole.
pub(crate) const WHOLE_MODE: &str = "--whole-conversation";
/// The same for the one that is compacted.
pub(crate) const COMPACTED_MODE: &str = "--compacted-conversation";
/// Bytes of a result.
const RESULT: usize = 20_000;
/// Steps before a mark of which the one with the least memory counts: in between, requests and replies are in memory as well.
const SAMPLES: usize = 20;
/// Steps of the conversation that is sent whole, and the step from which on its memory is measured.
const WHOLE: (usize, usize) = (50, 250);
/// The same of the conversation that is compacted. By the first of them, it was compacted several times; over fewer steps, the
/// room that the allocator happens to keep is a third of the result.
const COMPACTED: (usize, usize) = (1_000, 5_000);
/// Window of the model of the second one, in tokens.
const WINDOW: u64 = 32_000;
/// What a request for a summary says, and no other.
const NO_CALLS: &[u8] = br#""tool_choice":"none""#;

/// The memory of the process at a step in bytes, and the length of the last request.
#[derive(Debug, Clone, Copy)]
struct MemorySample {
    pss: f64,
    sent: usize,
}

/// Returns a text of about 20 kB, and samples the memory at the steps before two marks.
struct ReadTool {
    marks: (usize, usize),
    sent: Arc<AtomicUsize>,
    samples: Arc<Mutex<Vec<MemorySample>>>,
}

#[async_trait]
impl Tool for ReadTool {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Reads a file."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Read
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(&self, input: Value, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        let number = usize::try_from(input["n"].as_u64().unwrap()).unwrap();
        let is_sampled = |mark: usize| (mark - SAMPLES..mark).contains(&number);
        if is_sampled(self.marks.0) || is_sampled(self.marks.1) {
            let pss = Proc::new(std::process::id()).pss_mb() * 1024.0 * 1024.0;
            let sent = self.sent.load(Ordering::Relaxed);
            self.samples.lock().unwrap().push(MemorySample { pss, sent });
        }
        let line = format!("line of the file number {number}\n");
        ToolResult::success(line.repeat(RESULT / line.len()))
    }
}

/// Calls a tool in every reply until the last step. Keeps nothing of the requests, which are read in small pieces.
async fn serve(listener: TcpListener, steps: usize, sent: Arc<AtomicUsize>) {
    let mut step = 0;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // One connection at a time: the next one is only made if this one was closed.
        let mut stream = BufReader::new(stream);
        while let Some((length, is_summary)) = read_request(&mut stream).await {
            let delta = if is_summary {
                json!({"content": "The files that were read so far are in order."})
            } else {
                sent.store(length, Ordering::Relaxed);
                step += 1;
                let arguments = format!("{{\"n\": {step}}}");
                let function = json!({"name": "read", "arguments": arguments});
                let call = json!({"index": 0, "id": format!("call_{step}"), "type": "function", "function": function});
                if step > steps {
                    json!({"content": "done"})
                } else {
                    json!({"tool_calls": [call]})
                }
            };
            answer(stream.get_mut(), &delta).await;
        }
    }
}

/// Reads a request. Returns its length, and whether it asks for a summary.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(usize, bool)> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut piece = [0; 8192];
    let (mut left, mut kept, mut is_summary) = (length, 0, false);
    while left > 0 {
        let most = left.min(piece.len() - kept);
        let read = stream.read(&mut piece[kept..kept + most]).await.ok()?;
        left -= read;
        let end = kept + read;
        is_summary |= piece[..end].windows(NO_CALLS.len()).any(|window| window == NO_CALLS);
        // The text that is searched may lie across two pieces.
        kept = end.min(NO_CALLS.len());
        piece.copy_within(end - kept..end, 0);
    }
    Some((length, is_summary))
}

async fn answer(stream: &mut TcpStream, delta: &Value) {
    let stop = if delta.get("content").is_some() { "stop" } else { "tool_calls" };
    let first = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]});
    let body = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
}

fn model(address: SocketAddr, window: u64) -> ResolvedModel {
    let endpoint = Endpoint {
        provider: "bench".to_owned(),
        dialect: Dialect::OpenAiChat(ChatVariant::COMPATIBLE),
        base_url: format!("http://{address}/v1"),
        key: None,
        headers: Vec::new(),
    };
    let info = ModelInfo {
        reference: "bench/model".parse().unwrap(),
        context_window: Some(window),
        max_output_tokens: Some(4_000),
        abilities: Abilities::default(),
        tool_calls: Some(ToolCallFormat::Native),
    };
    let provider = HttpProvider::new(endpoint, HttpClient::default()).unwrap();
    ResolvedModel { provider: Arc::new(provider), info, warning: None }
}

/// Measures the memory of a run at two marks.
async fn sample(window: u64, marks: (usize, usize)) -> [MemorySample; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(serve(listener, marks.1, Arc::clone(&sent)));
    let samples = Arc::new(Mutex::new(Vec::new()));
    let mut tools = ToolRegistry::new();
    tools.register_shared(Arc::new(ReadTool { marks, sent, samples: Arc::clone(&samples) }));
    let limits = TurnLimits { max_steps: 10_000, ..TurnLimits::default() };
    let config = AgentConfig { limits, ..AgentConfig::default() };
    let agent = BaseAgent::new("reader", config, model(address, window), tools);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path()));
    let runtime = AgentRuntime::new(RuntimeConfig { store, ..RuntimeConfig::default() });
    let spec = SessionSpec::new("reader", "bench/model".parse().unwrap(), "/");
    let session = AgentSession::create(runtime.config(), spec).unwrap();
    let handle = runtime.spawn(session, move |mut internals| async move {
        let prompt = vec![Block::text("Read all files.")];
        internals.add_input(InputSource::Prompt, None, prompt).await?;
        agent.execute_turn(&mut internals, &CancellationToken::new()).await?;
        Ok(())
    });
    // A queue that nobody reads would hold events, and the outputs in them.
    let mut events = handle.stream().unwrap();
    while events.next().await.is_some() {}
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    server.abort();
    let samples = samples.lock().unwrap();
    assert_eq!(samples.len(), 2 * SAMPLES, "the turn ended early");
    let least = |samples: &[MemorySample]| {
        *samples.iter().min_by(|one, other| one.pss.total_cmp(&other.pss)).unwrap()
    };
    [least(&samples[..SAMPLES]), least(&samples[SAMPLES..])]
}

/// Measures one conversation in a process of its own, where nothing that others freed is taken again.
fn in_own_process(mode: &str) -> [MemorySample; 2] {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg(mode).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let numbers: Vec<&str> = printed.split_whitespace().collect();
    let sample = |at: usize| MemorySample {
        pss: numbers[at].parse().unwrap(),
        sent: numbers[at + 1].parse().unwrap(),
    };
    [sample(0), sample(2)]
}

/// Returns what a process with this argument prints.
pub(crate) async fn run(mode: &str) -> String {
    let samples = match mode {
        WHOLE_MODE => sample(100_000_000, WHOLE).await,
        _ => sample(WINDOW, COMPACTED).await,
    };
    let numbers = samples.map(|sample| format!("{} {}", sample.pss, sample.sent));
    numbers.join(" ")
}

pub(crate) fn all() -> [TableRow; 2] {
    let [first, last] = in_own_process(COMPACTED_MODE);
    let per_step = (last.pss - first.pss) / (COMPACTED.1 - COMPACTED.0) as f64;
    let compacted = TableRow {
        what: "memory (PSS) per step of a conversation that is compacted, 4,000 steps with a window of 32k tokens",
        bound: "≤ 1 kB",
        ours: format!("{:.2} kB, {:.0} kB sent", per_step / 1e3, last.sent as f64 / 1e3),
        reference: "–".to_owned(),
    };
    let [first, last] = in_own_process(WHOLE_MODE);
    // What a step takes besides is counted above.
    let besides = per_step * (WHOLE.1 - WHOLE.0) as f64;
    let per_byte = (last.pss - first.pss - besides) / (last.sent - first.sent) as f64;
    let whole = TableRow {
        what: "memory (PSS) per byte of conversation that is sent, 200 steps with results of 20 kB",
        bound: "≤ 2 bytes",
        ours: format!("{per_byte:.2} bytes of {:.1} MB", last.sent as f64 / 1e6),
        reference: "–".to_owned(),
    };
    [whole, compacted]
}
