//! How fast a run with a process under way stops.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::{
    capability::{OutputLimits, ProcessSpec},
    event::AgentEvent,
    tool::{
        CallPlan, Effects, Progress, Subject, Tool, ToolCategory, ToolContext, ToolError,
        ToolRegistry, ToolResult,
    },
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply},
};
use serde_json::{Value, json};

use crate::table::TableRow;

const TIMES: usize = 10;
/// Says its number, which is that of its group, and stays.
const SLEEP: &str = "echo $$ > pid.new; mv pid.new pid; sleep 100; true";
/// The same, and does not end when it is asked to.
const DEAF: &str = "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 100; done";

/// Runs a command line.
struct Shell;

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn description(&self) -> &'static str {
        "Runs a command line."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Execute
    }

    async fn plan(&self, _input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = "shell".to_owned();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let line = input["line"].as_str().unwrap().to_owned();
        let spec = ProcessSpec {
            argv: vec!["sh".to_owned(), "-c".to_owned(), line],
            cwd: ctx.workspace.cwd().to_path_buf(),
            env: BTreeMap::new(),
            timeout: Duration::from_mins(1),
            output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
            progress: Progress::default(),
            only_reads: false,
        };
        ctx.processes.run(spec, ctx.cancellation.clone()).await.unwrap();
        ToolResult::cancelled()
    }
}

pub(crate) async fn all() -> Vec<TableRow> {
    let (mut told, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let (first, second) = interrupt(SLEEP).await;
        told.push(first);
        gone.push(second);
    }
    let (deaf_told, deaf_gone) = interrupt(DEAF).await;
    told.push(deaf_told);
    let killed: Vec<_> = (0..TIMES).map(|_| killed(SLEEP)).collect();
    let row = |what, bound, ours, reference| TableRow { what, bound, ours, reference };
    vec![
        row(
            "interrupt to the listener's word of it, worst",
            "≤ 50 ms",
            worst(&told),
            "–".to_owned(),
        ),
        row("interrupt until no process is left, worst", "≤ 2 s", worst(&gone), worst(&killed)),
        row(
            "the same for a command that ignores TERM",
            "≤ 2 s",
            worst(&[deaf_gone]),
            worst(&[killed_deaf()]),
        ),
    ]
}

async fn interrupt(line: &str) -> (Duration, Duration) {
    let model = ScriptedModel::new([reply([call("c1", "shell", json!({"line": line}))])]);
    let mut tools = ToolRegistry::new();
    tools.register(Shell);
    let mut agent = AgentHarness::start(model, HarnessOptions { tools, ..Default::default() });
    agent.handle.send_input(Vec::new()).unwrap();
    agent.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    let pid = agent.cwd().join("pid");
    while !pid.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let group = fs::read_to_string(pid).unwrap().trim().to_owned();
    assert!(is_alive(&group));
    let started = Instant::now();
    agent.handle.interrupt();
    agent.until(|event| matches!(event, AgentEvent::Cancelling)).await;
    let told = started.elapsed();
    while is_alive(&group) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let gone = started.elapsed();
    agent.runtime.shutdown_all(Duration::from_secs(5)).await;
    (told, gone)
}

/// Kills a command at once, and waits for it.
fn killed(line: &str) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sh");
    let exec = line.replace("sleep 100; true", "exec sleep 100");
    let mut child = command.args(["-c", &exec]).current_dir(folder.path()).spawn().unwrap();
    while !folder.path().join("pid").exists() {
        std::thread::yield_now();
    }
    let started = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    started.elapsed()
}

fn killed_deaf() -> Duration {
    killed("trap '' TERM; echo $$ > pid; exec sleep 100")
}

/// Whether a process of that group is left, as the kernel says.
fn is_alive(group: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok()).any(
        |stat| {
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            let mut fields = fields.split(' ');
            let is_zombie = fields.next() == Some("Z");
            !is_zombie && fields.nth(1) == Some(group)
        },
    )
}

fn worst(times: &[Duration]) -> String {
    let worst = times.iter().max().unwrap();
    format!("{:.2} ms", worst.as_secs_f64() * 1e3)
}
