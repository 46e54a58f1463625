//! Many agents that call many tools at once.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use crow_agent::{AgentConfig, BaseAgent};
use crow_core::{
    event::InputSource,
    message::Block,
    tool::{CallPlan, Tool, ToolCategory, ToolContext, ToolRegistry, ToolResult},
};
use crow_runtime::{AgentRuntime, AgentSession, RuntimeConfig, SessionSpec};
use crow_testkit::scripted::{ScriptedModel, call, reply, text};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::table::TableRow;

const AGENTS: usize = 50;
const TOOLS: usize = 20;

/// Returns its argument, after every other task had a turn.
struct EchoTool(String);

#[async_trait]
impl Tool for EchoTool {
    fn name(&self) -> &str {
        &self.0
    }

    fn description(&self) -> &'static str {
        "Returns what it is given."
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
        tokio::task::yield_now().await;
        ToolResult::success(input.to_string())
    }
}

/// An agent with 20 tools that calls each of them in its first reply.
fn agent(tools: &[Arc<EchoTool>]) -> BaseAgent {
    let calls =
        (0..TOOLS).map(|n| call(&format!("call_{n}"), &format!("echo_{n}"), json!({"n": n})));
    let model = ScriptedModel::new([reply(calls), reply([text("done")])]).resolved();
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_shared(Arc::clone(tool) as Arc<dyn Tool>);
    }
    BaseAgent::new("echo", AgentConfig::default(), model, registry)
}

/// Time from the first agent's start to the end of the last, in milliseconds, and the number of results.
async fn agents() -> (f64, usize) {
    let config = RuntimeConfig::default();
    let runtime = AgentRuntime::new(config.clone());
    let tools: Vec<_> = (0..TOOLS).map(|n| Arc::new(EchoTool(format!("echo_{n}")))).collect();
    let agents: Vec<_> = (0..AGENTS).map(|_| agent(&tools)).collect();
    let started = Instant::now();
    let mut handles = Vec::new();
    for agent in agents {
        let spec = SessionSpec::new("bench", "scripted/model".parse().unwrap(), "/");
        let session = AgentSession::create(&config, spec).unwrap();
        handles.push(runtime.spawn(session, move |mut internals| async move {
            let prompt = vec![Block::text("Call all of them.")];
            internals.add_input(InputSource::Prompt, None, prompt).await?;
            agent.execute_turn(&mut internals, &CancellationToken::new()).await?;
            Ok(())
        }));
    }
    let mut results = 0;
    for handle in handles {
        assert_eq!(handle.wait_for_end().await.result, Ok(()));
        results += handle.history().unwrap().results().count();
    }
    (started.elapsed().as_secs_f64() * 1e3, results)
}

/// The same number of calls as bare tasks.
async fn tasks() -> f64 {
    let tools: Vec<_> = (0..TOOLS).map(|n| Arc::new(EchoTool(format!("echo_{n}")))).collect();
    let started = Instant::now();
    let mut agents = JoinSet::new();
    for _ in 0..AGENTS {
        let tools = tools.clone();
        agents.spawn(async move {
            let calls = tools.iter().enumerate().map(|(n, _)| async move {
                tokio::task::yield_now().await;
                json!({"n": n}).to_string()
            });
            futures_util::future::join_all(calls).await.len()
        });
    }
    assert_eq!(agents.join_all().await.iter().sum::<usize>(), AGENTS * TOOLS);
    started.elapsed().as_secs_f64() * 1e3
}

pub(crate) async fn many() -> TableRow {
    let reference = tasks().await;
    let (ours, results) = agents().await;
    assert_eq!(results, AGENTS * TOOLS);
    TableRow {
        what: "50 agents that call 20 tools each, from start to end",
        bound: "≤ 0.1 ms a call",
        ours: format!("{ours:.1} ms, {:.3} ms a call", ours / results as f64),
        reference: format!("{reference:.2} ms"),
    }
}
