//! A background job: its output and how it ended.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crow_core::{
    capability::{
        JobInfo, JobOutput, JobState, OutputLimits, OutputPosition, ProcessError, QuarantinedFile,
        RefusedHost,
    },
    ids::JobId,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    live_output::torn_character,
    output_ring::{OutputRing, RingTail},
    running_process::{EndedProcess, OutputSink},
};
use crate::sandbox::Refusals;

/// Output size in bytes above which a job is read slowly, so that one that prints for hours does not keep
/// the agent busy.
const SLOW_READ_ABOVE: u64 = 64 * 1024 * 1024;
/// Pause between two reads above that size.
const PAUSE: Duration = Duration::from_millis(10);

/// A job, running or ended.
#[derive(Debug)]
pub(super) struct Job {
    id: JobId,
    title: String,
    started: Instant,
    /// Cancelled when the job is to end.
    pub(super) stop: CancellationToken,
    state: Mutex<JobOutputState>,
    /// Notified at each output and at the end.
    changed: Notify,
}

#[derive(Debug)]
struct JobOutputState {
    ring: OutputRing,
    end: Option<JobOutcome>,
    /// Stream offset up to which the output was read.
    read_to: u64,
    /// True if the end of the job was already reported.
    is_told: bool,
    /// Source of the hosts that the proxy refuses while the job runs.
    refusals: Refusals,
    /// Hosts the proxy refused that had not been reported when the job ended.
    refused: Vec<RefusedHost>,
}

#[derive(Debug, Clone)]
struct JobOutcome {
    state: JobState,
    duration: Duration,
    detached: usize,
    put_aside: Vec<QuarantinedFile>,
}

/// Output sink that appends to the job's ring buffer.
pub(super) struct JobSink(pub Arc<Job>);

/// Records how the job ended, also when its task is dropped.
pub(super) struct JobEnd(Arc<Job>);

impl Job {
    pub(super) fn new(
        id: JobId,
        title: String,
        output: OutputLimits,
        stop: CancellationToken,
        refusals: Refusals,
    ) -> Self {
        let state = JobOutputState {
            ring: OutputRing::new(output),
            end: None,
            read_to: 0,
            is_told: false,
            refusals,
            refused: Vec::new(),
        };
        let (state, changed) = (Mutex::new(state), Notify::new());
        Self { id, title, started: Instant::now(), stop, state, changed }
    }

    pub(super) fn id(&self) -> &JobId {
        &self.id
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().end.is_none()
    }

    /// Returns a summary of the job: id, title, state and duration.
    pub(super) fn info(&self) -> JobInfo {
        self.describe(&self.state())
    }

    /// Reads the output from `since` on, and marks it and the end as reported.
    pub(super) fn read(&self, since: OutputPosition) -> JobOutput {
        let mut state = self.state();
        let RingTail { mut bytes, mut next, lost } = state.ring.since(state.start(since));
        if state.end.is_none() {
            // The rest of an incomplete character comes with the next read.
            let torn = torn_character(&bytes);
            bytes.truncate(bytes.len() - torn);
            next -= torn as u64;
        }
        state.read_to = next;
        state.is_told |= state.end.is_some();
        let detached = state.end.as_ref().map_or(0, |end| end.detached);
        let put_aside = state.end.as_ref().map(|end| end.put_aside.clone()).unwrap_or_default();
        let spill = state.ring.spill();
        let refused_hosts = state.take_refused();
        let job = self.describe(&state);
        JobOutput {
            job,
            bytes,
            next,
            lost,
            spill,
            detached_count: detached,
            refused_hosts,
            quarantined: put_aside,
        }
    }

    /// Returns the ended job, once, if its end was not reported yet.
    pub(super) fn take_end(&self) -> Option<JobInfo> {
        let mut state = self.state();
        if state.end.is_none() || std::mem::replace(&mut state.is_told, true) {
            return None;
        }
        Some(self.describe(&state))
    }

    /// Waits until there is output after `since` or the job has ended.
    pub(super) async fn wait_for_output(&self, since: OutputPosition) {
        let start = self.state().start(since);
        self.wait_for(|state| state.ring.total() > start || state.end.is_some()).await;
    }

    /// Waits until the job has ended.
    pub(super) async fn wait_for_end(&self) {
        self.wait_for(|state| state.end.is_some()).await;
    }

    async fn wait_for(&self, condition: impl Fn(&JobOutputState) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change in between is missed.
            changed.as_mut().enable();
            if condition(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    fn describe(&self, state: &JobOutputState) -> JobInfo {
        let (state_now, duration) = match &state.end {
            Some(end) => (end.state.clone(), end.duration),
            None => (JobState::Running, self.started.elapsed()),
        };
        JobInfo { id: self.id.clone(), title: self.title.clone(), state: state_now, duration }
    }

    fn set_end(&self, how: JobState, detached: usize, put_aside: Vec<QuarantinedFile>) {
        let duration = self.started.elapsed();
        let mut state = self.state();
        state.end.get_or_insert(JobOutcome { state: how, duration, detached, put_aside });
        // From now on refusals at this source concern other commands.
        state.refused = state.take_refused();
        state.refusals = Refusals::default();
        drop(state);
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, JobOutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobOutputState {
    fn start(&self, since: OutputPosition) -> u64 {
        match since {
            OutputPosition::LastRead => self.read_to,
            OutputPosition::Offset(offset) => offset,
        }
    }

    /// Returns the refused hosts that were not reported yet.
    fn take_refused(&mut self) -> Vec<RefusedHost> {
        let mut refused = std::mem::take(&mut self.refused);
        refused.extend(self.refusals.take());
        refused
    }
}

impl OutputSink for JobSink {
    fn push(&mut self, bytes: &[u8]) {
        self.0.state().ring.push(bytes);
        self.0.changed.notify_waiters();
    }

    fn pause(&self) -> Duration {
        if self.0.state().ring.total() > SLOW_READ_ABOVE { PAUSE } else { Duration::ZERO }
    }
}

impl JobEnd {
    pub(super) fn new(job: Arc<Job>) -> Self {
        Self(job)
    }

    pub(super) fn record(self, ended: &Result<EndedProcess<JobSink>, ProcessError>) {
        match ended {
            Ok(ended) => {
                let put_aside = ended.put_aside.clone();
                self.0.set_end(JobState::Ended(ended.end), ended.detached, put_aside);
            }
            Err(error) => {
                self.0.set_end(JobState::Failed { reason: error.to_string() }, 0, Vec::new());
            }
        }
    }
}

impl Drop for JobEnd {
    fn drop(&mut self) {
        let reason = "it was dropped".to_owned();
        self.0.set_end(JobState::Failed { reason }, 0, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_prints_without_end_is_read_slowly() {
        let output = OutputLimits { head: 10, tail: 10, spill: None, spill_cap: 0 };
        let job = Job::new(
            JobId::new("job-1"),
            String::new(),
            output,
            CancellationToken::new(),
            Refusals::default(),
        );
        let mut sink = JobSink(Arc::new(job));
        let piece = vec![0; 1 << 20];
        (0..64).for_each(|_| sink.push(&piece));
        assert_eq!(sink.pause(), Duration::ZERO);
        sink.push(b"x");
        assert_eq!(sink.pause(), PAUSE);
    }
}
