use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes},
    ids::{CallId, SessionId, SnapshotId},
    model::{Abilities, ModelRef, ToolDefinition},
    permission::{CallFacts, Decision, PermissionMode, PermissionPolicy, Permit},
    workspace::Workspace,
};

#[derive(Debug)]
struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    async fn run(
        &self,
        _spec: ProcessSpec,
        _cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        Err(ProcessError::Unavailable)
    }
}

fn context(call_id: &str) -> ToolContext {
    let model = CurrentModel::new(
        ModelRef { provider: "p".into(), model: "m".into() },
        Abilities::default(),
    );
    let (id, workspace) = (SessionId::new("s"), Workspace::new("/p"));
    let agent = AgentContext {
        scratch: Some("/scratch".into()),
        ..AgentContext::new(id, "builder", model, workspace, Arc::new(NoProcesses))
    };
    ToolContext::new(Arc::new(agent), CallId::new(call_id))
}

fn permit(call_id: &str, input: &Value) -> Permit {
    let (call_id, plan) = (CallId::new(call_id), CallPlan::without_effects("t"));
    let facts = CallFacts {
        session_id: &crate::ids::SessionId::new("s"),
        agent: "builder",
        call_id: &call_id,
        input,
        tool: "count",
        category: ToolCategory::Session,
        requires_permission: false,
        plan: &plan,
    };
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    match policy.decide(facts, &Workspace::new("/p")) {
        Decision::Allow(permit) => permit,
        Decision::Ask(_) | Decision::Deny(_) => panic!("not allowed"),
    }
}

/// How a file is opened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Read,
    Append,
}

/// How much is done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Effort {
    /// As little as possible.
    Low,
    /// As much as possible.
    High,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema and the parsing are looked at")]
struct Range {
    /// The first line.
    first: u32,
    last: Option<u32>,
}

/// The docs of the type itself are not for the model.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema and the parsing are looked at")]
struct Input {
    /// The file.
    path: String,
    /// How often.
    times: Option<u8>,
    ratio: Option<f64>,
    #[serde(default)]
    all: bool,
    mode: Option<Mode>,
    effort: Effort,
    range: Option<Range>,
    ranges: Option<Vec<Range>>,
    tags: Vec<String>,
    title: Option<String>,
    format: Option<String>,
}

#[derive(Default)]
struct Count(Arc<AtomicU32>);

#[async_trait]
impl TypedTool for Count {
    type Input = Input;

    const NAME: &'static str = "count";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Counts."
    }

    async fn execute(&self, input: Input, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        ToolResult::success(input.path)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

struct Idle;

#[async_trait]
impl TypedTool for Idle {
    type Input = Nothing;

    const NAME: &'static str = "idle";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Does nothing."
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        ToolResult::success("")
    }
}

fn valid() -> Value {
    json!({"path": "a", "effort": "low", "tags": []})
}

#[test]
fn a_schema_is_compact_and_says_what_the_type_says() {
    let schema = TypedToolAdapter::new(Count::default()).parameters_schema();
    let properties = schema["properties"].as_object().unwrap().iter();
    let lines: Vec<_> = properties.map(|(name, node)| format!("{name}: {node}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    path: {"type":"string","description":"The file."}
    times: {"type":"integer","description":"How often.","maximum":255}
    ratio: {"type":"number"}
    all: {"type":"boolean"}
    mode: {"type":"string","enum":["read","append"],"description":"How a file is opened."}
    effort: {"description":"How much is done.","type":"string","enum":["low","high"]}
    range: {"type":"object","properties":{"first":{"type":"integer","description":"The first line."},"last":{"type":"integer"}},"required":["first"]}
    ranges: {"type":"array","items":{"type":"object","properties":{"first":{"description":"The first line.","type":"integer"},"last":{"type":"integer"}},"required":["first"]}}
    tags: {"type":"array","items":{"type":"string"}}
    title: {"type":"string"}
    format: {"type":"string"}
    "#);
    let keys: Vec<_> = schema.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["type", "properties", "required"]);
    assert_eq!(schema["required"], json!(["path", "effort", "tags"]));
    let text = schema.to_string();
    for noise in ["$schema", "$ref", "anyOf", "oneOf", "null", "uint", "default"] {
        assert!(!text.contains(noise), "{noise} is in {text}");
    }
}

#[test]
fn the_schema_of_a_tool_without_arguments_is_an_empty_object() {
    let schema = TypedToolAdapter::new(Idle).parameters_schema();
    assert_eq!(schema, json!({"type": "object", "properties": {}}));
}

#[test]
fn arguments_that_do_not_parse_are_named_by_their_path() {
    let tool = TypedToolAdapter::new(Count::default());
    assert_eq!(tool.check(&valid()), Ok(()));
    for (change, error) in [
        (json!({"path": 1}), "path: invalid type: integer `1`, expected a string"),
        (json!({"times": 256}), "times: invalid value: integer `256`, expected u8"),
        (json!({"mode": "write"}), "mode: unknown variant `write`, expected `read` or `append`"),
        (json!({"range": {"last": 1}}), "range: missing field `first`"),
        (
            json!({"ranges": [{"first": 1}, {"first": "x"}]}),
            "ranges[1].first: invalid type: string \"x\", expected u32",
        ),
        (json!({"tags": ["a", 1]}), "tags[1]: invalid type: integer `1`, expected a string"),
    ] {
        let mut input = valid();
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(tool.check(&input), Err(error.to_owned()));
    }
    assert_eq!(tool.check(&json!({})), Err("missing field `path`".to_owned()));
    assert_eq!(
        tool.check(&json!([])),
        Err("invalid length 0, expected struct Input with 11 elements".to_owned())
    );
}

#[tokio::test]
async fn a_call_runs_only_with_a_permit_for_this_call_and_this_input() {
    let runs = Arc::new(AtomicU32::new(0));
    let mut registry = ToolRegistry::new();
    registry.register(TypedToolAdapter::new(Count(Arc::clone(&runs))));
    let (plan, input) = (CallPlan::without_effects("t"), valid());
    let mut other = valid();
    other["path"] = json!("b");
    for wrong in [permit("other", &input), permit("call", &other)] {
        let result = registry.execute(wrong, "count", input.clone(), &plan, &context("call")).await;
        assert_eq!(result.status, ToolStatus::Error);
        assert_eq!(
            result.output,
            "the call was refused: its permission was given for another call"
        );
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    let right = permit("call", &input);
    let result = registry.execute(right, "count", input.clone(), &plan, &context("call")).await;
    assert_eq!((result.status, result.output.as_str()), (ToolStatus::Success, "a"));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let result =
        registry.execute(permit("call", &input), "none", input, &plan, &context("call")).await;
    assert_eq!(result.error.as_deref(), Some("there is no tool named none"));
}

#[tokio::test]
async fn planning_and_running_refuse_arguments_that_do_not_parse() {
    let (tool, ctx) = (TypedToolAdapter::new(Count::default()), context("call"));
    let plan = tool.plan(&valid(), &ctx).await.unwrap();
    assert_eq!(plan, CallPlan::without_effects("count"));
    let Err(ToolError::Model(message)) = tool.plan(&json!({}), &ctx).await else {
        panic!("planned")
    };
    assert_eq!(message, "missing field `path`");
    assert_eq!(tool.preview(&valid(), &plan, &ctx).await.unwrap(), None);
    assert!(tool.preview(&json!({}), &plan, &ctx).await.is_err());
    assert!(tool.execute(json!({}), &plan, &ctx).await.is_error());
}

#[test]
fn a_registry_lists_its_tools_by_name_and_gives_an_agent_those_it_names() {
    let mut registry = ToolRegistry::new();
    registry.register(TypedToolAdapter::new(Idle));
    registry.register(TypedToolAdapter::new(Count::default()));
    let names: Vec<_> = registry.definitions().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["count", "idle"]);
    let (chosen, unknown) = registry.for_agent(&["idle".to_owned(), "none".to_owned()]);
    assert_eq!(chosen.names().collect::<Vec<_>>(), ["idle"]);
    assert_eq!(unknown, ["none"]);
    assert_eq!(registry.category("idle"), Some(ToolCategory::Read));
    assert_eq!(registry.category("none"), None);
}

#[test]
fn an_agent_that_edits_and_writes_may_call_apply_patch_without_being_offered_it() {
    let tool = |name: &str| {
        let (name, description) = (name.to_owned(), String::new());
        let definition = ToolDefinition { name, description, parameters: json!({}) };
        DelegatedTool::new(definition, ToolCategory::Write)
    };
    let mut registry = ToolRegistry::new();
    for name in ["apply_patch", "edit_file", "write_file"] {
        registry.register(tool(name));
    }
    let chosen = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        registry.for_agent(&names).0
    };
    for (names, is_callable) in [
        (&["edit_file", "write_file"][..], true),
        (&["apply_patch"], true),
        (&["edit_file"], false),
        (&["write_file"], false),
    ] {
        let chosen = chosen(names);
        assert_eq!(chosen.get("apply_patch").is_some(), is_callable, "{names:?}");
        assert_eq!(chosen.definitions().len(), names.len(), "{names:?}");
        assert_eq!(chosen.names().collect::<Vec<_>>(), names);
    }
    let mut limited = chosen(&["edit_file", "write_file"]);
    limited.retain(|tool| tool.name() != "write_file");
    assert!(limited.get("apply_patch").is_none());
    let mut limited = chosen(&["edit_file", "write_file"]);
    limited.retain(|tool| tool.category() == ToolCategory::Read);
    assert!(limited.get("apply_patch").is_none());
}

#[test]
fn a_result_says_how_it_ended_to_the_model_and_to_people() {
    let failed = ToolResult::failure("first line\nsecond line");
    assert_eq!(failed.error.as_deref(), Some("first line"));
    assert_eq!(failed.output, "first line\nsecond line");
    assert!(failed.is_error() && ToolResult::cancelled().is_error());
    assert!(!ToolResult::from("text".to_owned()).is_error());
}

#[test]
fn a_patch_counts_the_lines_of_all_its_files() {
    let file = |path: &str, additions, deletions| FileDiff {
        additions,
        deletions,
        ..FileDiff::without_lines(path)
    };
    let patch = Patch { files: vec![file("a", 1, 2), file("b", 10, 20)] };
    assert_eq!((patch.additions(), patch.deletions()), (11, 22));
}

#[test]
fn every_tool_error_answers_the_call() {
    let fatal = ToolError::Fatal("no disk".into());
    for (error, status, output) in [
        (ToolError::Model("try b".into()), ToolStatus::Error, "try b"),
        (fatal, ToolStatus::Error, "the tool failed: no disk"),
    ] {
        let result = error.to_result();
        assert_eq!((result.status, result.output.as_str()), (status, output));
    }
    assert_eq!(ToolError::Cancelled.to_result().status, ToolStatus::Cancelled);
}

#[tokio::test]
async fn without_snapshots_a_tool_gets_an_error() {
    let ctx = context("call");
    assert!(ctx.snapshot().await.is_err());
    assert!(ctx.diff_since(&SnapshotId::new("s")).await.is_err());
    assert!(!ctx.should_abort());
    ctx.cancellation.cancel();
    ctx.cancelled().await;
    assert!(ctx.should_abort());
}
