//! Findings of a review about several agents, jobs and tools of programmers: each of these states what should hold.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use async_trait::async_trait;
use crow_core::{
    capability::{Jobs, OutputLimits, ProcessSpec},
    permission::{PermissionMode, PermissionPolicy},
    tool::{
        CallPlan, Effects, Progress, Subject, ToolCategory, ToolContext, ToolError, ToolRegistry,
        ToolResult, Typed, TypedTool,
    },
    workspace::ShellFolder,
};
use crow_runtime::{
    AgentInternals, AgentRuntime, AgentSession, RuntimeConfig, SessionSpec, UndoOptions, UndoTarget,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::stage::{Call, Stage, metadata};
use crate::support::idle;

const CHAT: UndoOptions = UndoOptions { force: false, dry_run: false, chat: true };

fn in_folder(script: &str, cwd: PathBuf) -> ProcessSpec {
    ProcessSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd,
        env: BTreeMap::new(),
        timeout: Duration::MAX,
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
    }
}

/// Design 4.11: changes that overlap with background jobs are shared. Here the job is that of another session.
#[tokio::test]
async fn what_a_job_of_another_session_changes_during_a_call_is_shared() {
    let mut one = Stage::new();
    one.write("theirs", "old");
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), one.root());
    let session = AgentSession::create(&one.config, spec).unwrap();
    let runtime = AgentRuntime::new(one.config.clone());
    let (sent, jobs) = oneshot::channel();
    let _other = runtime.spawn(session, |internals: AgentInternals| async {
        drop(sent.send(internals.context().jobs.clone().unwrap()));
        idle(internals).await
    });
    let jobs: std::sync::Arc<dyn Jobs> = jobs.await.unwrap();
    let script = "until [ -e go ]; do sleep 0.01; done; echo job > theirs; touch done; sleep 100";
    let spec = in_folder(script, one.root());
    let id = jobs.start(spec, "watch".to_owned(), &CancellationToken::new()).await.unwrap();
    let line = "touch go; until [ -e done ]; do sleep 0.01; done";
    let known = metadata(&one.turn(&[Call::Sh(line)]).await);
    jobs.kill(&id).await.unwrap();
    let report = one.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert!(known.shared && one.read("theirs") == "job\n", "{:#?}", report.paths);
}

/// A tool of a programmer that lets another agent work, and waits for it.
#[derive(Debug)]
struct Delegate(RuntimeConfig);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct Nothing {}

#[async_trait]
impl TypedTool for Delegate {
    type Input = Nothing;
    const NAME: &'static str = "delegate";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Lets another agent work."
    }

    async fn plan(&self, _input: &Nothing, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = "delegate".to_owned();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Nothing, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        // A runtime may be cloned into a tool; here its configuration is enough, leases being those of a runtime.
        let Some(runtime) = ctx.resources.get::<Shared>() else { return "none".to_owned().into() };
        let spec = SessionSpec::new("own", "none/none".parse().unwrap(), ctx.workspace.cwd());
        let session = AgentSession::create(&self.0, spec).unwrap();
        let tools = Stage::tools();
        let handle = runtime.0.spawn(session, |mut internals: AgentInternals| async move {
            Stage::make_call(&mut internals, &tools, "touch made").await
        });
        let end = tokio::time::timeout(Duration::from_secs(5), handle.ended()).await;
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
async fn a_tool_that_waits_for_another_agent_in_its_folder_does_not_wait_for_ever() {
    let stage = Stage::new();
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..stage.config.clone() };
    let runtime = AgentRuntime::new(config.clone());
    let mut tools = ToolRegistry::new();
    tools.register(Typed::new(Delegate(config.clone())));
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), stage.root());
    let session = AgentSession::create(&config, spec).unwrap();
    let shared = Shared(runtime.clone());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.context().resources.insert(shared);
        make_call(&mut internals, &tools, "delegate").await
    });
    assert_eq!(handle.ended().await.result, Ok(()));
    assert!(stage.exists("made"));
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
    let ReplyContent::Call(asked) = block.content.clone() else { panic!("no call") };
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
    let calls = vec![RequestedCall { call: asked, refusal: None }];
    let done = internals.call(tools, &reply_id, calls, &CancellationToken::new()).await?;
    assert!(!done[0].result.is_error(), "{:?}", done[0].result.output);
    Ok(())
}

/// A tool of a programmer who did not think of plans.
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
async fn what_a_writing_tool_without_a_plan_changed_can_be_undone() {
    let stage = Stage::new();
    let mut tools = ToolRegistry::new();
    tools.register(Typed::new(Plain));
    let options =
        HarnessOptions { tools, runtime: stage.config.clone(), ..HarnessOptions::default() };
    let script = [reply([call("c1", "plain", json!({}))]), reply([text("done")])];
    let mut agent = AgentHarness::start(ScriptedModel::new(script), options);
    std::fs::write(agent.cwd().join("a"), "old").unwrap();
    agent.run("go").await;
    let calls = agent.handle.undo_journal().unwrap().calls().len();
    assert_eq!(calls, 1, "nobody knows that it changed something");
}

/// Moves the shell as `cd` in `bash` does.
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

/// Says where the shell is.
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
        let kept = ctx.resources.get::<ShellFolder>();
        ToolResult::success(kept.map_or("at the root".to_owned(), |_| "below".to_owned()))
    }
}

#[tokio::test]
async fn when_the_conversation_goes_back_the_shell_does_too() {
    let stage = Stage::new();
    let mut tools = ToolRegistry::new();
    tools.register(Typed::new(Cd));
    tools.register(Typed::new(Pwd));
    let options =
        HarnessOptions { tools, runtime: stage.config.clone(), ..HarnessOptions::default() };
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
    let said = events.iter().find_map(|event| match &event.event {
        crow_core::event::AgentEvent::CallEnd { result, .. } => Some(result.output.clone()),
        _ => None,
    });
    assert_eq!(said.as_deref(), Some("at the root"));
}

#[tokio::test]
async fn what_the_user_saves_while_a_command_runs_is_not_undone_without_a_word() {
    let mut stage = Stage::new();
    stage.write("notes", "old");
    let root = stage.root();
    let user = tokio::spawn(async move {
        while !root.join("began").exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        std::fs::write(root.join("notes"), "what the user typed meanwhile").unwrap();
        std::fs::write(root.join("saved"), "").unwrap();
    });
    stage.turn(&[Call::Sh("touch began; until [ -e saved ]; do sleep 0.01; done")]).await;
    user.await.unwrap();
    let report = stage.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert_eq!(stage.read("notes"), "what the user typed meanwhile", "{:#?}", report.paths);
}
