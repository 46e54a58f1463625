//! Tools for tests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::{
    capability::{JobInfo, OutputLimits, ProcessEnd, ProcessSpec, UserQuestion},
    tool::{
        Access, CallPlan, Effects, PathEffect, Progress, Subject, Tool, ToolCategory, ToolContext,
        ToolError, ToolRegistry, ToolResult,
    },
};
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// Behaviour of a test tool.
#[derive(Clone)]
pub(crate) enum Act {
    Say(&'static str),
    Panic,
    /// Asks the user and returns the answer.
    Ask(&'static str),
    /// Waits until enough calls wait at the barrier.
    Meet(Arc<Barrier>),
    /// Waits for cancellation, then stops.
    Obey,
    /// Ignores cancellation and never ends.
    Ignore,
}

pub(crate) struct TestTool {
    pub(crate) name: &'static str,
    pub(crate) category: ToolCategory,
    pub(crate) act: Act,
}

#[async_trait]
impl Tool for TestTool {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        "A tool for tests."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}}})
    }

    fn category(&self) -> ToolCategory {
        self.category
    }

    fn check(&self, input: &Value) -> Result<(), String> {
        match input.get("n") {
            None | Some(Value::Number(_)) => Ok(()),
            Some(_) => Err("n: expected an integer".to_owned()),
        }
    }

    async fn plan(&self, _input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let path = ctx.workspace.resolve("file");
        let effects = match self.category {
            ToolCategory::Read => Effects::Paths(vec![PathEffect::new(path, Access::Read)]),
            ToolCategory::Write => Effects::Paths(vec![PathEffect::new(path, Access::Write)]),
            ToolCategory::Execute | ToolCategory::Network | ToolCategory::External => {
                Effects::Unknown
            }
            ToolCategory::Session | ToolCategory::Agent => Effects::None,
        };
        Ok(CallPlan { title: self.name.to_owned(), effects, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        match &self.act {
            Act::Say(text) => ToolResult::success(*text),
            Act::Panic => panic!("broken tool"),
            Act::Ask(text) => ask(text, ctx).await,
            Act::Meet(barrier) => {
                barrier.wait().await;
                ToolResult::success("met")
            }
            Act::Obey => {
                ctx.cancelled().await;
                ToolResult::cancelled()
            }
            Act::Ignore => {
                tokio::time::sleep(Duration::from_secs(1_000_000)).await;
                ToolResult::success("never")
            }
        }
    }
}

async fn ask(text: &str, ctx: &ToolContext) -> ToolResult {
    let question = UserQuestion {
        text: text.to_owned(),
        header: None,
        choices: Vec::new(),
        multiple: false,
        free_text: true,
    };
    let questions = ctx.questions.as_ref().unwrap();
    match questions.ask(&ctx.call_id, question, &ctx.cancellation).await {
        Some(answer) => ToolResult::success(format!("{answer:?}")),
        None => ToolResult::cancelled(),
    }
}

pub(crate) fn tools(
    tools: impl IntoIterator<Item = (&'static str, ToolCategory, Act)>,
) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(crow_core::tool::TypedToolAdapter::new(crow_agent::TaskComplete::default()));
    for (name, category, act) in tools {
        registry.register(TestTool { name, category, act });
    }
    registry
}

/// Runs a command in a shell, or starts it as a job: a stand-in for the real tool, which is in a crate above this one.
pub(crate) struct Shell;

fn shell(command: &str, cwd: &std::path::Path) -> ProcessSpec {
    ProcessSpec {
        argv: ["bash", "-c", command].map(str::to_owned).to_vec(),
        cwd: cwd.to_path_buf(),
        env: BTreeMap::new(),
        timeout: Duration::from_mins(1),
        output: OutputLimits { head: 4096, tail: 4096, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    }
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {
            "command": {"type": "string"}, "background": {"type": "boolean"}
        }, "required": ["command"]})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Execute
    }

    async fn plan(&self, _input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::of_category("run a command", ToolCategory::Execute))
    }

    async fn execute(&self, input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let spec = shell(input["command"].as_str().unwrap(), ctx.workspace.cwd());
        if input["background"] == true {
            let jobs = ctx.jobs.as_ref().unwrap();
            let id = jobs.start(spec, "a job".to_owned(), &ctx.cancellation).await.unwrap();
            let mut result = ToolResult::success("started");
            result.metadata.extra = json!({ JobInfo::EXTRA_KEY: id });
            return result;
        }
        let outcome = ctx.processes.run(spec, ctx.cancellation.clone()).await.unwrap();
        let output = String::from_utf8(outcome.output.head).unwrap();
        match outcome.end {
            ProcessEnd::Exited(0) => ToolResult::success(output),
            end => ToolResult::failure(format!("{end:?} {output}")),
        }
    }
}
