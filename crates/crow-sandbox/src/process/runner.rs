//! The runner.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use async_trait::async_trait;
use crow_core::capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes};
use tokio::{net::unix::pipe, process::Command};
use tokio_util::sync::CancellationToken;

use super::{
    command_process::CommandProcess,
    environment::ChildEnvironment,
    group::ProcessGroup,
    output::OutputBuffer,
    running_process::{OutputSink, ProcessParts, RunningProcess},
};
use crate::orphans::CommandMark;
use crate::sandbox::{
    CommandKind, CommandLaunch, Program, Sandbox, SandboxProfile, SandboxedCommand,
};

/// How long the line of a command may be that the user is told, in bytes.
const LINE: usize = 80;
/// Where programs are looked for if the children have no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts processes with an environment of its own and nothing of the agent's.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    pub(super) env: ChildEnvironment,
    pub(super) sandbox: Option<Arc<Sandbox>>,
    /// Whether processes may change no files of the workspace.
    is_read_only: Arc<AtomicBool>,
}

impl ProcessRunner {
    /// Makes a runner whose processes see `env` and what each call adds.
    pub fn new(env: impl Into<ChildEnvironment>) -> Self {
        Self { env: env.into(), sandbox: None, is_read_only: Arc::default() }
    }

    /// Lets a sandbox hold the processes.
    #[must_use]
    pub fn in_sandbox(self, sandbox: Arc<Sandbox>) -> Self {
        Self { sandbox: Some(sandbox), ..self }
    }

    /// Sets what the processes of this runner, and of its clones, may change from now on, if a sandbox holds them.
    pub fn set_profile(&self, profile: SandboxProfile) {
        self.is_read_only.store(profile == SandboxProfile::ReadOnly, Ordering::Relaxed);
    }

    /// Returns whether the processes may change no files of the workspace, if a sandbox holds them.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    fn profile(&self, spec: &ProcessSpec) -> SandboxProfile {
        if spec.only_reads || self.is_read_only() {
            SandboxProfile::ReadOnly
        } else {
            SandboxProfile::Workspace
        }
    }

    /// Makes ready what a process needs beside what it is asked to do.
    pub(super) async fn prepare(
        &self,
        spec: &ProcessSpec,
        kind: CommandKind,
        cancellation: &CancellationToken,
    ) -> Result<ProcessSetup, ProcessError> {
        let prepare = async {
            let env = self.env.variables().await;
            let confined = match &self.sandbox {
                Some(sandbox) => {
                    let (line, profile) = (command_line(&spec.argv), self.profile(spec));
                    Some(sandbox.confine(&line, &spec.cwd, profile, kind).await?)
                }
                None => None,
            };
            Ok(ProcessSetup { env, confined })
        };
        let prepared = cancellation.run_until_cancelled(prepare).await;
        prepared.unwrap_or(Err(ProcessError::Cancelled))
    }
}

#[async_trait]
impl Processes for ProcessRunner {
    async fn run(
        &self,
        spec: ProcessSpec,
        cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        let started = Instant::now();
        let prepared = self.prepare(&spec, CommandKind::Foreground, &cancellation).await?;
        let buffer = OutputBuffer::new(spec.output.clone());
        let running = start(prepared, spec, buffer)?;
        let ended = running.end(&cancellation).await?;
        Ok(ProcessOutcome {
            end: ended.end,
            output: ended.sink.finish(),
            left_running: ended.left_running,
            detached: ended.detached,
            duration: started.elapsed(),
            containment: ended.containment,
            put_aside: ended.put_aside,
            refused_hosts: ended.refused_hosts,
        })
    }
}

/// Returns how the user is told of a command: the line of a shell, or the words. A shell that is given a line and arguments
/// runs what the first of these says behind the name of the shell, as the shell of the tools does.
fn command_line(argv: &[String]) -> String {
    let line = match argv {
        [_, option, line] if option == "-c" => line.clone(),
        [_, option, _, _, line, ..] if option == "-c" => line.clone(),
        _ => argv.join(" "),
    };
    crow_text::shorten(&crow_text::one_line(&line), LINE)
}

/// What a process needs beside what it is asked to do.
#[derive(Debug)]
pub(super) struct ProcessSetup {
    /// What it sees, beside what its spec adds.
    pub env: Arc<BTreeMap<String, String>>,
    /// What holds it.
    pub confined: Option<SandboxedCommand>,
}

/// Starts a process.
pub(super) fn start<S: OutputSink>(
    prepared: ProcessSetup,
    spec: ProcessSpec,
    sink: S,
) -> Result<RunningProcess<S>, ProcessError> {
    let program = spec.argv.first().cloned().unwrap_or_default();
    let start_error = |source| ProcessError::Start { program: program.clone(), source };
    let ProcessSetup { env, mut confined } = prepared;
    let path = find(&env, &program).ok_or_else(|| start_error(io::ErrorKind::NotFound.into()))?;
    let (reader, writer) = io::pipe().map_err(ProcessError::Watch)?;
    let mut mark = CommandMark::new();
    let variables = mark.variable();
    let marked = variables.as_ref().map(|(name, value)| (*name, value.as_str()));
    let told = confined.as_ref().map(|confined| confined.variables().clone()).unwrap_or_default();
    let mut all: BTreeMap<&OsStr, &OsStr> = BTreeMap::new();
    let texts = env.iter().chain(&spec.env).map(|(name, value)| (name.as_str(), value.as_str()));
    all.extend(texts.chain(marked).map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    all.extend(told.iter().map(|(name, value)| (OsStr::new(*name), value.as_os_str())));
    let launch = CommandLaunch { path: &path, argv: &spec.argv, env: all, output: writer.into() };
    let started = match &mut confined {
        Some(confined) if confined.ends_all() => {
            let started = start_held(&mut mark, confined, &launch);
            // What it prints ends with it.
            drop(launch);
            started
        }
        confined => {
            let start = || {
                let streams = StandardStreams::only_output(&launch)?;
                spawn(launch, streams, &spec.cwd, confined.as_mut()).map(CommandProcess::Own)
            };
            mark.start(start, CommandProcess::id, true)
        }
    };
    let child = started.map_err(|error| {
        let failure = confined.as_mut().and_then(SandboxedCommand::failure);
        // What is not there at all is no matter of the sandbox.
        let failure = failure.filter(|_| spec.cwd.is_dir());
        failure.map_or_else(|| start_error(error), ProcessError::Sandbox)
    })?;
    let group = ProcessGroup::new(child.id());
    let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(ProcessError::Watch)?;
    let ProcessSpec { timeout, progress, .. } = spec;
    Ok(RunningProcess::new(ProcessParts {
        child,
        group,
        mark,
        pipe,
        sink,
        progress,
        timeout,
        confined,
    }))
}

/// Starts a process by what starts those of a sandbox; by another of these, if that one has ended.
fn start_held(
    mark: &mut CommandMark,
    confined: &mut SandboxedCommand,
    launch: &CommandLaunch<'_>,
) -> io::Result<CommandProcess> {
    let mut start = |confined: &mut SandboxedCommand| {
        mark.start(|| CommandProcess::given(confined.start(launch)?), CommandProcess::id, false)
    };
    let first = start(confined);
    if !confined.lacks_starter() {
        return first;
    }
    confined.renew().map_err(|error| {
        let text = format!("what starts commands has ended, and cannot be made anew: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let second = start(confined);
    if confined.lacks_starter() {
        let text = "what starts commands has ended, and so has what was made in its place";
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, text));
    }
    second
}

/// What a process reads from and prints to, beside what takes its output.
pub(super) struct StandardStreams {
    pub input: Stdio,
    pub output: Stdio,
}

impl StandardStreams {
    /// There is nothing to read, and errors and output go the same way.
    fn only_output(launch: &CommandLaunch<'_>) -> io::Result<Self> {
        Ok(Self { input: Stdio::null(), output: Stdio::from(launch.output.try_clone()?) })
    }
}

/// Starts a process that nothing but itself ends, perhaps held by what there is.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub(super) fn spawn(
    launch: CommandLaunch<'_>,
    streams: StandardStreams,
    cwd: &Path,
    confined: Option<&mut SandboxedCommand>,
) -> io::Result<tokio::process::Child> {
    let name = launch.argv.first().map_or_else(|| launch.path.into(), OsString::from);
    let arguments = launch.argv.iter().skip(1).map(OsString::from).collect();
    let mut program = Program { path: launch.path.to_owned(), name, arguments };
    if let Some(confined) = &confined {
        program = confined.program(program);
    }
    let mut command = Command::new(program.path);
    command
        .arg0(program.name)
        .args(program.arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(launch.env)
        .stdin(streams.input)
        .stdout(streams.output)
        .stderr(Stdio::from(launch.output))
        .kill_on_drop(true);
    match confined {
        // It becomes the leader of a session, and thereby of a group.
        Some(confined) if confined.containment().holds() => confined.apply(&mut command),
        Some(_) | None => {
            command.process_group(0);
        }
    }
    command.spawn()
}

/// Looks a program up in the children's `PATH`. Given a whole path the standard library can start it without copying this
/// process first, which is most of what a start costs.
pub(super) fn find(env: &BTreeMap<String, String>, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let folders = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let candidates = std::env::split_paths(folders).map(|folder| folder.join(program));
    candidates.into_iter().find(|path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    })
}
