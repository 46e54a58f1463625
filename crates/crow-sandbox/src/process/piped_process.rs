//! Processes with pipes for standard input, output and error.

use std::{io, os::fd::OwnedFd, time::Duration};

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
    runner::{ProcessRunner, ProcessSetup, WantedProcess, program_name, start_with},
    running_process::OutputSink,
};
use crate::sandbox::{CommandKind, CommandStreams};

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
        let wanted = WantedProcess { argv: &spec.argv, cwd: &spec.cwd, only_reads: false };
        let prepared = self.prepare(wanted, CommandKind::Foreground, &cancellation).await?;
        start_piped(prepared, &spec, cancellation)
    }
}

fn start_piped(
    prepared: ProcessSetup,
    spec: &PipedSpec,
    cancellation: CancellationToken,
) -> Result<PipedProcess, ProcessError> {
    // Of each pair, the first stays in this program.
    let (input, their_input) = pipe_to()?;
    let (output, their_output) = pipe_from()?;
    let (errors, their_errors) = io::pipe().map_err(ProcessError::Watch)?;
    let streams =
        CommandStreams { input: their_input, output: their_output, errors: their_errors.into() };
    let started = start_with(prepared, (&spec.argv, &spec.cwd, &spec.env), streams)?;
    let sink = StderrTail { tail: spec.stderr_tail.clone(), total: 0 };
    let running = started.watched(errors, sink, Progress::default(), Duration::MAX)?;
    tracing::debug!(pid = running.id(), "process started");
    Ok(PipedProcess {
        input: Box::new(input.compat_write()),
        output: Box::new(output.compat()),
        end: Box::pin(async move { running.end(&cancellation).await.map(|ended| ended.end) }),
    })
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
