//! Fixture: an agent with tools that change files, some through a shell, one at a path that it declares in its plan.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{
        Answerer, JobInfo, OutputLimits, PermissionAnswer, PermissionRequest, ProcessEnd,
        ProcessSpec, QuestionAnswer, QuestionRequest,
    },
    event::{AgentEvent, AgentState, Envelope},
    ids::ReplyId,
    message::{Block, Origin, ReplyContent},
    model::StopReason,
    tool::{
        Access, CallPlan, Effects, PathEffect, Subject, ToolCategory, ToolContext, ToolError,
        ToolMetadata, ToolRegistry, ToolResult, TypedTool, TypedToolAdapter,
    },
    turn::RequestedCall,
};
use crow_runtime::{
    AgentError, AgentInternals, AgentSession, FileStore, RuntimeConfig, SandboxConfig,
    SessionStore, SnapshotLimits, SnapshotStores, UndoError, UndoJournal, UndoOptions, UndoReport,
    UndoTarget, resolve_path,
};
use crow_testkit::{
    NamedPipe,
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply, text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Answerer that allows every call.
#[derive(Debug)]
struct AllowAll;

#[async_trait]
impl Answerer for AllowAll {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::AllowOnce
    }
}

/// Answerer that allows every call and leaves questions to the user to the handle.
#[derive(Debug)]
pub(super) struct QuestionsToHandle;

#[async_trait]
impl Answerer for QuestionsToHandle {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::AllowOnce
    }

    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        std::future::pending().await
    }
}

/// Tool that runs a shell line. Its plan has unknown effects.
#[derive(Debug)]
struct Sh;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct LineInput {
    command: String,
}

#[async_trait]
impl TypedTool for Sh {
    type Input = LineInput;
    const NAME: &'static str = "sh";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Runs a line."
    }

    async fn plan(&self, input: &LineInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let (title, subject) = (input.command.clone(), Subject::Nothing);
        Ok(CallPlan { title, effects: Effects::Unknown, subject })
    }

    async fn execute(&self, input: LineInput, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let spec = spec(&input.command, Duration::from_mins(1), ctx);
        let outcome = ctx.processes.run(spec, ctx.cancellation.clone()).await.unwrap();
        let output = String::from_utf8_lossy(&outcome.output.head).into_owned();
        match outcome.end {
            ProcessEnd::Exited(0) => ToolResult::success(output),
            ProcessEnd::Cancelled => ToolResult::cancelled(),
            end @ (ProcessEnd::Exited(_) | ProcessEnd::Signaled(_) | ProcessEnd::TimedOut) => {
                ToolResult::failure(format!("{end:?}: {output}"))
            }
        }
    }
}

/// Tool that starts a shell line as a job.
#[derive(Debug)]
struct Job;

#[async_trait]
impl TypedTool for Job {
    type Input = LineInput;
    const NAME: &'static str = "job";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Starts a job."
    }

    async fn plan(&self, input: &LineInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let (title, subject) = (input.command.clone(), Subject::Nothing);
        Ok(CallPlan { title, effects: Effects::Unknown, subject })
    }

    async fn execute(&self, input: LineInput, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let jobs = ctx.jobs.clone().unwrap();
        let spec = spec(&input.command, Duration::MAX, ctx);
        let id = jobs.start(spec, plan.title.clone(), &ctx.cancellation).await.unwrap();
        let mut result = ToolResult::success("started");
        result.metadata.extra = json!({ JobInfo::EXTRA_KEY: id });
        result
    }
}

/// Tool that opens the gate of a job and waits until the job has answered.
#[derive(Debug)]
struct Gate;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct GateInput {
    open: PathBuf,
    answer: PathBuf,
}

#[async_trait]
impl TypedTool for Gate {
    type Input = GateInput;
    const NAME: &'static str = "gate";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Waits for a job."
    }

    async fn plan(&self, _input: &GateInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = "gate".to_owned();
        Ok(CallPlan { title, effects: Effects::None, subject: Subject::Nothing })
    }

    async fn execute(&self, input: GateInput, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        let (open, answer) = (NamedPipe::at(&input.open), NamedPipe::at(&input.answer));
        open.signal().await;
        answer.wait_for_signal().await;
        ToolResult::success("answered")
    }
}

fn spec(line: &str, timeout: Duration, ctx: &ToolContext) -> ProcessSpec {
    ProcessSpec {
        argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        cwd: ctx.workspace.cwd().to_path_buf(),
        env: BTreeMap::new(),
        timeout,
        output: OutputLimits { head: 4096, tail: 4096, spill: None, spill_cap: 0 },
        progress: ctx.progress.clone(),
        only_reads: false,
    }
}

/// Tool that writes a file and declares its path in its plan.
#[derive(Debug)]
struct Put;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct PutInput {
    path: String,
    text: String,
}

#[async_trait]
impl TypedTool for Put {
    type Input = PutInput;
    const NAME: &'static str = "put";
    const CATEGORY: ToolCategory = ToolCategory::Write;

    fn description(&self) -> &'static str {
        "Writes a file."
    }

    async fn plan(&self, input: &PutInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let path = resolve_path(&ctx.workspace.resolve(&input.path));
        let effect = PathEffect::new(path.clone(), Access::Write);
        Ok(CallPlan {
            title: format!("put {}", input.path),
            effects: Effects::Paths(vec![effect]),
            subject: Subject::Path(path),
        })
    }

    async fn execute(&self, input: PutInput, plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        let Subject::Path(path) = &plan.subject else { panic!("no path") };
        // Written to a second file and renamed, as the real tools do: other hard links keep their content.
        let temporary = path.with_file_name("beside");
        let written = fs::create_dir_all(path.parent().unwrap())
            .and_then(|()| fs::write(&temporary, input.text))
            .and_then(|()| {
                fs::rename(&temporary, path).inspect_err(|_| fs::remove_file(&temporary).unwrap())
            });
        match written {
            Ok(()) => ToolResult::success("written"),
            Err(error) => ToolResult::failure(error.to_string()),
        }
    }
}

/// An agent with its project folder, stores and session.
pub(super) struct UndoFixture {
    pub(super) agent: AgentHarness,
    pub(super) config: RuntimeConfig,
    root: PathBuf,
    number: usize,
    data: TempDir,
}

impl UndoFixture {
    /// Aborts the agent during a call, as if its process was killed: the log has the start of the call but not its end.
    pub(crate) async fn abort_during_call(&mut self, work: &str) {
        let marker = self.gate("marker").1;
        let line = format!("{work}; echo > {}; exec sleep 100", marker.display());
        self.agent.model.push(reply([call("c1", "sh", json!({"command": line}))]));
        let (handle, marker) = (self.agent.handle.clone(), NamedPipe::at(&marker));
        handle.send_input(vec![Block::text("go")]).unwrap();
        marker.wait_for_signal().await;
        handle.abort();
        handle.wait_for_end().await;
    }

    /// Removes the last line of `undo.jsonl`, as if the process was killed before writing it.
    pub(crate) fn remove_last_undo_line(&self) {
        let path = self.undo_file();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.rsplit_once('\n').unwrap().0).unwrap();
    }

    /// Returns the number of lines in `undo.jsonl`.
    pub(crate) fn undo_lines(&self) -> usize {
        let text = fs::read_to_string(self.undo_file()).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).count()
    }

    fn undo_file(&self) -> PathBuf {
        let session = self.agent.handle.session_id().as_str();
        find_folder(&self.data.path().join("sessions"), session).join("undo.jsonl")
    }

    /// Forks the session and removes the original from the snapshot store. Returns the journal of the fork.
    pub(crate) fn journal_of_copy(&self) -> UndoJournal {
        let original = self.agent.handle.session_id().clone();
        let abilities = self.agent.model.resolved().info.abilities;
        let copy = AgentSession::fork(&self.config, &original, abilities).unwrap();
        let id = copy.id().clone();
        drop(copy);
        let stores = self.config.snapshots.clone().unwrap();
        stores.forget_session(&self.root(), &original).unwrap();
        UndoJournal::open(&self.config, &id).unwrap()
    }

    pub(super) fn new() -> Self {
        Self::with_limits(SnapshotLimits::default())
    }

    pub(super) fn with_limits(limits: SnapshotLimits) -> Self {
        Self::with(limits, &[])
    }

    /// Creates a fixture whose agent works in these folders as well.
    pub(super) fn with(limits: SnapshotLimits, further: &[&Path]) -> Self {
        Self::with_sandbox(limits, further, Arc::new(AllowAll), |_| None)
    }

    /// Creates a fixture whose commands run in a sandbox.
    pub(super) fn in_sandbox() -> Self {
        Self::in_sandbox_with(Arc::new(AllowAll))
    }

    /// Creates a fixture with a sandbox and this answerer.
    pub(super) fn in_sandbox_with(answerer: Arc<dyn Answerer>) -> Self {
        let sandbox = |data: &Path| Some(SandboxConfig::new(data.join("sandbox")));
        Self::with_sandbox(SnapshotLimits::default(), &[], answerer, sandbox)
    }

    fn with_sandbox(
        limits: SnapshotLimits,
        further: &[&Path],
        answerer: Arc<dyn Answerer>,
        sandbox: impl FnOnce(&Path) -> Option<SandboxConfig>,
    ) -> Self {
        // The free space of this machine must not decide what is captured.
        let limits = SnapshotLimits { free_bytes: 0, ..limits };
        let data = tempfile::tempdir().unwrap();
        let snapshots = SnapshotStores::new(data.path().join("snapshots"), limits, None);
        let store: Arc<dyn SessionStore> = Arc::new(FileStore::new(data.path().join("sessions")));
        let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let config = RuntimeConfig {
            store,
            snapshots: Some(Arc::new(snapshots)),
            child_env: BTreeMap::from([("PATH".to_owned(), path)]).into(),
            sandbox: sandbox(data.path()),
            answerer,
            ..RuntimeConfig::default()
        };
        let runtime = config.clone();
        let agent = AgentHarness::start(ScriptedModel::new([]), options(runtime, further));
        Self { root: agent.cwd(), agent, config, number: 0, data }
    }

    /// Creates a second session with the files, the runtime and the stores of `other`.
    pub(super) fn second_session(other: &Self) -> Self {
        Self::second_session_with(other, &[])
    }

    /// Creates a second session whose agent works in these folders as well.
    pub(super) fn second_session_with(other: &Self, further: &[&Path]) -> Self {
        let options = options(other.config.clone(), further);
        let agent = other.agent.start_another(ScriptedModel::new([]), options);
        let data = tempfile::tempdir().unwrap();
        Self { root: other.root(), agent, config: other.config.clone(), number: 0, data }
    }

    /// Returns the folders of the snapshot stores.
    pub(super) fn stores(&self) -> Vec<PathBuf> {
        let stores = fs::read_dir(self.data.path().join("snapshots")).unwrap();
        stores.map(|store| store.unwrap().path()).collect()
    }

    pub(super) fn tools() -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        tools.register(TypedToolAdapter::new(Sh));
        tools.register(TypedToolAdapter::new(Put));
        tools.register(TypedToolAdapter::new(Job));
        tools.register(TypedToolAdapter::new(Gate));
        tools
    }

    /// Runs one `sh` call in an agent as if its model had requested it.
    pub(super) async fn make_call(
        internals: &mut AgentInternals,
        tools: &ToolRegistry,
        line: &str,
    ) -> Result<(), AgentError> {
        Self::make_call_of("sh", internals, tools, line).await
    }

    /// Runs one call of a tool that takes a shell line, in an agent as if its model had requested it.
    pub(super) async fn make_call_of(
        tool: &str,
        internals: &mut AgentInternals,
        tools: &ToolRegistry,
        line: &str,
    ) -> Result<(), AgentError> {
        let block = call("c1", tool, json!({ "command": line }));
        let ReplyContent::Call(tool_call) = block.content.clone() else { panic!("no call") };
        let reply_id = ReplyId::new("r1");
        internals.set_state(AgentState::Processing).await?;
        internals
            .emit(AgentEvent::Reply {
                reply_id: reply_id.clone(),
                blocks: vec![block],
                stop: StopReason::ToolUse,
                origin: Origin {
                    dialect: "none".to_owned(),
                    provider: "none".to_owned(),
                    base_url: "none".to_owned(),
                    model: "none".to_owned(),
                },
                response_id: None,
            })
            .await?;
        let calls = vec![RequestedCall::run(tool_call)];
        let cancel = CancellationToken::new();
        let done = internals.call(tools, &reply_id, calls, &cancel).await?;
        assert!(!done[0].result.is_error(), "{:?}", done[0].result);
        Ok(())
    }

    /// Returns a shell line that waits for its gate, does the work and reports that it is done.
    pub(super) fn gated(&self, name: &str, work: &str) -> String {
        let (open, answer) = self.gate(name);
        let (open, answer) = (open.display(), answer.display());
        format!("read line < {open}; {work}; echo > {answer}")
    }

    /// Returns the named pipes of a gate, outside of the project: one opens it, the other reports that the work is done.
    pub(super) fn gate(&self, name: &str) -> (PathBuf, PathBuf) {
        let path = |end| self.data.path().join(format!("{name}.{end}"));
        let pipes = (path("open"), path("done"));
        NamedPipe::make(&pipes.0);
        NamedPipe::make(&pipes.1);
        pipes
    }

    /// Returns the directory of the snapshot stores.
    pub(super) fn snapshots(&self) -> PathBuf {
        self.data.path().join("snapshots")
    }

    pub(super) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root().join(path)).is_ok()
    }

    /// Runs a turn in which the agent makes these calls, one per reply.
    pub(super) async fn turn(&mut self, calls: &[Call<'_>]) -> Vec<Arc<Envelope>> {
        for call in calls {
            self.number += 1;
            self.agent.model.push(call.play(&format!("c{}", self.number)));
        }
        self.agent.model.push(reply([text("done")]));
        self.agent.run("go").await
    }

    /// Runs a turn with one shell line and returns the metadata of its result.
    pub(super) async fn sh(&mut self, line: &str) -> ToolMetadata {
        metadata(&self.turn(&[Call::Sh(line)]).await)
    }

    pub(super) fn journal(&self) -> UndoJournal {
        self.agent.handle.undo_journal().unwrap()
    }

    /// Undoes on another thread while the agent is alive, as a command of the user does.
    pub(super) async fn undo(
        &self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let handle = self.agent.handle.clone();
        let work = move || handle.undo_journal()?.undo(&target, options);
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    pub(super) async fn rewind_conversation(
        &self,
        target: UndoTarget,
    ) -> Result<UndoReport, UndoError> {
        let handle = self.agent.handle.clone();
        let work = move || handle.undo_journal()?.rewind_conversation(&target, false);
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    pub(super) async fn redo(&self) -> Result<UndoReport, UndoError> {
        let handle = self.agent.handle.clone();
        let work = move || handle.undo_journal()?.redo(UndoOptions::default());
        tokio::task::spawn_blocking(work).await.unwrap()
    }
}

fn options(runtime: RuntimeConfig, further: &[&Path]) -> HarnessOptions {
    HarnessOptions {
        tools: UndoFixture::tools(),
        runtime,
        additional_directories: further.iter().map(|path| path.to_path_buf()).collect(),
        ..HarnessOptions::default()
    }
}

/// A call that the model makes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call<'a> {
    Sh(&'a str),
    Put(&'a str, &'a str),
    Job(&'a str),
    Gate(&'a (PathBuf, PathBuf)),
}

impl Call<'_> {
    pub(super) fn play(&self, id: &str) -> Play {
        match self {
            Self::Sh(command) => reply([call(id, "sh", json!({ "command": command }))]),
            Self::Job(command) => reply([call(id, "job", json!({ "command": command }))]),
            Self::Gate((open, answer)) => {
                reply([call(id, "gate", json!({ "open": open, "answer": answer }))])
            }
            Self::Put(path, text) => {
                reply([call(id, "put", json!({ "path": path, "text": text }))])
            }
        }
    }
}

/// Returns the metadata of the last call's result.
pub(super) fn metadata(events: &[Arc<Envelope>]) -> ToolMetadata {
    let ends = events.iter().rev().filter_map(|event| {
        let AgentEvent::CallEnd { result, .. } = &event.event else { return None };
        Some(result.metadata.clone())
    });
    ends.into_iter().next().expect("no call ended")
}

/// Returns everything below a folder except `.git`: bytes, modes, links, empty folders.
pub(super) fn tree_state(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    read_tree(root, root, &mut found);
    found
}

/// Finds a folder whose name contains `name`.
fn find_folder(folder: &Path, name: &str) -> PathBuf {
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().contains(name) && path.is_dir() {
                return path;
            }
            open.extend(path.is_dir().then_some(path));
        }
    }
    panic!("there is no {name}");
}

fn read_tree(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() == ".git" {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let key = path.strip_prefix(root).unwrap().to_path_buf();
        if metadata.is_symlink() {
            found.insert(key, format!("link {}", fs::read_link(&path).unwrap().display()));
        } else if metadata.is_dir() {
            found.insert(key, format!("folder {mode:o}"));
            read_tree(root, &path, found);
        } else if metadata.is_file() {
            let bytes = fs::read(&path).unwrap();
            found.insert(key, format!("file {mode:o} {}", String::from_utf8_lossy(&bytes)));
        } else {
            found.insert(key, format!("special {:o}", metadata.mode()));
        }
    }
}
