//! Jobs: commands that go on beside the agent's work.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{OutputFile, ProcessEnd, ProcessError, ProcessSpec, PutAside, RefusedHost};
use crate::ids::JobId;

/// A job, running or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// Names it.
    pub id: JobId,
    /// What it runs, in a line.
    pub title: String,
    /// Whether it still runs.
    pub state: JobState,
    /// How long it has run, or ran.
    pub duration: Duration,
}

/// Whether a job still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended, and so did what it had started.
    Ended(ProcessEnd),
    /// Nobody knows how it ended.
    Failed {
        /// Why.
        reason: String,
    },
}

/// From where a job's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPosition {
    /// From where the last read ended.
    LastRead,
    /// From this byte of the stream on.
    Offset(u64),
}

/// A part of what a job printed, up to what it has printed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// The job when it was read.
    pub job: JobInfo,
    /// The end of the stream; it begins `lost` bytes after what was asked for.
    pub bytes: Vec<u8>,
    /// The byte of the stream that comes next.
    pub next: u64,
    /// How many of the bytes that were asked for are not kept any more.
    pub lost: u64,
    /// The file that has the stream, once it is too long to be kept in memory.
    pub spill: Option<OutputFile>,
    /// How many processes that had left the job's group were ended with it.
    pub detached: usize,
    /// Hosts that it wanted to reach and could not, since this was last told.
    pub refused_hosts: Vec<RefusedHost>,
    /// Protected files and folders that were there when it had ended.
    pub put_aside: Vec<PutAside>,
}

/// Why a job cannot be read or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job, or its end is long ago.
    #[error("there is no job {id}; {}", known_jobs(.known))]
    Unknown {
        /// The id as given.
        id: JobId,
        /// The jobs that there are.
        known: Vec<JobId>,
    },
}

fn known_jobs(known: &[JobId]) -> String {
    let ids: Vec<&str> = known.iter().map(JobId::as_str).collect();
    if ids.is_empty() { "there are none".to_owned() } else { format!("known: {}", ids.join(", ")) }
}

impl JobInfo {
    /// Where results that tell of a job keep its id, in what is known beside their output.
    pub const EXTRA_KEY: &'static str = "job_id";
    /// Where those that read it keep whether it still ran.
    pub const RUNNING_KEY: &'static str = "running";
}

impl JobState {
    /// Returns whether the job runs.
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
            Self::Failed { reason } => write!(f, "ended, nobody knows how: {reason}"),
        }
    }
}

/// Runs jobs, each in its own group. They outlive calls and runs, and never the agent.
#[async_trait]
pub trait Jobs: Send + Sync + fmt::Debug {
    /// Starts a job and returns at once.
    async fn start(
        &self,
        spec: ProcessSpec,
        title: String,
        cancellation: &CancellationToken,
    ) -> Result<JobId, ProcessError>;

    /// Returns what a job printed since then. What is returned counts as read.
    fn read(&self, id: &JobId, since: OutputPosition) -> Result<JobOutput, JobError>;

    /// Waits until a job has printed something since then, has ended, or `patience` is over; then reads.
    async fn wait(
        &self,
        id: &JobId,
        since: OutputPosition,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<JobOutput, JobError>;

    /// Ends a job with all that it started and waits for its end. It goes on ending when this is dropped.
    async fn kill(&self, id: &JobId) -> Result<(), JobError>;

    /// Returns all jobs that are known: those that run, and the last ones that ended.
    fn list(&self) -> Vec<JobInfo>;

    /// Returns the jobs that ended and whose end was not read, each once.
    fn take_ended(&self) -> Vec<JobInfo>;
}
