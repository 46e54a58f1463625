//! Processes: run to their end, with streams that stay connected, or in the background as jobs. Only the runtime starts
//! them.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{Containment, QuarantinedFile, RefusedHost};
use crate::{ids::JobId, tool_types::Progress};

/// A process to run to its end. Its standard input is empty.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Variables in addition to the environment that the runtime gives to every process.
    pub env: BTreeMap<String, String>,
    /// Time limit; [`Duration::MAX`] for none.
    pub timeout: Duration,
    /// Limits on the retained output.
    pub output: OutputLimits,
    /// Receives output while it runs.
    pub progress: Progress,
    /// True if it need not change the workspace: a sandbox then denies all changes.
    pub only_reads: bool,
}

/// Limits on the retained output of a process. Output beyond them is read and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLimits {
    /// Number of bytes from the beginning that are retained in memory.
    pub head: usize,
    /// Number of bytes from the end that are retained in memory.
    pub tail: usize,
    /// File for the whole stream once it does not fit into memory. An existing file is never overwritten: a number is
    /// added to the name.
    pub spill: Option<PathBuf>,
    /// Maximum number of bytes written to that file.
    pub spill_cap: u64,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this code.
    Exited(i32),
    /// A signal from elsewhere ended it.
    Signaled(i32),
    /// It exceeded its time limit and was killed with its group.
    TimedOut,
    /// The call was cancelled, or the job ended, and it was killed with its group.
    Cancelled,
}

/// The output of a process: standard output and standard error in the order in which they arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The beginning; the complete output if nothing was omitted.
    pub head: Vec<u8>,
    /// The end, if something was omitted.
    pub tail: Vec<u8>,
    /// Total number of bytes.
    pub total: u64,
    /// The file with the stream, if something was omitted.
    pub spill: Option<OutputFile>,
}

/// A file with a stream or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path.
    pub path: PathBuf,
    /// Number of bytes of the stream in it.
    pub bytes: u64,
    /// Number of later bytes that were beyond the limit.
    pub missing: u64,
}

impl CapturedOutput {
    /// Returns the number of bytes that are in neither head nor tail.
    pub fn omitted(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// The outcome of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// The way in which it ended.
    pub end: ProcessEnd,
    /// Its output.
    pub output: CapturedOutput,
    /// True if a process that it had started still ran, or had its output open, when it ended.
    pub left_running: bool,
    /// Number of processes ended with it that had left its group.
    pub detached_count: usize,
    /// Run time.
    pub duration: Duration,
    /// The sandboxing that applied.
    pub containment: Containment,
    /// Protected files that it created or replaced.
    pub quarantined: Vec<QuarantinedFile>,
    /// Hosts that it, or a command running at the same time, was refused.
    pub refused_hosts: Vec<RefusedHost>,
}

/// Error of running a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// It could not be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Its exit could not be awaited.
    #[error("a process cannot be watched: {0}")]
    Watch(#[source] std::io::Error),
    /// The maximum number of jobs runs.
    #[error("{limit} jobs run already; end one of them first")]
    TooManyJobs {
        /// The maximum number of jobs.
        limit: usize,
    },
    /// The call was cancelled before the process was started.
    #[error("the call was cancelled")]
    Cancelled,
    /// The sandbox cannot be set up.
    #[error("the sandbox cannot be set up: {0}")]
    Sandbox(String),
    /// The run is read-only, and the process might change something.
    #[error("the run is read-only")]
    ReadOnly,
    /// The agent is ending.
    #[error("the agent is ending and starts no more processes")]
    Closed,
    /// The runtime does not support processes.
    #[error("this runtime runs no processes")]
    Unavailable,
}

/// Runs processes, each in its own process group, and leaves none behind.
#[async_trait]
pub trait Processes: Send + Sync + fmt::Debug {
    /// Runs a process to its end. Dropping the future kills it and its group.
    async fn run(
        &self,
        spec: ProcessSpec,
        cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError>;

    /// Returns the value of `PATH` that processes get; `None` if they have none.
    async fn search_path(&self) -> Option<String> {
        None
    }
}

/// A process to communicate with over its standard streams.
#[derive(Debug, Clone)]
pub struct PipedSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Variables in addition to the environment that the runtime gives to every process.
    pub env: BTreeMap<String, String>,
    /// Receives the end of its standard error.
    pub stderr_tail: OutputTail,
}

/// A running process.
pub struct PipedProcess {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Runs it to its end, and ends its group when the token is cancelled. It also reads standard error, so it must
    /// be polled all the time. Dropping it kills the process and its group.
    pub end: Pin<Box<dyn Future<Output = Result<ProcessEnd, ProcessError>> + Send>>,
}

impl fmt::Debug for PipedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProcess").finish_non_exhaustive()
    }
}

/// The last bytes of a stream, readable while it is written.
#[derive(Debug, Clone)]
pub struct OutputTail {
    capacity: usize,
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl OutputTail {
    /// Makes a tail of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, bytes: Arc::default() }
    }

    /// Appends bytes and drops the oldest ones beyond the capacity.
    pub fn push(&self, bytes: &[u8]) {
        let tail = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let mut buffer = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (buffer.len() + tail.len()).saturating_sub(self.capacity);
        buffer.drain(..excess);
        buffer.extend(tail);
    }

    /// Returns the bytes as text.
    pub fn to_text(&self) -> String {
        let mut buffer = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(buffer.make_contiguous()).into_owned()
    }
}

/// Starts processes with piped streams, each in its own process group, and leaves none behind.
///
/// They are programs that the user configured, and run as long as they are used. The sandbox of commands does not
/// apply to them: they need their own files and the network.
#[async_trait]
pub trait PipedProcesses: Send + Sync + fmt::Debug {
    /// Starts a process that ends when `cancellation` is cancelled.
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError>;
}

/// A job, running or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// The id of the job.
    pub id: JobId,
    /// The command, in a line.
    pub title: String,
    /// The state.
    pub state: JobState,
    /// Time since it was started, or until it ended.
    pub duration: Duration,
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended, with all processes that it had started.
    Ended(ProcessEnd),
    /// It ended in an unknown way.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// The position from which a job's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPosition {
    /// The end of the last read.
    LastRead,
    /// This byte offset of the stream.
    Offset(u64),
}

/// A part of a job's output, up to the latest byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// The job at the time of the read.
    pub job: JobInfo,
    /// The end of the stream; it starts `lost` bytes after the requested position.
    pub bytes: Vec<u8>,
    /// The offset of the next byte of the stream.
    pub next: u64,
    /// Number of requested bytes that are no longer available.
    pub lost: u64,
    /// The file with the stream, once it is too long for memory.
    pub spill: Option<OutputFile>,
    /// Number of processes ended with the job that had left its group.
    pub detached_count: usize,
    /// Hosts that it was refused since the last report.
    pub refused_hosts: Vec<RefusedHost>,
    /// Protected files and directories that were found created, changed or removed after its end.
    pub quarantined: Vec<QuarantinedFile>,
}

/// Error of reading or ending a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job, or it ended long ago.
    #[error("there is no job {id}; {}", known_ids(.known))]
    Unknown {
        /// The id as given.
        id: JobId,
        /// The existing jobs.
        known: Vec<JobId>,
    },
}

/// Lists the ids that could have been meant.
pub(super) fn known_ids(known: &[impl ToString]) -> String {
    let ids: Vec<String> = known.iter().map(ToString::to_string).collect();
    if ids.is_empty() { "there are none".to_owned() } else { format!("known: {}", ids.join(", ")) }
}

impl JobInfo {
    /// Key of the job's id in the `extra` of results about it.
    pub const EXTRA_KEY: &'static str = "job_id";
    /// Key in the `extra` of results that read a job: true if it still ran.
    pub const RUNNING_KEY: &'static str = "running";
}

impl JobState {
    /// Returns true if the job runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Ended(ProcessEnd::Exited(code)) => write!(f, "ended with exit code {code}"),
            Self::Ended(ProcessEnd::Signaled(signal)) => write!(f, "killed by signal {signal}"),
            Self::Ended(ProcessEnd::TimedOut) => f.write_str("timed out"),
            Self::Ended(ProcessEnd::Cancelled) => f.write_str("was stopped"),
            Self::Failed { reason } => write!(f, "ended in an unknown way: {reason}"),
        }
    }
}

/// Runs jobs, each in its own process group. They may outlive the call and the run, but not the agent.
#[async_trait]
pub trait Jobs: Send + Sync + fmt::Debug {
    /// Starts a job and returns at once.
    async fn start(
        &self,
        spec: ProcessSpec,
        title: String,
        cancellation: &CancellationToken,
    ) -> Result<JobId, ProcessError>;

    /// Returns a job's output from a position. Output that is returned counts as read.
    fn read(&self, id: &JobId, since: OutputPosition) -> Result<JobOutput, JobError>;

    /// Waits until a job has further output, has ended, or `patience` has passed; then reads.
    async fn wait(
        &self,
        id: &JobId,
        since: OutputPosition,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<JobOutput, JobError>;

    /// Ends a job with all its processes and waits for the end. The job still ends if the future is dropped.
    async fn kill(&self, id: &JobId) -> Result<(), JobError>;

    /// Returns the running jobs and the last ones that ended.
    fn list(&self) -> Vec<JobInfo>;

    /// Returns the jobs whose end was not read yet, each once.
    fn take_ended(&self) -> Vec<JobInfo>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_bytes_and_no_more() {
        let tail = OutputTail::new(4);
        for part in ["ab", "c", "", "defgh", "i"] {
            tail.push(part.as_bytes());
        }
        assert_eq!(tail.to_text(), "fghi");
    }
}
