//! The environment of a session: its snapshot, and the changes that the model is told.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use crow_agent::{
    AcpAgent, AgentConfig, BaseAgent, Check, SessionEnvironment, Surroundings, serve,
};
use crow_core::{
    capability::Clock,
    event::{AgentEvent, Envelope},
    file_views::{ContentHash, FileView, FileViews},
    message::{Block, Message},
    permission::PermissionMode,
    redact::Redactor,
    tool::{
        Access, AgentContext, CallPlan, Effects, PathEffect, Subject, Tool, ToolCategory,
        ToolContext, ToolError, ToolRegistry, ToolResult,
    },
};
use crow_runtime::{
    AgentHandle, AgentSession, EventStream, RuntimeConfig, SandboxConfig, SessionSpec,
};
use crow_testkit::telemetry::CheckedRuntime;
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, SeenRequest, call, reply, text},
    wait_until,
};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Reads the file, or writes it as a tool that is not asked for its view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileTool {
    Look,
    Format,
}

#[async_trait]
impl Tool for FileTool {
    fn name(&self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Format => "format",
        }
    }

    fn description(&self) -> &'static str {
        "A tool for tests."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn category(&self) -> ToolCategory {
        match self {
            Self::Look => ToolCategory::Read,
            Self::Format => ToolCategory::Write,
        }
    }

    fn check(&self, _input: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn plan(&self, _input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let access = match self {
            Self::Look => Access::Read,
            Self::Format => Access::Write,
        };
        let effects = Effects::Paths(vec![PathEffect::new(ctx.workspace.resolve("file"), access)]);
        Ok(CallPlan { title: self.name().to_owned(), effects, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let path = ctx.workspace.cwd().join("file");
        let mut result = ToolResult::success("done");
        match self {
            Self::Look => {
                let content = fs::read(&path).unwrap();
                let hash = ContentHash::of_content(&content);
                let call_id = ctx.call_id.clone();
                let view = FileView { path, hash, lines: Some((1, 1)), call_id };
                ctx.file_views.insert(view.clone());
                result.metadata.extra = json!({ FileViews::EXTRA_KEY: view });
            }
            Self::Format => {
                fs::write(&path, "formatted").unwrap();
                result.metadata.files_modified = vec![path];
            }
        }
        result
    }
}

fn options() -> HarnessOptions {
    let mut tools = ToolRegistry::new();
    tools.register(FileTool::Look);
    tools.register(FileTool::Format);
    HarnessOptions { tools, ..HarnessOptions::default() }
}

fn harness(plays: impl IntoIterator<Item = Play>) -> AgentHarness {
    let harness = AgentHarness::start(ScriptedModel::new(plays), options());
    fs::write(harness.cwd().join("file"), "one").unwrap();
    harness
}

fn says() -> Play {
    reply([text("done")])
}

fn calls(id: &str, tool: &str) -> Play {
    reply([call(id, tool, json!({}))])
}

/// Returns the texts of all updates of the environment in a request.
fn updates(request: &SeenRequest) -> Vec<String> {
    let texts = request.messages.iter().filter_map(|message| match message.as_ref() {
        Message::User(user) => Some(Block::text_of(&user.content)),
        Message::Assistant(_) | Message::Results(_) => None,
    });
    let inside = |text: String| {
        let text = text.strip_prefix("<system-reminder>\n").unwrap_or(&text);
        let (inside, _) =
            text.strip_prefix("<environment_update>\n")?.split_once("\n</environment_update>")?;
        Some(inside.to_owned())
    };
    texts.filter_map(inside).collect()
}

fn last_updates(model: &ScriptedModel) -> Vec<String> {
    updates(model.requests().last().unwrap())
}

/// Opens the session of a harness again, as a new process does.
async fn reopen(harness: &AgentHarness) -> (AgentHandle, EventStream) {
    let (id, config) = (harness.handle.session_id().clone(), harness.runtime.config().clone());
    harness.handle.shutdown();
    harness.handle.wait_for_end().await;
    let resolved = harness.model.resolved();
    let session = AgentSession::open(&config, &id, resolved.info.abilities).unwrap();
    let HarnessOptions { tools, .. } = options();
    let agent = BaseAgent::new("builder", AgentConfig::default(), resolved, tools);
    let surroundings = Surroundings { cwd: harness.cwd(), ..Surroundings::default() };
    let handle = harness
        .runtime
        .spawn(session, |internals| serve(AcpAgent::solo(agent), surroundings, internals));
    let events = handle.stream().unwrap();
    (handle, events)
}

async fn run(handle: &AgentHandle, events: &mut EventStream, prompt: &str) {
    handle.send_input(vec![Block::text(prompt)]).unwrap();
    while !matches!(events.next().await.unwrap().event, AgentEvent::RunEnd { .. }) {}
}

const MODIFIED: &str =
    "changed on disk file: since you saw it, not by a call of yours: read it again";

#[tokio::test]
async fn the_first_message_says_what_calls_may_do() {
    let mut harness = harness([says()]);
    harness.run("hello").await;
    let first = &harness.model.requests()[0].outline()[0];
    let expected = format!(
        "user: <environment>\nworking directory: {}\npermissions: mode full-auto: everything passes that the sandbox lets commands do, the rest is asked about\ncommands may write: whatever the user may write: there is no sandbox\ngit repository: none\nnetwork of commands: not restricted\n</environment>\n | hello",
        harness.cwd().display()
    );
    assert_eq!(*first, expected);
}

#[tokio::test]
async fn an_environment_that_does_not_change_is_told_once() {
    let mut harness = harness([calls("c1", "look"), says(), says()]);
    harness.run("hello").await;
    harness.run("again").await;
    let outline = harness.model.requests()[2].outline();
    assert_eq!(outline.len(), 5, "{outline:?}");
    assert_eq!(outline.iter().filter(|line| line.contains("working directory")).count(), 1);
}

#[tokio::test]
async fn a_change_of_the_mode_is_told_with_the_next_request() {
    let mut harness = harness([says(), says(), says()]);
    harness.run("hello").await;
    harness.handle.permissions().set_mode(PermissionMode::ReadOnly).unwrap();
    harness.run("and now?").await;
    let told = "permissions: mode read-only: reads pass, all changes are refused";
    assert_eq!(last_updates(&harness.model), [told]);
    harness.run("again").await;
    assert_eq!(last_updates(&harness.model), [told]);
}

#[tokio::test]
async fn a_file_that_others_changed_is_told_until_it_is_read_again() {
    let plays = [
        calls("c1", "look"),
        says(),
        says(),
        calls("c2", "look"),
        says(),
        calls("c3", "look"),
        says(),
    ];
    let mut harness = harness(plays);
    let file = harness.cwd().join("file");
    harness.run("look").await;
    fs::write(&file, "other").unwrap();
    harness.run("go on").await;
    assert_eq!(last_updates(&harness.model), [MODIFIED]);
    harness.run("look again").await;
    assert_eq!(last_updates(&harness.model), [MODIFIED, "no longer: changed on disk file"]);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "third").unwrap();
    harness.run("once more").await;
    assert_eq!(last_updates(&harness.model).len(), 4);
}

#[tokio::test]
async fn a_file_that_a_call_of_the_agent_changed_is_not_told() {
    let mut harness = harness([calls("c1", "look"), calls("c2", "format"), says(), says()]);
    harness.run("format it").await;
    harness.run("go on").await;
    assert_eq!(last_updates(&harness.model), [""; 0]);
    let (handle, mut events) = reopen(&harness).await;
    harness.model.push(says());
    run(&handle, &mut events, "after a restart").await;
    assert_eq!(last_updates(&harness.model), [""; 0]);
}

#[tokio::test]
async fn a_session_that_is_opened_again_continues_with_the_same_messages() {
    let mut harness = harness([calls("c1", "look"), says(), says()]);
    harness.run("look").await;
    harness.handle.permissions().set_mode(PermissionMode::Ask).unwrap();
    harness.run("go on").await;
    let before = harness.model.requests().last().unwrap().messages.clone();
    fs::write(harness.cwd().join("file"), "changed while nobody ran").unwrap();
    let (handle, mut events) = reopen(&harness).await;
    harness.model.push(says());
    run(&handle, &mut events, "after a restart").await;
    let after = harness.model.requests().last().unwrap().messages.clone();
    assert_eq!(after[..before.len()], before);
    // Only what is new is told: not the mode, which was told before the restart.
    let told = last_updates(&harness.model);
    assert_eq!(told[1..], [MODIFIED]);
}

#[tokio::test]
async fn a_fresh_snapshot_follows_a_summary() {
    const WINDOW: u64 = 8_192;
    let look = crate::tools::Act::Say(crate::compaction::OUTPUT);
    let options = HarnessOptions {
        tools: crate::tools::tools(vec![("look", ToolCategory::Read, look)]),
        ..HarnessOptions::default()
    };
    let plays = (0..60)
        .map(|number| reply([call(&format!("c{number}"), "look", json!({"n": number}))]))
        .chain([says()]);
    let model = ScriptedModel::new(plays)
        .with_window(Some(WINDOW))
        .with_summary(reply([text("## Goal\nlook around")]));
    let mut harness = AgentHarness::start(model, options);
    harness.run("look at all of it").await;
    let requests = harness.model.requests();
    let is_summarized =
        |request: &&SeenRequest| request.outline().iter().any(|line| line.contains("<summary"));
    let summarized: Vec<_> = requests.iter().filter(is_summarized).collect();
    assert!(summarized.len() > 2);
    for request in summarized {
        let outline = request.outline();
        let summary = outline.iter().rposition(|line| line.contains("<summary")).unwrap();
        let later = &outline[summary..];
        let is_snapshot = |line: &&String| {
            line.contains("<environment_update>") && line.contains("working directory: ")
        };
        // A summary asked for later has the conversation, too.
        assert_eq!(later.iter().filter(is_snapshot).count(), 1, "{later:?}");
    }
}

#[tokio::test]
async fn the_checks_are_in_the_snapshot() {
    let model = ScriptedModel::new([says()]);
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let checks = vec![Check::new("test", "cargo test")];
    let surroundings = Surroundings { cwd, checks, ..Surroundings::default() };
    let mut agent = SpawnedAgent::start(&model, RuntimeConfig::default(), surroundings).await;
    run(&agent.handle, &mut agent.events, "hello").await;
    let first = &model.requests()[0].outline()[0];
    assert!(first.contains("\ncheck test: cargo test (not run yet)\n"), "{first}");
}

#[tokio::test]
async fn what_a_tool_adds_to_the_environment_is_told() {
    let model = ScriptedModel::new([says(), says()]);
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let surroundings = Surroundings { cwd, ..Surroundings::default() };
    let mut agent = SpawnedAgent::start(&model, RuntimeConfig::default(), surroundings).await;
    run(&agent.handle, &mut agent.events, "hello").await;
    agent.environment().change(|environment| {
        environment.system_mut().resources.insert("database".to_owned(), "down".to_owned());
        environment.set_extension("tables", json!(["users"])).unwrap();
    });
    run(&agent.handle, &mut agent.events, "again").await;
    assert_eq!(last_updates(&model), ["database: down\nextension tables: [\"users\"]"]);
}

#[tokio::test]
async fn a_fact_with_a_secret_is_told_once_and_without_it() {
    let model = ScriptedModel::new([says(), says(), says()]);
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let surroundings = Surroundings { cwd, ..Surroundings::default() };
    let config = RuntimeConfig {
        redactor: Redactor::new(["hunter2-hunter2".to_owned()]),
        ..RuntimeConfig::default()
    };
    let mut agent = SpawnedAgent::start(&model, config, surroundings).await;
    run(&agent.handle, &mut agent.events, "hello").await;
    agent.environment().change(|environment| {
        let resources = &mut environment.system_mut().resources;
        resources.insert("database".to_owned(), "at hunter2-hunter2".to_owned());
    });
    for prompt in ["again", "and again"] {
        run(&agent.handle, &mut agent.events, prompt).await;
        let told = last_updates(&model);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("database: at ") && !told[0].contains("hunter2"), "{told:?}");
    }
}

/// A clock that a test sets.
#[derive(Debug, Default)]
struct SetClock {
    seconds: AtomicI64,
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds.load(Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_long_time_between_two_turns_is_told() {
    let clock = Arc::new(SetClock::default());
    let model = ScriptedModel::new([says(), says(), says(), says()]);
    let runtime = RuntimeConfig { clock: Arc::clone(&clock) as _, ..RuntimeConfig::default() };
    let mut harness = AgentHarness::start(model, HarnessOptions { runtime, ..options() });
    harness.run("hello").await;
    for (seconds, told) in [
        (5 * 60, vec![]),
        (3 * 3_600, vec!["time since the last turn: 3 hours"]),
        (60, vec!["time since the last turn: 3 hours"]),
    ] {
        clock.seconds.fetch_add(seconds, Ordering::Relaxed);
        harness.run("and now?").await;
        assert_eq!(last_updates(&harness.model), told);
    }
}

#[tokio::test]
async fn a_window_that_a_server_told_is_known_after_a_restart() {
    let model = ScriptedModel::new([says(), says()]).with_window(None);
    model.tell_window(Some(8_192));
    let mut harness = AgentHarness::start(model.clone(), options());
    let windows = |events: &[Arc<Envelope>]| -> Vec<Option<u64>> {
        let prefixes = events.iter().filter_map(|envelope| match &envelope.event {
            AgentEvent::Usage { prefix, .. } => prefix.as_ref(),
            _ => None,
        });
        prefixes.map(|prefix| prefix.window).collect()
    };
    assert_eq!(windows(&harness.run("hello").await), [Some(8_192)]);
    // The server does not answer any more. The log describes the request once more only if something changed.
    model.tell_window(None);
    let (handle, mut events) = reopen(&harness).await;
    handle.send_input(vec![Block::text("again")]).unwrap();
    let mut seen = Vec::new();
    while !seen
        .last()
        .is_some_and(|end: &Arc<Envelope>| matches!(end.event, AgentEvent::RunEnd { .. }))
    {
        seen.push(events.next().await.unwrap());
    }
    assert_eq!(windows(&seen), []);
}

#[tokio::test]
async fn a_change_is_told_before_the_text_of_the_next_prompt() {
    let mut harness = harness([says(), says()]);
    harness.run("hello").await;
    harness.handle.permissions().set_mode(PermissionMode::ReadOnly).unwrap();
    harness.run("and now?").await;
    let outline = harness.model.requests()[1].outline();
    assert_eq!(
        outline.last().unwrap(),
        "user: <environment_update>\npermissions: mode read-only: reads pass, all changes are refused\n</environment_update>\n | and now?"
    );
}

#[tokio::test]
async fn another_day_is_told() {
    let clock = Arc::new(SetClock::default());
    let model = ScriptedModel::new([says(), says(), says()]);
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let surroundings = Surroundings::gather(&cwd, "2027-01-15");
    let config = RuntimeConfig { clock: Arc::clone(&clock) as _, ..RuntimeConfig::default() };
    let mut agent = SpawnedAgent::start(&model, config, surroundings).await;
    run(&agent.handle, &mut agent.events, "hello").await;
    run(&agent.handle, &mut agent.events, "on the same day").await;
    assert_eq!(last_updates(&model), [""; 0]);
    clock.seconds.fetch_add(24 * 3_600, Ordering::Relaxed);
    run(&agent.handle, &mut agent.events, "a day later").await;
    let told = last_updates(&model);
    assert!(told[0].contains("date: 2027-01-16"), "{told:?}");
}

/// An agent whose context the test sees.
struct SpawnedAgent {
    handle: AgentHandle,
    events: EventStream,
    context: Arc<AgentContext>,
    _runtime: CheckedRuntime,
}

impl SpawnedAgent {
    async fn start(
        model: &ScriptedModel,
        config: RuntimeConfig,
        surroundings: Surroundings,
    ) -> Self {
        let runtime = CheckedRuntime::new(config);
        let resolved = model.resolved();
        let reference = resolved.info.reference.clone();
        let spec = SessionSpec {
            abilities: resolved.info.abilities,
            ..SessionSpec::new("builder", reference, surroundings.cwd.clone())
        };
        let session = AgentSession::create(runtime.config(), spec).unwrap();
        let agent =
            BaseAgent::new("builder", AgentConfig::default(), resolved, ToolRegistry::new());
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let handle = runtime.spawn(session, |internals| {
            sender.send(Arc::clone(internals.context())).unwrap();
            serve(AcpAgent::solo(agent), surroundings, internals)
        });
        let events = handle.stream().unwrap();
        Self { handle, events, context: receiver.await.unwrap(), _runtime: runtime }
    }

    fn environment(&self) -> Arc<SessionEnvironment> {
        self.context.resources.get::<SessionEnvironment>().unwrap()
    }
}

/// Makes an empty repository with a file that is not committed, without starting git.
fn repository(folder: &TempDir) -> PathBuf {
    let cwd = folder.path().canonicalize().unwrap().join("project");
    for name in [".git/objects", ".git/refs/heads"] {
        fs::create_dir_all(cwd.join(name)).unwrap();
    }
    fs::write(cwd.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
    fs::write(cwd.join(".git/config"), config).unwrap();
    fs::write(cwd.join("users.txt"), "written by the user").unwrap();
    fs::write(cwd.join("Makefile"), "all:\n").unwrap();
    cwd
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn uncommitted_files_and_versions_are_told_after_the_first_request() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = repository(&folder);
    let sandbox = SandboxConfig::new(folder.path().canonicalize().unwrap().join("sandbox"));
    let model = ScriptedModel::new([Play::Stall("thinking".to_owned()), says()]);
    let path = ["/usr/local/bin:/usr/bin:/bin"];
    let variables = path.map(|path| ("PATH".to_owned(), path.to_owned()));
    let config = RuntimeConfig {
        sandbox: Some(sandbox),
        child_env: variables.into_iter().collect::<std::collections::BTreeMap<_, _>>().into(),
        ..RuntimeConfig::default()
    };
    let surroundings = Surroundings::gather(&cwd, "2026-01-02");
    let mut agent = SpawnedAgent::start(&model, config, surroundings).await;
    agent.handle.send_input(vec![Block::text("hello")]).unwrap();
    model.wait_for_request(1).await;
    if agent.context.access.as_ref().unwrap().containment().await
        != crow_core::capability::Containment::Full
    {
        // Without full confinement nothing is run.
        return;
    }
    let environment = agent.environment();
    let has_versions = || environment.environment().system().resources.contains_key("toolchains");
    wait_until(has_versions).await;
    agent.handle.interrupt();
    while !matches!(agent.events.next().await.unwrap().event, AgentEvent::RunEnd { .. }) {}
    run(&agent.handle, &mut agent.events, "go on").await;
    let requests = model.requests();
    assert_eq!(updates(&requests[0]), [""; 0]);
    let told = updates(&requests[1]);
    assert_eq!(told.len(), 1);
    let has_git = ["/usr/local/bin/git", "/usr/bin/git", "/bin/git"]
        .iter()
        .any(|path| Path::new(path).exists());
    assert!(told[0].starts_with("toolchains: "), "{told:?}");
    let dirty = "\ndirty Makefile: uncommitted changes\ndirty users.txt: uncommitted changes";
    assert_eq!(told[0].contains(dirty), has_git, "{told:?}");
}
