//! The background jobs that run, as far as the results of calls and the notices to the model tell.

use crow_core::{
    capability::JobInfo,
    event::{AgentEvent, AgentState, Envelope, NoticeAudience},
    ids::{JobId, SessionId},
    tool::ToolMetadata,
};
use jiff::Timestamp;

use super::text_fit::bounded_line;

/// Maximum number of jobs that are kept.
const MOST_JOBS: usize = 32;

/// The jobs that run, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct BackgroundJobs(Vec<BackgroundJob>);

/// A job that runs.
#[derive(Debug)]
pub(super) struct BackgroundJob {
    session_id: SessionId,
    id: JobId,
    /// Harmless text on one line.
    pub(super) title: String,
    pub(super) since: Timestamp,
}

impl BackgroundJobs {
    /// Takes an event of the root session or of an agent below it.
    pub(crate) fn on_event(&mut self, envelope: &Envelope) {
        self.on_event_of_call(envelope, None, envelope.time);
    }

    /// Takes an event. `title` and `since` are those of the call that it ends, if it ends one.
    pub(super) fn on_event_of_call(
        &mut self,
        envelope: &Envelope,
        title: Option<&str>,
        since: Timestamp,
    ) {
        let session_id = &envelope.session_id;
        match &envelope.event {
            AgentEvent::CallEnd { result, .. } => {
                self.on_call_end(session_id, &result.metadata, title, since);
            }
            AgentEvent::Notice { audience: NoticeAudience::Model, text, .. } => {
                self.on_notice(session_id, text);
            }
            AgentEvent::StateChange { state: AgentState::Done | AgentState::Error(_) } => {
                if envelope.is_root() {
                    self.0.clear();
                } else {
                    self.remove_session(session_id);
                }
            }
            AgentEvent::SubagentEnd { child_id, .. } => self.remove_session(child_id),
            _ => {}
        }
    }

    /// Returns the number of jobs.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Records a result that may be about a job. `title` and `since` are those of its call.
    fn on_call_end(
        &mut self,
        session_id: &SessionId,
        metadata: &ToolMetadata,
        title: Option<&str>,
        since: Timestamp,
    ) {
        let Some(id) = metadata.extra.get(JobInfo::EXTRA_KEY).and_then(|id| id.as_str()) else {
            return;
        };
        match metadata.extra.get(JobInfo::RUNNING_KEY) {
            // The call started the job.
            None => {
                self.remove(session_id, id);
                if self.0.len() == MOST_JOBS {
                    self.0.remove(0);
                }
                self.0.push(BackgroundJob {
                    session_id: session_id.clone(),
                    id: JobId::new(id),
                    title: title.map_or_else(|| bounded_line(id), str::to_owned),
                    since,
                });
            }
            // The call read the job, or ended it.
            Some(running) if running.as_bool() == Some(true) => {}
            Some(_) => self.remove(session_id, id),
        }
    }

    /// Records a notice to the model. One that begins with the id of a job, and its title or its loss, reports its end.
    fn on_notice(&mut self, session_id: &SessionId, text: &str) {
        let reports_end = |id: &str| {
            let mut rests = text.lines().filter_map(|line| line.strip_prefix(id));
            rests.any(|rest| rest.starts_with(" (") || rest.starts_with(" no longer exists"))
        };
        self.0.retain(|job| job.session_id != *session_id || !reports_end(job.id.as_str()));
    }

    /// Removes the jobs of an agent that ended: they ended with it.
    fn remove_session(&mut self, session_id: &SessionId) {
        self.0.retain(|job| job.session_id != *session_id);
    }

    /// Returns the jobs, the oldest first.
    pub(super) fn running(&self) -> &[BackgroundJob] {
        &self.0
    }

    fn remove(&mut self, session_id: &SessionId, id: &str) {
        self.0.retain(|job| job.session_id != *session_id || job.id.as_str() != id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn after(ends: &[(&str, Value)], notices: &[&str]) -> Vec<String> {
        let (mut jobs, session) = (BackgroundJobs::default(), SessionId::new("s"));
        for (title, extra) in ends {
            let metadata = ToolMetadata { extra: extra.clone(), ..ToolMetadata::default() };
            jobs.on_call_end(&session, &metadata, Some(title), Timestamp::UNIX_EPOCH);
        }
        for notice in notices {
            jobs.on_notice(&session, notice);
        }
        jobs.running().iter().map(|job| job.title.clone()).collect()
    }

    #[test]
    fn a_job_runs_until_a_result_or_a_notice_reports_its_end() {
        let start = || ("npm run dev", json!({ "job_id": "job-1" }));
        let read = |running: bool| ("job-1", json!({ "job_id": "job-1", "running": running }));
        let none = [""; 0];
        assert_eq!(after(&[("ls", json!({ "exit_code": 0 })), start()], &[]), ["npm run dev"]);
        assert_eq!(after(&[start(), start(), read(true)], &[]), ["npm run dev"]);
        assert_eq!(after(&[start(), read(false)], &[]), none);
        assert_eq!(after(&[read(true), read(false)], &[]), none);
        let ended = "job-1 (npm run dev) ended with exit code 1; its output was not read";
        assert_eq!(after(&[start()], &["note", &format!("task-1 (x)\n{ended}")]), none);
        assert_eq!(after(&[start()], &["job-1 no longer exists: it ended"]), none);
        assert_eq!(after(&[start()], &["job-12 (x) ended", "see job-1 (x)"]), ["npm run dev"]);
    }

    #[test]
    fn the_number_of_jobs_is_bounded() {
        let starts: Vec<(String, Value)> = (0..100)
            .map(|number| (format!("{number}"), json!({ "job_id": format!("job-{number}") })))
            .collect();
        let starts: Vec<(&str, Value)> =
            starts.iter().map(|(title, extra)| (title.as_str(), extra.clone())).collect();
        let titles = after(&starts, &[]);
        assert_eq!((titles.len(), titles.last().map(String::as_str)), (MOST_JOBS, Some("99")));
    }
}
