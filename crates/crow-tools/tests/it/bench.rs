//! A test bench: a workspace in a temporary folder, and calls of the tools in it.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{
        CapturedOutput, Containment, JobError, JobInfo, JobOutput, Jobs, OutputPosition,
        ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec, Processes,
    },
    ids::JobId,
    model::{Abilities, ModelRef},
    tool::{
        AgentContext, CallPlan, CurrentModel, Preview, Tool, ToolContext, ToolError, ToolResult,
        ToolStatus,
    },
    workspace::Workspace,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crow_testkit::tools::{agent_context, tool_context};
use crow_tools::builtin_tools;

/// A workspace with all built-in tools and faked processes.
#[derive(Debug)]
pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) ctx: ToolContext,
    pub(crate) processes: Arc<FakeProcesses>,
    tools: Tools,
}

struct Tools(Vec<Arc<dyn Tool>>);

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tools")
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_abilities(Abilities::default())
    }

    pub(crate) fn with_abilities(abilities: Abilities) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let processes = Arc::new(FakeProcesses::default());
        let reference = ModelRef { provider: "p".into(), model: "m".into() };
        let agent = AgentContext {
            model: CurrentModel::new(reference, abilities),
            scratch: Some(folder.path().join("scratch")),
            processes: Arc::clone(&processes) as Arc<dyn Processes>,
            user_processes: Arc::clone(&processes) as Arc<dyn Processes>,
            jobs: Some(Arc::clone(&processes) as Arc<dyn Jobs>),
            ..agent_context(Workspace::new(root))
        };
        let ctx = tool_context(agent);
        Self { folder, ctx, processes, tools: Tools(builtin_tools()) }
    }

    /// Returns a path in the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ctx.workspace.cwd().join(name)
    }

    /// Returns a path outside the workspace, beside it.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        Arc::clone(self.tools.0.iter().find(|tool| tool.name() == name).unwrap())
    }

    pub(crate) async fn plan(&self, tool: &str, input: &Value) -> Result<CallPlan, ToolError> {
        self.tool(tool).plan(input, &self.ctx).await
    }

    pub(crate) async fn preview(&self, tool: &str, input: &Value) -> Result<Preview, ToolError> {
        let tool = self.tool(tool);
        let plan = tool.plan(input, &self.ctx).await?;
        Ok(tool.preview(input, &plan, &self.ctx).await?.unwrap())
    }

    /// Plans and executes a call without a preview.
    pub(crate) async fn run(&self, tool: &str, input: Value) -> ToolResult {
        self.run_in(tool, input, &self.ctx).await
    }

    pub(crate) async fn run_in(&self, tool: &str, input: Value, ctx: &ToolContext) -> ToolResult {
        let tool = self.tool(tool);
        match tool.plan(&input, ctx).await {
            Ok(plan) => tool.execute(input, &plan, ctx).await,
            Err(error) => error.to_result(),
        }
    }

    /// Runs a call that must succeed and returns its output.
    pub(crate) async fn ok(&self, tool: &str, input: Value) -> String {
        let result = self.run(tool, input).await;
        assert_eq!(result.status, ToolStatus::Success, "{}", result.output);
        result.output
    }

    /// Runs a call that must fail and returns its output.
    pub(crate) async fn fails(&self, tool: &str, input: Value) -> String {
        let result = self.run(tool, input).await;
        assert_eq!(result.status, ToolStatus::Error, "{}", result.output);
        assert!(result.error.is_some());
        result.output
    }

    pub(crate) fn make_fifo(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
}

/// Answers every command with the same outcome and records the requests.
#[derive(Debug, Default)]
pub(crate) struct FakeProcesses {
    pub(crate) outcome: Mutex<Option<ProcessOutcome>>,
    pub(crate) missing_programs: Mutex<Vec<&'static str>>,
    pub(crate) specs: Mutex<Vec<ProcessSpec>>,
    /// True if commands really run, instead of returning `outcome`.
    pub(crate) is_real: AtomicBool,
    /// The only job, if any.
    pub(crate) job: Mutex<Option<JobOutput>>,
    /// Position and waiting time of each read of the job.
    pub(crate) reads: Mutex<Vec<(OutputPosition, Option<Duration>)>>,
    pub(crate) kills: Mutex<Vec<JobId>>,
}

impl FakeProcesses {
    pub(crate) fn answers(&self, end: ProcessEnd, output: CapturedOutput) {
        let duration = Duration::from_millis(5);
        *self.outcome.lock().unwrap() = Some(ProcessOutcome {
            end,
            output,
            left_running: false,
            detached_count: 0,
            duration,
            containment: Containment::None,
            quarantined: Vec::new(),
            refused_hosts: Vec::new(),
        });
    }

    #[expect(clippy::disallowed_methods, reason = "stands in for the runtime's processes")]
    fn run_now(spec: &ProcessSpec) -> ProcessOutcome {
        let (program, arguments) = spec.argv.split_first().unwrap();
        let output = std::process::Command::new(program)
            .args(arguments)
            .envs(&spec.env)
            .current_dir(&spec.cwd)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let status = output.status;
        let end = match status.code() {
            Some(code) => ProcessEnd::Exited(code),
            None => ProcessEnd::Signaled(status.signal().unwrap()),
        };
        let head = [output.stdout, output.stderr].concat();
        let output = CapturedOutput { total: head.len() as u64, head, ..CapturedOutput::default() };
        ProcessOutcome {
            end,
            output,
            left_running: false,
            detached_count: 0,
            duration: Duration::ZERO,
            containment: Containment::None,
            quarantined: Vec::new(),
            refused_hosts: Vec::new(),
        }
    }

    fn find_job(&self, id: &JobId) -> Result<JobOutput, JobError> {
        let job = self.job.lock().unwrap().clone();
        job.filter(|output| output.job.id == *id).ok_or_else(|| JobError::Unknown {
            id: id.clone(),
            known: self.list().into_iter().map(|job| job.id).collect(),
        })
    }

    /// Returns the programs of all requests, in order.
    pub(crate) fn programs(&self) -> Vec<String> {
        self.specs.lock().unwrap().iter().map(|spec| spec.argv.first().unwrap().clone()).collect()
    }
}

#[async_trait]
impl Processes for FakeProcesses {
    async fn run(
        &self,
        spec: ProcessSpec,
        _cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        let program = spec.argv.first().unwrap().clone();
        self.specs.lock().unwrap().push(spec.clone());
        if self.is_real.load(Ordering::Relaxed) {
            return Ok(Self::run_now(&spec));
        }
        if self.missing_programs.lock().unwrap().contains(&program.as_str()) {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ProcessError::Start { program, source });
        }
        self.outcome.lock().unwrap().clone().ok_or(ProcessError::Unavailable)
    }
}

#[async_trait]
impl Jobs for FakeProcesses {
    async fn start(
        &self,
        spec: ProcessSpec,
        _title: String,
        cancellation: &CancellationToken,
    ) -> Result<JobId, ProcessError> {
        self.answers(ProcessEnd::Exited(0), CapturedOutput::default());
        self.run(spec, cancellation.clone()).await?;
        Ok(self.list()[0].id.clone())
    }

    fn read(&self, id: &JobId, since: OutputPosition) -> Result<JobOutput, JobError> {
        self.reads.lock().unwrap().push((since, None));
        self.find_job(id)
    }

    async fn wait(
        &self,
        id: &JobId,
        since: OutputPosition,
        patience: Duration,
        _cancellation: &CancellationToken,
    ) -> Result<JobOutput, JobError> {
        self.reads.lock().unwrap().push((since, Some(patience)));
        self.find_job(id)
    }

    async fn kill(&self, id: &JobId) -> Result<(), JobError> {
        self.find_job(id)?;
        self.kills.lock().unwrap().push(id.clone());
        Ok(())
    }

    fn list(&self) -> Vec<JobInfo> {
        self.job.lock().unwrap().iter().map(|output| output.job.clone()).collect()
    }

    fn take_ended(&self) -> Vec<JobInfo> {
        Vec::new()
    }
}
