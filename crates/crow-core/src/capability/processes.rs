//! Processes. The runtime alone starts them.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Containment, PutAside, RefusedHost};
use crate::tool_types::Progress;

/// A process to run to its end. Its standard input is empty.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Variables on top of the environment that the runtime gives to every process.
    pub env: BTreeMap<String, String>,
    /// How long it may run; [`Duration::MAX`] for as long as it wants to.
    pub timeout: Duration,
    /// How much of its output is kept.
    pub output: OutputLimits,
    /// Takes output while it runs.
    pub progress: Progress,
    /// It needs to change nothing in the workspace: where there is a sandbox, it cannot.
    pub only_reads: bool,
}

/// How much of a process's output is kept. What it prints beyond is read and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes from the beginning that stay in memory.
    pub head: usize,
    /// Bytes from the end that stay in memory.
    pub tail: usize,
    /// Where the whole stream goes once it no longer fits into memory. A file that is there already is left alone: the
    /// name gets a number then.
    pub spill: Option<PathBuf>,
    /// The most bytes that are written there.
    pub spill_cap: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this code.
    Exited(i32),
    /// A signal that did not come from here ended it.
    Signaled(i32),
    /// It ran out of time and was killed with its group.
    TimedOut,
    /// The call was cancelled, or the job ended, and it was killed with its group.
    Cancelled,
}

/// What a process printed: standard output and standard error in the order in which they arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The beginning; all of it if nothing was left out.
    pub head: Vec<u8>,
    /// The end, if something was left out.
    pub tail: Vec<u8>,
    /// How many bytes were printed.
    pub total: u64,
    /// The file that has the stream, if something was left out.
    pub spill: Option<OutputFile>,
}

/// A file that has the beginning of a stream, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes of the stream it has.
    pub bytes: u64,
    /// How many bytes came after those and had no room.
    pub missing: u64,
}

impl CapturedOutput {
    /// Returns how many bytes are in neither head nor tail.
    pub fn omitted(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// What a process came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// How it ended.
    pub end: ProcessEnd,
    /// What it printed.
    pub output: CapturedOutput,
    /// Whether something that it started still ran or held its output when it ended.
    pub left_running: bool,
    /// How many processes that had left its group were ended with it.
    pub detached: usize,
    /// How long it ran.
    pub duration: Duration,
    /// What held it back.
    pub containment: Containment,
    /// Protected files that it made or replaced.
    pub put_aside: Vec<PutAside>,
    /// Hosts that it, or a command beside it, wanted to reach and could not.
    pub refused_hosts: Vec<RefusedHost>,
}

/// Why a process could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// It could not be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It could not be watched.
    #[error("a process cannot be watched: {0}")]
    Watch(#[source] std::io::Error),
    /// As many jobs run as may.
    #[error("{limit} jobs run already; end one of them first")]
    TooManyJobs {
        /// How many may run at once.
        limit: usize,
    },
    /// The call was cancelled before the process was started.
    #[error("the call was cancelled")]
    Cancelled,
    /// What should hold it back cannot be set up.
    #[error("the sandbox cannot be set up: {0}")]
    Sandbox(String),
    /// The run changes nothing, and the process might.
    #[error("the run is read-only")]
    ReadOnly,
    /// The agent is about to end.
    #[error("the agent is ending and starts nothing any more")]
    Closed,
    /// The runtime runs no processes.
    #[error("this runtime runs no processes")]
    Unavailable,
}

/// Runs processes, each in its own group, and leaves none behind.
#[async_trait]
pub trait Processes: Send + Sync + fmt::Debug {
    /// Runs a process to its end. Dropping the future kills it and its group.
    async fn run(
        &self,
        spec: ProcessSpec,
        cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError>;
}
