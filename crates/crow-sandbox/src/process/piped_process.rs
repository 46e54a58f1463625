//! Processes with pipes for standard input, output and error.

use std::{
    collections::BTreeMap, ffi::OsStr, io, os::fd::OwnedFd, path::Path, process::Stdio,
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{OutputTail, PipedProcess, PipedProcesses, PipedSpec, ProcessError},
    tool::Progress,
};
use tokio::net::unix::pipe;
use tokio_util::{
    compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _},
    sync::CancellationToken,
};

use super::{
    command_process::CommandProcess,
    group::ProcessGroup,
    runner::{ProcessRunner, StandardStreams, find, program_name, spawn},
    running_process::{OutputSink, ProcessParts, RunningProcess},
};
use crate::orphans::CommandMark;
use crate::sandbox::CommandLaunch;

/// Size of standard error in bytes above which it is read slowly, so that endless output does not keep the
/// agent busy.
const SLOW_READ_ABOVE: u64 = 4 * 1024 * 1024;
/// Pause between two reads above that size.
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps the end of standard error.
struct StderrTail {
    tail: OutputTail,
    total: u64,
}

impl OutputSink for StderrTail {
    fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        self.tail.push(bytes);
    }

    fn pause(&self) -> Duration {
        if self.total > SLOW_READ_ABOVE { PAUSE } else { Duration::ZERO }
    }
}

#[async_trait]
impl PipedProcesses for ProcessRunner {
    #[tracing::instrument(
        level = "debug",
        name = "piped_process",
        skip_all,
        fields(program = program_name(&spec.argv))
    )]
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        if self.sandbox.is_some() {
            // A sandboxed process has only one pipe, for its output.
            let text = "it has no input for processes".to_owned();
            return Err(ProcessError::Sandbox(text));
        }
        let env = cancellation.run_until_cancelled(self.env.variables()).await;
        let env = env.ok_or(ProcessError::Cancelled)?;
        start(&env, &spec, cancellation)
    }
}

fn start(
    env: &BTreeMap<String, String>,
    spec: &PipedSpec,
    cancellation: CancellationToken,
) -> Result<PipedProcess, ProcessError> {
    // An empty name is not found.
    let program = spec.argv.first().cloned().unwrap_or_default();
    let start_error = |source| ProcessError::Start { program: program.clone(), source };
    // 1) Program and environment. A relative path is relative to the working directory.
    let mut all = env.clone();
    all.extend(spec.env.clone());
    let path = find(&all, &program).ok_or_else(|| start_error(io::ErrorKind::NotFound.into()))?;
    let path = if path.is_relative() { spec.cwd.join(path) } else { path };
    let mut mark = CommandMark::new();
    let mark_variable = mark.variable();
    let mark_variable = mark_variable.as_ref().map(|(name, value)| (*name, value.as_str()));
    let texts =
        all.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(mark_variable);
    let variables = texts.map(|(name, value)| (OsStr::new(name), OsStr::new(value))).collect();
    // 2) Pipes: the first of each pair stays in this program.
    let (input, their_input) = pipe_to()?;
    let (output, their_output) = pipe_from()?;
    let (errors, their_errors) = pipe_from()?;
    let launch =
        CommandLaunch { path: &path, argv: &spec.argv, env: variables, output: their_errors };
    let streams =
        StandardStreams { input: Stdio::from(their_input), output: Stdio::from(their_output) };
    // 3) Start, and pass standard error to the tail buffer.
    let start = || spawn(launch, streams, &spec.cwd, None).map(CommandProcess::Own);
    let child = mark.start(start, CommandProcess::id, true).map_err(|error| {
        start_error(if spec.cwd.is_dir() { error } else { no_folder(&spec.cwd) })
    })?;
    let group = ProcessGroup::new(child.id());
    let sink = StderrTail { tail: spec.stderr_tail.clone(), total: 0 };
    tracing::debug!(pid = child.id(), "process started");
    let running = RunningProcess::new(ProcessParts {
        child,
        group,
        mark,
        pipe: errors,
        sink,
        progress: Progress::default(),
        timeout: Duration::MAX,
        sandboxed_command: None,
    });
    Ok(PipedProcess {
        input: Box::new(input.compat_write()),
        output: Box::new(output.compat()),
        end: Box::pin(async move { running.end(&cancellation).await.map(|ended| ended.end) }),
    })
}

/// Names the missing working directory, since the system's error does not.
fn no_folder(cwd: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", cwd.display()))
}

/// Makes a pipe that this program writes to.
fn pipe_to() -> Result<(pipe::Sender, OwnedFd), ProcessError> {
    let (theirs, ours) = io::pipe().map_err(ProcessError::Watch)?;
    let ours = pipe::Sender::from_owned_fd(OwnedFd::from(ours)).map_err(ProcessError::Watch)?;
    Ok((ours, theirs.into()))
}

/// Makes a pipe that this program reads from.
fn pipe_from() -> Result<(pipe::Receiver, OwnedFd), ProcessError> {
    let (ours, theirs) = io::pipe().map_err(ProcessError::Watch)?;
    let ours = pipe::Receiver::from_owned_fd(OwnedFd::from(ours)).map_err(ProcessError::Watch)?;
    Ok((ours, theirs.into()))
}
