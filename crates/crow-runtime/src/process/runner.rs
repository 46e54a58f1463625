//! The runner.

use std::{
    collections::BTreeMap, io, os::fd::OwnedFd, path::PathBuf, process::Stdio, time::Instant,
};

use async_trait::async_trait;
use crow_core::capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes};
use tokio::{
    net::unix::pipe,
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

use super::{
    environment::ChildEnvironment,
    group::ProcessGroup,
    orphans::Mark,
    output::OutputBuffer,
    running::{Ended, Parts, Running, Sink},
};

/// Where programs are looked for if the children have no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts processes with an environment of its own and nothing of the agent's.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    env: ChildEnvironment,
}

impl ProcessRunner {
    /// Makes a runner whose processes see `env` and what each call adds.
    pub fn new(env: impl Into<ChildEnvironment>) -> Self {
        Self { env: env.into() }
    }

    /// Returns the environment of a process that is about to start.
    pub(super) fn env(&self) -> &ChildEnvironment {
        &self.env
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
        let env = cancellation.run_until_cancelled(self.env.variables()).await;
        let env = env.ok_or(ProcessError::Cancelled)?;
        let buffer = OutputBuffer::new(spec.output.clone());
        let running = start(&env, spec, buffer)?;
        let Ended { end, left_running, detached, sink } = running.end(&cancellation).await?;
        let output = sink.finish();
        Ok(ProcessOutcome { end, output, left_running, detached, duration: started.elapsed() })
    }
}

/// Starts a process that sees `env` and what its spec adds.
#[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub(super) fn start<S: Sink>(
    env: &BTreeMap<String, String>,
    spec: ProcessSpec,
    sink: S,
) -> Result<Running<S>, ProcessError> {
    let program = spec.argv.first().cloned().unwrap_or_default();
    let start_error = |source| ProcessError::Start { program: program.clone(), source };
    let path = find(env, &program).ok_or_else(|| start_error(io::ErrorKind::NotFound.into()))?;
    let (reader, writer) = io::pipe().map_err(ProcessError::Watch)?;
    let second = writer.try_clone().map_err(ProcessError::Watch)?;
    let mut mark = Mark::new();
    let mut command = Command::new(path);
    command
        .arg0(&program)
        .args(spec.argv.iter().skip(1))
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(env)
        .envs(&spec.env)
        .envs(mark.variable())
        .stdin(Stdio::null())
        .stdout(Stdio::from(OwnedFd::from(writer)))
        .stderr(Stdio::from(OwnedFd::from(second)))
        .process_group(0)
        .kill_on_drop(true);
    let child = mark.start(|| command.spawn(), Child::id).map_err(start_error)?;
    // The command holds the writing ends: the pipe would never end.
    drop(command);
    let group = ProcessGroup::new(child.id());
    let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(ProcessError::Watch)?;
    let ProcessSpec { timeout, progress, .. } = spec;
    Ok(Running::new(Parts { child, group, mark, pipe, sink, progress, timeout }))
}

/// Looks a program up in the children's `PATH`. Given a whole path the standard library can start it without copying this
/// process first, which is most of what a start costs.
fn find(env: &BTreeMap<String, String>, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let folders = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let candidates = std::env::split_paths(folders).map(|folder| folder.join(program));
    candidates.into_iter().find(|path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    })
}
