//! Jobs: commands that run in the background of the agent's work.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{OutputFile, ProcessEnd, ProcessError, ProcessSpec, QuarantinedFile, RefusedHost};
use crate::ids::JobId;

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
    #[error("there is no job {id}; {}", known_jobs(.known))]
    Unknown {
        /// The id as given.
        id: JobId,
        /// The existing jobs.
        known: Vec<JobId>,
    },
}

fn known_jobs(known: &[JobId]) -> String {
    let ids: Vec<&str> = known.iter().map(JobId::as_str).collect();
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
