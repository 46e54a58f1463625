//! The runner.

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::capability::{ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec, Processes};
use tokio::{
    net::unix::pipe,
    process::{Child, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{group::ProcessGroup, output::OutputBuffer};

/// How long a group may take to end by itself after it was asked to.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long output is waited for when the process has exited and something else still holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// How often output is reported while a process runs.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Where programs are looked for if the children have no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// Starts processes with an environment of its own and nothing of the agent's.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    env: BTreeMap<String, String>,
}

/// A process under way.
struct Running {
    child: Child,
    group: ProcessGroup,
    pipe: pipe::Receiver,
    buffer: OutputBuffer,
    chunk: Vec<u8>,
    /// Whether the other end of the pipe is closed.
    drained: bool,
    reported: Instant,
    spec: ProcessSpec,
}

impl ProcessRunner {
    /// Makes a runner whose processes see `env` and what each call adds.
    pub fn new(env: BTreeMap<String, String>) -> Self {
        Self { env }
    }

    /// Looks a program up in the children's `PATH`. Given a whole path the standard library can start it without
    /// copying this process first, which is most of what a start costs.
    fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(PathBuf::from(program));
        }
        let folders = self.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let candidates = std::env::split_paths(folders).map(|folder| folder.join(program));
        candidates.into_iter().find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    fn start(&self, spec: ProcessSpec) -> Result<Running, ProcessError> {
        let program = spec.argv.first().cloned().unwrap_or_default();
        let start_error = |source| ProcessError::Start { program: program.clone(), source };
        let path =
            self.find(&program).ok_or_else(|| start_error(io::ErrorKind::NotFound.into()))?;
        let (reader, writer) = io::pipe().map_err(ProcessError::Watch)?;
        let second = writer.try_clone().map_err(ProcessError::Watch)?;
        let mut command = Command::new(path);
        command
            .arg0(&program)
            .args(spec.argv.iter().skip(1))
            .current_dir(&spec.cwd)
            .env_clear()
            .envs(&self.env)
            .envs(&spec.env)
            .stdin(Stdio::null())
            .stdout(Stdio::from(OwnedFd::from(writer)))
            .stderr(Stdio::from(OwnedFd::from(second)))
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(start_error)?;
        // The command holds the writing ends: the pipe would never end.
        drop(command);
        let group = ProcessGroup::new(child.id());
        let pipe =
            pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(ProcessError::Watch)?;
        let buffer = OutputBuffer::new(spec.output.clone());
        Ok(Running {
            child,
            group,
            pipe,
            buffer,
            chunk: vec![0; CHUNK],
            drained: false,
            reported: Instant::now(),
            spec,
        })
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
        let mut running = self.start(spec)?;
        let end = running.wait(&cancellation).await?;
        let left_running = running.end_group().await;
        let output = running.buffer.finish();
        Ok(ProcessOutcome { end, output, left_running, duration: started.elapsed() })
    }
}

impl Running {
    /// Reads output until the process exits, its time is up, or the call is cancelled.
    async fn wait(&mut self, cancellation: &CancellationToken) -> Result<ProcessEnd, ProcessError> {
        let deadline = sleep(self.spec.timeout);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => return self.stop(ProcessEnd::Cancelled).await,
                () = &mut deadline => return self.stop(ProcessEnd::TimedOut).await,
                read = read_some(&self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                status = self.child.wait() => {
                    let status = status.map_err(ProcessError::Watch)?;
                    self.drain().await;
                    return Ok(end_of(status));
                }
            }
        }
    }

    fn take(&mut self, read: &io::Result<usize>) {
        match read {
            Ok(0) | Err(_) => self.drained = true,
            Ok(count) => {
                let bytes = self.chunk.get(..*count).unwrap_or_default();
                self.buffer.push(bytes);
                if self.reported.elapsed() >= REPORT_EVERY {
                    self.reported = Instant::now();
                    self.spec.progress.report(String::from_utf8_lossy(bytes));
                }
            }
        }
    }

    /// Reads what is left. Something that the process started may hold the pipe open: that is not waited for long.
    async fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while !self.drained {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, read_some(&self.pipe, &mut self.chunk)).await {
                Ok(read) => self.take(&read),
                Err(_) => return,
            }
        }
    }

    /// Asks the group to end and ends it if it does not.
    async fn stop(&mut self, end: ProcessEnd) -> Result<ProcessEnd, ProcessError> {
        self.group.terminate();
        let until = sleep(TERM_GRACE);
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => {
                    self.group.kill();
                    break;
                }
                read = read_some(&self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                // What the process had started may need the rest of the time: the end of the group sees to it.
                _ = self.child.wait() => break,
            }
        }
        self.child.wait().await.map_err(ProcessError::Watch)?;
        self.drain().await;
        Ok(end)
    }

    /// Ends what the process left behind in its group. Returns whether there was anything.
    async fn end_group(&mut self) -> bool {
        let left = self.group.is_alive();
        if left {
            self.group.terminate();
            let until = Instant::now() + TERM_GRACE;
            let mut pause = Duration::from_millis(1);
            while self.group.is_alive() && Instant::now() < until {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            self.group.kill();
        }
        self.group.forget();
        left || !self.drained
    }
}

/// Reads what is there, or waits until something is.
async fn read_some(pipe: &pipe::Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

fn end_of(status: std::process::ExitStatus) -> ProcessEnd {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnd::Exited(code),
        (None, signal) => ProcessEnd::Signaled(signal.unwrap_or(0)),
    }
}
