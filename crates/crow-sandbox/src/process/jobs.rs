//! The jobs of one agent.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{JobError, JobInfo, JobOutput, Jobs, OutputPosition, ProcessError, ProcessSpec},
    ids::JobId,
};
use futures_util::future::join_all;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use super::{
    ProcessRunner,
    job::{Job, JobEnd, JobSink},
    runner,
};
use crate::sandbox::{CommandKind, SandboxedCommand};

/// Prefix of a job id, before its number.
const ID_PREFIX: &str = "job-";
/// Maximum number of running jobs per agent.
const MAX_RUNNING: usize = 8;
/// Maximum number of ended jobs that are remembered.
const MAX_ENDED: usize = 32;
/// Time to wait for further output after the first.
const SETTLE: Duration = Duration::from_millis(100);
/// Time that the end of an agent waits for its jobs. They take this long only if the kernel does not
/// release them.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Background jobs of one agent. Their tasks belong to the runtime, and end with the agent's token.
#[derive(Debug)]
pub struct AgentJobs {
    runner: ProcessRunner,
    tasks: TaskTracker,
    token: CancellationToken,
    /// Number of the last job from before this session was resumed; its numbers are not reused.
    earlier: u64,
    known: Mutex<JobTable>,
    /// Notified when a job has ended.
    ended: Arc<Notify>,
}

#[derive(Debug)]
struct JobTable {
    started: u64,
    jobs: Vec<Arc<Job>>,
}

impl AgentJobs {
    /// Creates a registry whose jobs end with `owner` and are numbered from `earlier` + 1.
    pub fn new(
        runner: ProcessRunner,
        tasks: TaskTracker,
        owner: &CancellationToken,
        earlier: u64,
    ) -> Self {
        let known = JobTable { started: earlier, jobs: Vec::new() };
        Self {
            runner,
            tasks,
            token: owner.child_token(),
            earlier,
            known: Mutex::new(known),
            ended: Arc::default(),
        }
    }

    /// Returns true if the id belongs to a job from before the session was resumed, which no longer exists.
    pub fn is_earlier(&self, id: &str) -> bool {
        job_number(id).is_some_and(|number| number <= self.earlier)
    }

    /// Returns the token that ends all jobs and prevents new ones.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends all jobs and waits for them. No new job starts afterwards.
    pub async fn end(&self) {
        self.token.cancel();
        let jobs = self.known().jobs.clone();
        let ends = join_all(jobs.iter().map(|job| job.wait_for_end()));
        if timeout(END_TIMEOUT, ends).await.is_err() {
            tracing::warn!("a job of an agent that has ended is still there");
        }
    }

    /// Waits until a job ends, or returns at once if one ended since the last call.
    pub async fn wait_for_any_end(&self) {
        self.ended.notified().await;
    }

    /// Returns true if the job is in the table and has not ended.
    pub fn is_running(&self, id: &JobId) -> bool {
        self.known().jobs.iter().any(|job| job.id() == id && job.is_running())
    }

    fn known(&self) -> MutexGuard<'_, JobTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &JobId) -> Result<Arc<Job>, JobError> {
        let known = self.known();
        let unknown = || JobError::Unknown {
            id: id.clone(),
            known: known.jobs.iter().map(|job| job.id().clone()).collect(),
        };
        known.jobs.iter().find(|job| job.id() == id).cloned().ok_or_else(unknown)
    }
}

impl JobTable {
    fn running(&self) -> usize {
        self.jobs.iter().filter(|job| job.is_running()).count()
    }

    /// Adds a job. Removes the oldest ended job if more than [`MAX_ENDED`] have ended.
    fn add(&mut self, job: Arc<Job>) {
        self.started += 1;
        self.jobs.push(job);
        if self.jobs.len() - self.running() > MAX_ENDED
            && let Some(oldest) = self.jobs.iter().position(|job| !job.is_running())
        {
            self.jobs.remove(oldest);
        }
    }
}

#[async_trait]
impl Jobs for AgentJobs {
    async fn start(
        &self,
        spec: ProcessSpec,
        title: String,
        cancellation: &CancellationToken,
    ) -> Result<JobId, ProcessError> {
        let prepared =
            self.runner.prepare((&spec).into(), CommandKind::Background, cancellation).await?;
        let mut known = self.known();
        if self.token.is_cancelled() {
            return Err(ProcessError::Closed);
        }
        if known.running() >= MAX_RUNNING {
            return Err(ProcessError::TooManyJobs { limit: MAX_RUNNING });
        }
        let id = JobId::new(format!("{ID_PREFIX}{}", known.started + 1));
        let stop = self.token.child_token();
        let refusals =
            prepared.sandboxed_command.as_ref().map(SandboxedCommand::refusals).unwrap_or_default();
        let output = spec.output.clone();
        let job = Arc::new(Job::new(id.clone(), title, output, stop, refusals));
        let running = runner::start(prepared, spec, JobSink(Arc::clone(&job)))?;
        known.add(Arc::clone(&job));
        let ended = Arc::clone(&self.ended);
        let span = tracing::debug_span!("job", job = %id);
        let work = async move {
            tracing::debug!(pid = running.id(), "job started");
            let end = JobEnd::new(Arc::clone(&job));
            end.record(&running.end(&job.stop).await);
            tracing::debug!(state = %job.info().state, "job ended");
            ended.notify_one();
        };
        self.tasks.spawn(work.instrument(span));
        Ok(id)
    }

    fn read(&self, id: &JobId, since: OutputPosition) -> Result<JobOutput, JobError> {
        Ok(self.find(id)?.read(since))
    }

    async fn wait(
        &self,
        id: &JobId,
        since: OutputPosition,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<JobOutput, JobError> {
        let job = self.find(id)?;
        let news = async {
            job.wait_for_output(since).await;
            if job.is_running() {
                // Gathers output that is printed in one burst into one read.
                drop(timeout(SETTLE, job.wait_for_end()).await);
            }
        };
        tokio::select! {
            biased;
            () = cancellation.cancelled() => {}
            () = news => {}
            () = sleep(patience) => {}
        }
        Ok(job.read(since))
    }

    async fn kill(&self, id: &JobId) -> Result<(), JobError> {
        let job = self.find(id)?;
        job.stop.cancel();
        job.wait_for_end().await;
        Ok(())
    }

    fn list(&self) -> Vec<JobInfo> {
        self.known().jobs.iter().map(|job| job.info()).collect()
    }

    fn take_ended(&self) -> Vec<JobInfo> {
        self.known().jobs.iter().filter_map(|job| job.take_end()).collect()
    }
}

/// Returns the number in a job id, or `None` if `id` is no job id.
pub fn job_number(id: &str) -> Option<u64> {
    id.strip_prefix(ID_PREFIX)?.parse().ok()
}
