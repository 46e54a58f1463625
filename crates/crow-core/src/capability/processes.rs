//! Processes that run to their end. Only the runtime starts them.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Containment, QuarantinedFile, RefusedHost};
use crate::tool_types::Progress;

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
}
