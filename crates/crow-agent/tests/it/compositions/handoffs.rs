//! Handoffs to reviewers: how they are generated, and which changes they show.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_agent::{AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent, Handoff};
use crow_core::{
    control::ControlFlow,
    model::{ProviderError, ProviderErrorKind},
    todo::{TodoItem, TodoList, TodoStatus},
    tool::{CallPlan, Tool, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult},
};
use crow_runtime::{RuntimeConfig, SnapshotLimits, SnapshotStores};
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

/// Sets a list of one todo: a stand-in for the real `todo_write`, which is in a crate above this one.
struct Plan;

#[async_trait]
impl Tool for Plan {
    fn name(&self) -> &'static str {
        "todo_write"
    }

    fn description(&self) -> &'static str {
        "Replaces the todo list."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {}})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Session
    }

    async fn plan(&self, _input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects("plan"))
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let content = "Mend the parser".to_owned();
        let item = TodoItem { content, status: TodoStatus::Completed, active_form: None };
        *ctx.todo.lock().unwrap() = TodoList::new(vec![item]).unwrap();
        ToolResult::success("planned")
    }
}

/// A builder and its reviewer with snapshots; both have a shell.
struct Pair {
    harness: AgentHarness,
    reviewer: ScriptedModel,
    _data: TempDir,
}

impl Pair {
    fn start(flow: ControlFlow, handoff: Option<Handoff>, scripts: [Vec<Play>; 2]) -> Self {
        Self::start_in(Vec::new(), flow, handoff, scripts)
    }

    /// Starts them with further roots.
    fn start_in(
        additional_directories: Vec<PathBuf>,
        flow: ControlFlow,
        handoff: Option<Handoff>,
        scripts: [Vec<Play>; 2],
    ) -> Self {
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
        tools.register(Plan);
        let [builder, reviewer] = scripts.map(ScriptedModel::new);
        let reviewer_agent =
            BaseAgent::new("reviewer", AgentConfig::default(), reviewer.resolved(), tools.clone());
        let options =
            HarnessOptions { tools, runtime, additional_directories, ..HarnessOptions::default() };
        let harness = AgentHarness::start_composed(builder, options, |primary| {
            let coagents = vec![Coagent::Base(Box::new(reviewer_agent))];
            AcpAgent::new(AcpAgentParts { coagents, handoff, ..parts(primary, flow) }).unwrap()
        });
        Self { harness, reviewer, _data: data }
    }

    /// Runs both scripts to their end and returns the handoff of each review.
    async fn handoffs(&mut self) -> Vec<String> {
        let events = self.harness.run("mend it").await;
        self.harness.model.assert_finished();
        self.reviewer.assert_finished();
        let handoffs = events.iter().filter_map(|event| match &event.event {
            crow_core::event::AgentEvent::Handoff { prompt, .. } => Some(prompt.clone()),
            _ => None,
        });
        handoffs.collect()
    }
}

fn submits() -> Play {
    ends("submit_for_review", "ready")
}

fn approves() -> Play {
    ends("task_complete", "fine")
}

fn with_generated(parts: AcpAgentParts) -> AcpAgentParts {
    let handoff = Some(Handoff::Generated { generator_prompt: "Write the criteria.".to_owned() });
    AcpAgentParts { handoff, ..parts }
}

#[tokio::test]
async fn a_handoff_is_generated_once_per_run() {
    let script = [submits(), says("Look for a test."), submits(), submits(), says("Be kind.")];
    let judge = vec![says("no test"), approves(), approves()];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![judge], with_generated);
    let events = team.harness.run("fix it").await;
    let reviewer = team.coagents[0].clone();
    let prompt_of =
        |request: usize| format!("{:?}", reviewer.requests()[request].messages.last().unwrap());
    assert!(prompt_of(0).contains("Look for a test.") && prompt_of(1).contains("Look for a test."));
    let lines = super::transcript::transcript(&events);
    let written = lines.iter().filter(|line| line.starts_with("generator: ")).count();
    assert_eq!(written, 1, "{lines:#?}");
    // The next prompt is another run, with criteria of its own.
    team.run("now something else").await;
    assert!(
        prompt_of(2).contains("Be kind.") && !prompt_of(2).contains("Look for a test."),
        "{}",
        prompt_of(2)
    );
}

#[tokio::test]
async fn a_failing_handoff_generator_fails_the_run_with_its_reason() {
    let broken = Play::Fail(ProviderError::new(ProviderErrorKind::Auth, "no such key"));
    let script = [submits(), broken];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![vec![]], with_generated);
    let lines = team.run("fix it").await;
    let last = lines.last().unwrap();
    assert!(last.starts_with("failed: the generator failed: ") && last.contains("no such key"));
}

#[tokio::test]
async fn an_empty_generated_handoff_fails_the_run() {
    let script = [submits(), says(" "), says(" ")];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![vec![]], with_generated);
    let lines = team.run("fix it").await;
    assert_eq!(lines.last().unwrap(), "failed: the generator wrote nothing");
}

#[tokio::test]
async fn a_handoff_template_shows_the_todo_list_of_the_primary() {
    let handoff = Handoff::template("The plan of {{primary}}:\n{{todo_state}}").unwrap();
    let builder = vec![calls("todo_write"), submits()];
    let mut pair = Pair::start(ControlFlow::judge(), Some(handoff), [builder, vec![approves()]]);
    let handoffs = pair.handoffs().await;
    assert!(
        handoffs[0].starts_with("The plan of builder:\n[x] Mend the parser\n"),
        "{}",
        handoffs[0]
    );
    assert!(!handoffs[0].contains("<todo>"), "what the template shows is not shown twice");
}

#[tokio::test]
async fn a_second_review_is_shown_what_changed_since_the_first() {
    let builder = vec![
        bash("a", "echo one > first; echo same > both"),
        submits(),
        bash("b", "echo two > second; echo more >> both"),
        submits(),
    ];
    let judge = vec![says("Where is the second?"), approves()];
    let mut pair = Pair::start(ControlFlow::judge(), None, [builder, judge]);
    let handoffs = pair.handoffs().await;
    for part in ["first +1 -0", "both +1 -0"] {
        assert!(handoffs[0].contains(part), "{part}: {}", handoffs[0]);
    }
    for part in ["second +1 -0", "both +1 -0", "+more"] {
        assert!(handoffs[1].contains(part), "{part}: {}", handoffs[1]);
    }
    assert!(!handoffs[1].contains("+one") && !handoffs[1].contains("+same"), "{}", handoffs[1]);
}

#[tokio::test]
async fn a_review_is_shown_what_changed_in_a_further_folder() {
    let folder = tempfile::tempdir().unwrap();
    let further = folder.path().canonicalize().unwrap();
    let line = format!("echo one > here; echo two > {}/there", further.display());
    let builder = vec![bash("a", &line), submits()];
    let scripts = [builder, vec![approves()]];
    let mut pair = Pair::start_in(vec![further.clone()], ControlFlow::judge(), None, scripts);
    let handoffs = pair.handoffs().await;
    for part in ["here +1 -0".to_owned(), format!("{}/there +1 -0", further.display())] {
        assert!(handoffs[0].contains(&part), "{part}: {}", handoffs[0]);
    }
}

#[tokio::test]
async fn repairs_of_a_reviewer_are_not_shown_as_work_of_the_primary() {
    let builder =
        vec![bash("a", "echo wrong > file"), submits(), bash("b", "echo x > other"), submits()];
    let partner = vec![
        bash("r", "echo repaired > file"),
        says("I mended file; other is missing."),
        approves(),
    ];
    let mut pair = Pair::start(ControlFlow::smart(), None, [builder, partner]);
    let handoffs = pair.handoffs().await;
    assert!(handoffs[0].contains("+wrong"), "{}", handoffs[0]);
    assert!(handoffs[1].contains("other +1 -0"), "{}", handoffs[1]);
    assert!(
        !handoffs[1].contains("+repaired") && !handoffs[1].contains("-wrong"),
        "{}",
        handoffs[1]
    );
}

#[tokio::test]
async fn in_a_chat_a_reply_with_only_a_submission_is_passed_on_as_its_summary() {
    let partner = vec![approves()];
    let mut team = Team::start_with(
        ControlFlow::chat(Some(5)),
        [ends("submit_for_review", "I added the test.")],
        vec![partner],
        |parts| AcpAgentParts { handoff: Some(Handoff::Verbatim), ..parts },
    );
    let lines = team.run("fix it").await;
    assert!(lines[2].starts_with("reviewer is told: <task"), "{lines:?}");
    let message = format!("{:?}", team.coagents[0].requests()[0].messages);
    assert!(message.contains("</task>\\n\\nI added the test."), "{message}");
}

#[tokio::test]
async fn a_long_submission_reaches_the_reviewer_in_full() {
    let summary =
        format!("{}\nShould the old name stay?", "I looked at each of the callers. ".repeat(20));
    let builder = vec![ends("submit_for_review", &summary)];
    let mut team = Team::start(ControlFlow::judge(), builder, vec![vec![approves()]]);
    team.run("fix it").await;
    let handoff_text = format!("{:?}", team.coagents[0].requests()[0].messages);
    assert!(
        handoff_text.contains(&"I looked at each of the callers. ".repeat(20)),
        "{handoff_text}"
    );
    assert!(
        handoff_text.contains("<open_questions>\\nShould the old name stay?"),
        "{handoff_text}"
    );
}
