//! Session headers and recorded changes of coagents.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use crow_agent::{AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent};
use crow_core::{
    control::ControlFlow,
    event::{AgentEvent, AgentRole, Envelope},
    permission::{PermissionMode, PermissionPolicy},
    tool::{CallPlan, Tool, ToolCategory, ToolContext, ToolRegistry, ToolResult},
};
use crow_runtime::{RuntimeConfig, SessionMetadata, SnapshotLimits, SnapshotStores};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::transcript::{Team, calls, ends, parts, says};
use crate::{
    checks::{bash, path_alone},
    tools::Shell,
};

/// A builder and a reviewer that may repair its work, with snapshots.
struct Repairing {
    harness: AgentHarness,
    _data: TempDir,
}

impl Repairing {
    fn start(builder: Vec<Play>, reviewer: Vec<Play>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let stores =
            SnapshotStores::new(data.path().join("snapshots"), SnapshotLimits::default(), None);
        let runtime = RuntimeConfig {
            snapshots: Some(Arc::new(stores)),
            child_env: path_alone(),
            ..RuntimeConfig::default()
        };
        let mut tools = ToolRegistry::new();
        tools.register(Shell);
        let policy = Some(PermissionPolicy::new(PermissionMode::FullAuto));
        let reviewer = ScriptedModel::new(reviewer).resolved();
        let reviewer_agent =
            BaseAgent::new("reviewer", AgentConfig::default(), reviewer, tools.clone());
        let options = HarnessOptions { tools, runtime, policy, ..HarnessOptions::default() };
        let harness =
            AgentHarness::start_composed(ScriptedModel::new(builder), options, |primary| {
                let coagents = vec![Coagent::Base(Box::new(reviewer_agent))];
                let parts = parts(primary, ControlFlow::smart());
                AcpAgent::new(AcpAgentParts { coagents, ..parts }).unwrap()
            });
        Self { harness, _data: data }
    }
}

/// Tool that returns the agent data of its context. It has the default plan of its category.
struct WhoAmI;

#[async_trait]
impl Tool for WhoAmI {
    fn name(&self) -> &'static str {
        "who_am_i"
    }

    fn description(&self) -> &'static str {
        "Says who it is."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Session
    }

    async fn execute(&self, _input: Value, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let turn = ctx.current_turn.load(Ordering::Relaxed);
        let (name, description) = (ctx.agent_name.get(), ctx.description.get());
        let has_parent = ctx.parent.is_some();
        let title = &plan.title;
        ToolResult::success(format!("{title}: {name} {description} {turn} {has_parent}"))
    }
}

#[tokio::test]
async fn the_tool_context_has_the_agents_description_and_turn_number() {
    let mut tools = ToolRegistry::new();
    tools.register(WhoAmI);
    let options = HarnessOptions { tools, ..HarnessOptions::default() };
    let script = [calls("who_am_i"), says("one"), calls("who_am_i"), says("two")];
    let mut harness =
        AgentHarness::start_composed(ScriptedModel::new(script), options, |primary| {
            let parts = parts(primary, ControlFlow::Hitl);
            AcpAgent::new(AcpAgentParts { description: "for tests".to_owned(), ..parts }).unwrap()
        });
    for turn in 1..=2 {
        let events = harness.run("who?").await;
        let output = events.iter().find_map(|event| match &event.event {
            AgentEvent::CallEnd { result, .. } => Some(result.output.clone()),
            _ => None,
        });
        let name = harness.handle.metadata().agent_type;
        assert_eq!(output.unwrap(), format!("who_am_i: {name} for tests {turn} false"));
    }
}

fn header_of_coagent(harness: &AgentHarness, events: &[Arc<Envelope>]) -> SessionMetadata {
    let event = events.iter().find(|event| event.role == AgentRole::Coagent).unwrap();
    harness.runtime.config().store.read(&event.session_id).unwrap().metadata
}

#[tokio::test]
async fn the_header_of_a_coagent_session_counts_turns_and_tokens() {
    let judge = vec![says("not yet"), ends("task_complete", "fine")];
    let script = [ends("submit_for_review", "one"), ends("submit_for_review", "two")];
    let mut team = Team::start(ControlFlow::judge(), script, vec![judge]);
    let events = team.harness.run("fix it").await;
    let header = header_of_coagent(&team.harness, &events);
    let crow = header.crow();
    assert_eq!((crow.turns, crow.usage.total()), (2, 220));
    assert!(header.updated_at > header.created_at);
}

#[tokio::test]
async fn repairs_of_an_approving_reviewer_are_told_to_the_primary() {
    let builder = vec![ends("submit_for_review", "ready"), says("I see."), says("I see.")];
    let reviewer =
        vec![bash("r", "echo x > repaired"), ends("task_complete", "fine"), says("well")];
    let mut fixture = Repairing::start(builder, reviewer);
    let events = fixture.harness.run("fix it").await;
    let after = events.iter().find_map(|event| match &event.event {
        AgentEvent::CallEnd { tool, result, .. } if tool == "bash" => {
            result.metadata.snapshot_after.clone()
        }
        _ => None,
    });
    assert!(after.is_some());
    let crow = fixture.harness.handle.metadata().crow();
    assert!(crow.initial_snapshot.is_some());
    assert_eq!(crow.current_snapshot, after);
    let child = header_of_coagent(&fixture.harness, &events).crow();
    assert_eq!(child.current_snapshot, after);

    fixture.harness.run("and now?").await;
    let request = &fixture.harness.model.requests()[1];
    let messages = format!("{:?}", request.messages);
    let file = fixture.harness.cwd().join("repaired");
    let expected = format!(
        "reviewer approved of the work and changed files after your last turn: {}",
        file.display()
    );
    assert!(messages.contains(&expected), "{messages}");
}
