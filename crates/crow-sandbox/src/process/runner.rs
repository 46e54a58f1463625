//! The process runner: prepares and starts commands, in a sandbox if there is one.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::{self, PipeReader},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::{
    capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes},
    tool::Progress,
};
use crow_fs::SearchPath;
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
    CommandKind, CommandLaunch, CommandStreams, Program, Sandbox, SandboxProfile, SandboxedCommand,
};

/// Maximum length of a command line as shown to the user, in bytes.
const LINE: usize = 80;
/// Variable with the search path for programs.
const SEARCH_PATH: &str = "PATH";
/// Shells that run the lines of tools, checks and hooks.
const SHELLS: [&str; 2] = ["bash", "sh"];
/// Search path for programs if the children have none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts processes with a given environment; nothing of the agent's own environment is inherited.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    pub(super) env: ChildEnvironment,
    pub(super) sandbox: Option<Arc<Sandbox>>,
    /// Folders of the project.
    roots: Arc<[PathBuf]>,
    /// Variables of processes that only read. The folders of `PATH` are resolved once: what a link among them leads to
    /// is changed by the user alone.
    reading_env: Arc<OnceLock<Arc<BTreeMap<String, String>>>>,
    /// True if processes must not change files of the workspace.
    is_read_only: Arc<AtomicBool>,
}

impl ProcessRunner {
    /// Creates a runner whose processes see `env` and the variables that each call adds.
    pub fn new(env: impl Into<ChildEnvironment>) -> Self {
        Self {
            env: env.into(),
            sandbox: None,
            roots: Arc::default(),
            reading_env: Arc::default(),
            is_read_only: Arc::default(),
        }
    }

    /// Sets the folders of the project: no shell is started from them, and processes that only read find no programs
    /// there by `PATH`.
    #[must_use]
    pub fn with_project_roots(self, roots: &[PathBuf]) -> Self {
        Self { roots: roots.into(), reading_env: Arc::default(), ..self }
    }

    /// Runs the processes in a sandbox.
    #[must_use]
    pub fn in_sandbox(self, sandbox: Arc<Sandbox>) -> Self {
        Self { sandbox: Some(sandbox), ..self }
    }

    /// Sets what the processes of this runner, and of its clones, may change from now on. Has an effect
    /// only with a sandbox.
    pub fn set_profile(&self, profile: SandboxProfile) {
        self.is_read_only.store(profile == SandboxProfile::ReadOnly, Ordering::Relaxed);
    }

    /// Returns true if the processes may not change files of the workspace. Has an effect only with a
    /// sandbox.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    /// Prepares the environment and the confinement of a process.
    pub(super) async fn prepare(
        &self,
        wanted: WantedProcess<'_>,
        kind: CommandKind,
        cancellation: &CancellationToken,
    ) -> Result<ProcessSetup, ProcessError> {
        let WantedProcess { argv, cwd, only_reads } = wanted;
        let is_read_only = only_reads || self.is_read_only();
        let prepare = async {
            let mut env = self.env.variables().await;
            if only_reads {
                let outside = || without_programs_of_project(env, &self.roots);
                env = Arc::clone(self.reading_env.get_or_init(outside));
            }
            let confined = match &self.sandbox {
                Some(sandbox) => {
                    let profile = if is_read_only {
                        SandboxProfile::ReadOnly
                    } else {
                        SandboxProfile::Workspace
                    };
                    Some(sandbox.confine(&command_line(argv), cwd, profile, kind).await?)
                }
                None => None,
            };
            Ok(ProcessSetup { env, sandboxed_command: confined, roots: Arc::clone(&self.roots) })
        };
        let prepared = cancellation.run_until_cancelled(prepare).await;
        prepared.unwrap_or(Err(ProcessError::Cancelled))
    }
}

#[async_trait]
impl Processes for ProcessRunner {
    #[tracing::instrument(
        level = "debug",
        name = "process",
        skip_all,
        fields(program = program_name(&spec.argv), is_sandboxed = self.sandbox.is_some())
    )]
    async fn run(
        &self,
        spec: ProcessSpec,
        cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        let started = Instant::now();
        let prepared = self.prepare((&spec).into(), CommandKind::Foreground, &cancellation).await?;
        let buffer = OutputBuffer::new(spec.output.clone());
        let running = start(prepared, spec, buffer)?;
        tracing::debug!(
            pid = running.id(),
            prepared_ms = started.elapsed().as_millis(),
            "process started"
        );
        let ended = running.end(&cancellation).await?;
        let duration_ms = started.elapsed().as_millis();
        tracing::debug!(end = ?ended.end, containment = %ended.containment, duration_ms, "process ended");
        Ok(ProcessOutcome {
            end: ended.end,
            output: ended.sink.finish(),
            left_running: ended.left_running,
            detached_count: ended.detached,
            duration: started.elapsed(),
            containment: ended.containment,
            quarantined: ended.put_aside,
            refused_hosts: ended.refused_hosts,
        })
    }

    async fn search_path(&self) -> Option<String> {
        self.env.variables().await.get(SEARCH_PATH).cloned()
    }
}

/// Returns the variables with a `PATH` in which the project has no folder: nobody was asked about its programs.
fn without_programs_of_project(
    env: Arc<BTreeMap<String, String>>,
    roots: &[PathBuf],
) -> Arc<BTreeMap<String, String>> {
    let path = SearchPath::new(env.get(SEARCH_PATH).map(String::as_str), roots);
    if !path.has_folder_of_project() {
        return env;
    }
    let mut env = BTreeMap::clone(&env);
    env.insert(SEARCH_PATH.to_owned(), path.value_outside());
    Arc::new(env)
}

/// Returns the first word of a command, for the log, which contains no arguments.
pub(super) fn program_name(argv: &[String]) -> &str {
    argv.first().map_or("", String::as_str)
}

/// Returns the command as shown to the user: the script of a shell, or the words. A shell with `-c`, a
/// script and arguments runs the first of these behind the name of the shell, as the shell of the tools
/// does.
fn command_line(argv: &[String]) -> String {
    let line = match argv {
        [_, option, line] if option == "-c" => line.clone(),
        [_, option, _, _, line, ..] if option == "-c" => line.clone(),
        _ => argv.join(" "),
    };
    crow_text::shorten(&crow_text::one_line(&line), LINE)
}

/// Properties of a process for which its start is prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedProcess<'a> {
    pub argv: &'a [String],
    pub cwd: &'a Path,
    /// True if it need not change the workspace.
    pub only_reads: bool,
}

impl<'a> From<&'a ProcessSpec> for WantedProcess<'a> {
    fn from(spec: &'a ProcessSpec) -> Self {
        Self { argv: &spec.argv, cwd: &spec.cwd, only_reads: spec.only_reads }
    }
}

/// Environment and confinement of a process that is about to start.
#[derive(Debug)]
pub(super) struct ProcessSetup {
    /// Variables to which those of the spec are added.
    pub env: Arc<BTreeMap<String, String>>,
    /// Sandbox of the command, if any.
    pub sandboxed_command: Option<SandboxedCommand>,
    /// Folders of the project, in which no shell is looked for.
    pub roots: Arc<[PathBuf]>,
}

/// Starts a process. Its output and its errors go to one pipe, which the process that is returned reads.
pub(super) fn start<S: OutputSink>(
    prepared: ProcessSetup,
    spec: ProcessSpec,
    sink: S,
) -> Result<RunningProcess<S>, ProcessError> {
    let (reader, writer) = io::pipe().map_err(ProcessError::Watch)?;
    let streams = CommandStreams::merged(writer.into()).map_err(ProcessError::Watch)?;
    let ProcessSpec { argv, cwd, env, timeout, progress, .. } = spec;
    let started = start_with(prepared, (&argv, &cwd, &env), streams)?;
    started.watched(reader, sink, progress, timeout)
}

/// A process that was started and is not read yet.
pub(super) struct StartedProcess {
    child: CommandProcess,
    mark: CommandMark,
    sandboxed_command: Option<SandboxedCommand>,
}

impl StartedProcess {
    /// Reads the pipe to a sink while the process runs.
    pub(super) fn watched<S: OutputSink>(
        self,
        pipe: PipeReader,
        sink: S,
        progress: Progress,
        timeout: Duration,
    ) -> Result<RunningProcess<S>, ProcessError> {
        let Self { child, mark, sandboxed_command } = self;
        let group = ProcessGroup::new(child.id());
        let pipe =
            pipe::Receiver::from_owned_fd(OwnedFd::from(pipe)).map_err(ProcessError::Watch)?;
        Ok(RunningProcess::new(ProcessParts {
            child,
            group,
            mark,
            pipe,
            sink,
            progress,
            timeout,
            sandboxed_command,
        }))
    }
}

/// Starts a process with a command line, in a directory, with variables added to its environment.
pub(super) fn start_with(
    prepared: ProcessSetup,
    (argv, cwd, variables): (&[String], &Path, &BTreeMap<String, String>),
    streams: CommandStreams,
) -> Result<StartedProcess, ProcessError> {
    // An empty name is not found.
    let program = argv.first().cloned().unwrap_or_default();
    let start_error = |source| ProcessError::Start { program: program.clone(), source };
    let ProcessSetup { env, sandboxed_command: mut confined, roots } = prepared;
    // 1) Program and environment. Later variables override earlier ones: the sandbox has the last word.
    let own_path = variables.get(SEARCH_PATH).or_else(|| env.get(SEARCH_PATH));
    let path = find(own_path.map(String::as_str), &program, &roots)
        .ok_or_else(|| start_error(io::ErrorKind::NotFound.into()))?;
    // A relative path is relative to the working directory.
    let path = if path.is_relative() { cwd.join(path) } else { path };
    let mut mark = CommandMark::new();
    let mark_value = mark.variable();
    let mark_variable = mark_value.as_ref().map(|(name, value)| (*name, value.as_str()));
    let sandbox_variables =
        confined.as_ref().map(|confined| confined.variables().clone()).unwrap_or_default();
    let mut all: BTreeMap<&OsStr, &OsStr> = BTreeMap::new();
    let texts = env.iter().chain(variables).map(|(name, value)| (name.as_str(), value.as_str()));
    all.extend(
        texts.chain(mark_variable).map(|(name, value)| (OsStr::new(name), OsStr::new(value))),
    );
    all.extend(
        sandbox_variables.iter().map(|(name, value)| (OsStr::new(*name), value.as_os_str())),
    );
    let launch = CommandLaunch { path: &path, argv, env: all, streams };
    // 2) Start: by the keeper, or as a child of this program.
    let started = match &mut confined {
        Some(confined) if confined.ends_descendants() => {
            let started = start_by_keeper(&mut mark, confined, &launch);
            // The write ends of the pipes must close here, so that reading ends with the command.
            drop(launch);
            started
        }
        confined => {
            let start = || spawn(launch, cwd, confined.as_mut()).map(CommandProcess::Own);
            mark.start(start, CommandProcess::id, true)
        }
    };
    // 3) Prefer the sandbox's reason for a failed start.
    let child = started.map_err(|error| {
        let failure = confined.as_mut().and_then(SandboxedCommand::failure);
        // A working directory that does not exist is not reported as a failure of the sandbox.
        let is_there = cwd.is_dir();
        match failure.filter(|_| is_there) {
            Some(failure) => ProcessError::Sandbox(failure),
            None if is_there => start_error(error),
            None => start_error(no_folder(cwd)),
        }
    })?;
    Ok(StartedProcess { child, mark, sandboxed_command: confined })
}

/// Names the missing working directory, since the system's error does not.
fn no_folder(cwd: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", cwd.display()))
}

/// Starts a process by the sandbox's keeper; starts a new keeper, once, if that has ended.
fn start_by_keeper(
    mark: &mut CommandMark,
    confined: &mut SandboxedCommand,
    launch: &CommandLaunch<'_>,
) -> io::Result<CommandProcess> {
    let mut start = |confined: &mut SandboxedCommand| {
        mark.start(|| CommandProcess::adopt(confined.start(launch)?), CommandProcess::id, false)
    };
    let first = start(confined);
    if !confined.is_keeper_gone() {
        return first;
    }
    confined.restart_keeper().map_err(|error| {
        let text =
            format!("the process that starts commands has ended, and cannot be restarted: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let second = start(confined);
    if confined.is_keeper_gone() {
        let text = "the process that starts commands has ended, and so has its replacement";
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, text));
    }
    second
}

/// Starts a process as a child of this program, confined if `confined` is given.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
fn spawn(
    launch: CommandLaunch<'_>,
    cwd: &Path,
    confined: Option<&mut SandboxedCommand>,
) -> io::Result<tokio::process::Child> {
    let name = launch.argv.first().map_or_else(|| launch.path.into(), OsString::from);
    let arguments = launch.argv.iter().skip(1).map(OsString::from).collect();
    let mut program = Program { path: launch.path.to_owned(), name, arguments };
    if let Some(confined) = &confined {
        program = confined.program(program);
    }
    let CommandStreams { input, output, errors } = launch.streams;
    let mut command = Command::new(program.path);
    command
        .arg0(program.name)
        .args(program.arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(launch.env)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .kill_on_drop(true);
    match confined {
        // It calls `setsid`, and thereby leads a process group, too.
        Some(confined) if confined.containment().has_any_layer() => confined.apply(&mut command),
        Some(_) | None => {
            command.process_group(0);
        }
    }
    command.spawn()
}

/// Finds a program in a search path. With a full path the standard library can start it without
/// forking this process, which is most of the cost of a start.
fn find(search_path: Option<&str>, program: &str, roots: &[PathBuf]) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    // The line was judged as one of a shell, which one of the project need not be.
    if SHELLS.contains(&program) {
        return SearchPath::new(search_path, roots).find_outside(program);
    }
    let folders = search_path.unwrap_or(DEFAULT_PATH);
    let candidates = std::env::split_paths(folders).map(|folder| folder.join(program));
    candidates.into_iter().find(|path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    })
}
