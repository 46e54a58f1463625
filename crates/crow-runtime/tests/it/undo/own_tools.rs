//! Undo with custom tools and agents.

use std::time::Duration;

use async_trait::async_trait;
use crow_core::{
    permission::{PermissionMode, PermissionPolicy},
    tool::{
        CallPlan, Effects, Subject, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult,
        TypedTool, TypedToolAdapter,
    },
    workspace::ShellFolder,
};
use crow_runtime::{
    AgentInternals, AgentRuntime, AgentSession, RestorePoint, RuntimeConfig, SessionSpec,
    UndoOptions, UndoTarget,
};
use crow_testkit::telemetry::CheckedRuntime;
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::fixture::{Call, UndoFixture};

const CHAT: UndoOptions = UndoOptions { force: false, dry_run: false, chat: true };

/// Custom tool that runs another agent and waits for it.
#[derive(Debug)]
struct Delegate(RuntimeConfig);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct Nothing {}

#[async_trait]
impl TypedTool for Delegate {
    type Input = Nothing;
    const NAME: &'static str = "delegate";
    const CATEGORY: ToolCategory = ToolCategory::Agent;

    fn description(&self) -> &'static str {
        "Lets another agent work."
    }

    async fn plan(&self, _input: &Nothing, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = "delegate".to_owned();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        // Both agents must be in the same runtime, which owns the write leases; the session needs only its configuration.
        let Some(runtime) = ctx.resources.get::<Shared>() else { return "none".to_owned().into() };
        let spec = SessionSpec::new("own", "none/none".parse().unwrap(), ctx.workspace.cwd());
        let session = AgentSession::create(&self.0, spec).unwrap();
        let tools = UndoFixture::tools();
        let handle = runtime.0.spawn(session, |mut internals: AgentInternals| async move {
            UndoFixture::make_call(&mut internals, &tools, "touch made").await
        });
        let end = tokio::time::timeout(Duration::from_secs(5), handle.wait_for_end()).await;
        handle.abort();
        match end {
            Ok(end) => ToolResult::success(format!("{:?}", end.result)),
            Err(_) => {
                ToolResult::failure("the other agent waits for this call, and this call for it")
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Shared(AgentRuntime);

#[tokio::test]
async fn a_tool_that_waits_for_an_agent_in_its_directory_does_not_deadlock() {
    let fixture = UndoFixture::new();
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let runtime = CheckedRuntime::new(config.clone());
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Delegate(config.clone())));
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root());
    let session = AgentSession::create(&config, spec).unwrap();
    let shared = Shared(runtime.clone());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.context().resources.insert(shared);
        make_call(&mut internals, &tools, "delegate").await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(fixture.exists("made"));
}

async fn make_call(
    internals: &mut AgentInternals,
    tools: &ToolRegistry,
    tool: &str,
) -> Result<(), crow_runtime::AgentError> {
    use crow_core::{
        event::{AgentEvent, AgentState},
        ids::ReplyId,
        message::{Origin, ReplyContent},
        model::StopReason,
        turn::RequestedCall,
    };
    let block = call("c1", tool, json!({}));
    let ReplyContent::Call(tool_call) = block.content.clone() else { panic!("no call") };
    let reply_id = ReplyId::new("r1");
    internals.set_state(AgentState::Processing).await?;
    let none = || "none".to_owned();
    let origin = Origin { dialect: none(), provider: none(), base_url: none(), model: none() };
    internals
        .emit(AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks: vec![block],
            stop: StopReason::ToolUse,
            origin,
            response_id: None,
        })
        .await?;
    let calls = vec![RequestedCall::run(tool_call)];
    let done = internals.call(tools, &reply_id, calls, &CancellationToken::new()).await?;
    assert!(!done[0].result.is_error(), "{:?}", done[0].result.output);
    Ok(())
}

/// Custom tool without a plan.
#[derive(Debug)]
struct Plain;

#[async_trait]
impl TypedTool for Plain {
    type Input = Nothing;
    const NAME: &'static str = "plain";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Writes a file."
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        std::fs::write(ctx.workspace.cwd().join("a"), "overwritten").unwrap();
        ToolResult::success("written")
    }
}

#[tokio::test]
async fn changes_of_a_writing_tool_without_a_plan_can_be_undone() {
    let fixture = UndoFixture::new();
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Plain));
    let options =
        HarnessOptions { tools, runtime: fixture.config.clone(), ..HarnessOptions::default() };
    let script = [reply([call("c1", "plain", json!({}))]), reply([text("done")])];
    let mut agent = AgentHarness::start(ScriptedModel::new(script), options);
    std::fs::write(agent.cwd().join("a"), "old").unwrap();
    agent.run("go").await;
    let calls = agent.handle.undo_journal().unwrap().calls().len();
    assert_eq!(calls, 1, "nobody knows that it changed something");
}

/// Changes the directory of the shell, as `cd` in `bash` does.
#[derive(Debug)]
struct Cd;

#[async_trait]
impl TypedTool for Cd {
    type Input = Nothing;
    const NAME: &'static str = "cd";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Moves the shell."
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let folder = ctx.workspace.cwd().join("sub");
        ctx.resources.insert(ShellFolder(folder.clone()));
        let mut result = ToolResult::success("now in sub");
        result.metadata.extra = json!({ ShellFolder::EXTRA_KEY: folder });
        result
    }
}

/// Reports the directory of the shell.
#[derive(Debug)]
struct Pwd;

#[async_trait]
impl TypedTool for Pwd {
    type Input = Nothing;
    const NAME: &'static str = "pwd";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Says where the shell is."
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let folder = ctx.resources.get::<ShellFolder>();
        ToolResult::success(folder.map_or("at the root".to_owned(), |_| "below".to_owned()))
    }
}

#[tokio::test]
async fn rewinding_the_conversation_resets_the_shell_directory() {
    let fixture = UndoFixture::new();
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Cd));
    tools.register(TypedToolAdapter::new(Pwd));
    let options =
        HarnessOptions { tools, runtime: fixture.config.clone(), ..HarnessOptions::default() };
    let mut agent = AgentHarness::start(ScriptedModel::new([]), options);
    agent.model.push(reply([text("hello")]));
    agent.run("hello").await;
    agent.model.push(reply([call("c1", "cd", json!({}))]));
    agent.model.push(reply([text("done")]));
    agent.run("go below").await;
    let handle = agent.handle.clone();
    let undo = move || handle.undo_journal()?.undo(&UndoTarget::BackTo(2), CHAT);
    tokio::task::spawn_blocking(undo).await.unwrap().unwrap();
    agent.model.allow_rewind();
    agent.model.push(reply([call("c2", "pwd", json!({}))]));
    agent.model.push(reply([text("done")]));
    let events = agent.run("where are you?").await;
    let output = events.iter().find_map(|event| {
        let crow_core::event::AgentEvent::CallEnd { result, .. } = &event.event else {
            return None;
        };
        Some(result.output.clone())
    });
    assert_eq!(output.as_deref(), Some("at the root"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_waits_for_the_call_of_another_session_can_be_cancelled() {
    let mut one = UndoFixture::new();
    let mut two = UndoFixture::second_session(&one);
    two.turn(&[Call::Put("b", "1")]).await;
    let marker = one.root().join("began");
    let calls = [Call::Sh("touch began; sleep 8")];
    let undo = async {
        while !marker.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let undo = two.undo(UndoTarget::LastTurn, UndoOptions::default());
        tokio::pin!(undo);
        let waited = tokio::time::timeout(Duration::from_millis(300), &mut undo).await;
        assert!(waited.is_err(), "it did not wait");
        two.agent.handle.interrupt();
        two.agent.handle.shutdown();
        tokio::time::timeout(Duration::from_secs(4), &mut undo).await.is_ok()
    };
    let (_, ended) = tokio::join!(one.turn(&calls), undo);
    assert!(ended, "it waits for as long as the other call takes");
}

/// The open calls of an aborted child are never closed, so its call seems to run until now.
#[tokio::test]
async fn an_interrupted_call_of_a_child_does_not_include_later_changes() {
    let fixture = UndoFixture::new();
    fixture.write("b", "old");
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root());
    let session = AgentSession::create(&config, spec).unwrap();
    let id = session.id().clone();
    let runtime = CheckedRuntime::new(config.clone());
    let tools = UndoFixture::tools();
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.set_state(crow_core::event::AgentState::Processing).await?;
        internals.emit(crow_core::event::AgentEvent::TurnStart { turn: 1 }).await?;
        let mut child = internals.child(crate::support::child("helper")).await?;
        UndoFixture::make_call(&mut child, &tools, "touch here; exec sleep 100").await
    });
    while !fixture.exists("here") {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    handle.abort();
    handle.wait_for_end().await;
    // The session is resumed; its agent closes the open calls, as every agent does.
    let session = AgentSession::open(&config, &id, crow_core::model::Abilities::default()).unwrap();
    let tools = UndoFixture::tools();
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await?;
        internals.set_state(crow_core::event::AgentState::Processing).await?;
        internals.emit(crow_core::event::AgentEvent::TurnStart { turn: 2 }).await?;
        UndoFixture::make_call(&mut internals, &tools, "echo new > b").await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    fixture.write("mine", "days later");
    let mut journal = crow_runtime::UndoJournal::open(&config, &id).unwrap();
    let diff = journal.diff(&RestorePoint::Start, &RestorePoint::End).unwrap();
    let shown: Vec<_> = diff.files.iter().map(|file| file.path.file_name().unwrap()).collect();
    let report = journal.undo(&UndoTarget::ToStart, UndoOptions::default()).unwrap();
    assert_eq!(fixture.read("b"), "old", "{:#?}\nthe diff shows {shown:?}", report.paths);
    assert!(!shown.contains(&std::ffi::OsStr::new("mine")), "{shown:?}");
}

/// Tool that takes a snapshot before its change and a diff after it.
#[derive(Debug)]
struct Watcher;

#[async_trait]
impl TypedTool for Watcher {
    type Input = Nothing;
    const NAME: &'static str = "watcher";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Writes a file and says what that changed."
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let before = ctx.snapshot().await.unwrap();
        std::fs::write(ctx.workspace.cwd().join("a"), "one\ntwo\n").unwrap();
        let patch = ctx.diff_since(&before).await.unwrap();
        let names = patch.files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy());
        let names: Vec<_> = names.collect();
        ToolResult::success(format!("{names:?} +{} -{}", patch.additions(), patch.deletions()))
    }
}

#[tokio::test]
async fn a_tool_can_take_a_snapshot_and_diff_against_it() {
    let fixture = UndoFixture::new();
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Watcher));
    let options =
        HarnessOptions { tools, runtime: fixture.config.clone(), ..HarnessOptions::default() };
    let script = [reply([call("c1", "watcher", json!({}))]), reply([text("done")])];
    let mut agent = AgentHarness::start(ScriptedModel::new(script), options);
    let events = agent.run("go").await;
    let output = events.iter().find_map(|event| {
        let crow_core::event::AgentEvent::CallEnd { result, .. } = &event.event else {
            return None;
        };
        Some(result.output.clone())
    });
    assert_eq!(output.as_deref(), Some(r#"["a"] +2 -0"#));
}
