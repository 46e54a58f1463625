//! Notices about background jobs and tasks to the model.

use std::sync::Arc;

use crow_core::{
    capability::{BackgroundChild, BackgroundState, ChildEnd, Children as _, JobInfo, Jobs as _},
    history::History,
    message::{Block, Message},
    tool::ToolMetadata,
};
use crow_sandbox::{AgentJobs, job_number};
use serde_json::Value;

use super::{
    AgentError, background::task_number, child_agents::ChildAgents, session_writer::SessionWriter,
};

/// Tells the model of background jobs and tasks whose end it has not seen, each once.
pub(super) struct JobNotices {
    jobs: Arc<AgentJobs>,
    children: Arc<ChildAgents>,
}

impl JobNotices {
    pub(super) fn new(jobs: Arc<AgentJobs>, children: Arc<ChildAgents>) -> Self {
        Self { jobs, children }
    }

    /// Waits until a job ends. Cancel-safe.
    pub(super) async fn wait_for_job_end(&self) {
        self.jobs.wait_for_any_end().await;
    }

    /// Adds the notices to the history.
    pub(super) async fn report(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        // Consults the history each time, since it may have been rewound to before the model was told.
        let gone = self.gone(session.history());
        add_lines(session, gone.iter().map(|id| gone_line(id)).collect()).await?;
        let ended = self.jobs.take_ended().into_iter();
        let jobs = ended.map(|JobInfo { id, title, state, .. }| {
            format!("{id} ({title}) {state}; its output was not read")
        });
        add_lines(session, jobs.collect()).await?;
        add_lines(session, self.children.take_ended().iter().map(task_line).collect()).await
    }

    /// Returns the jobs and tasks of earlier processes that the model believes to be running.
    fn gone(&self, history: &History) -> Vec<String> {
        let mut running: Vec<String> = Vec::new();
        let jobs = jobs_in(history).filter(|(id, _)| self.jobs.is_earlier(id));
        let is_earlier = |id: &str| self.children.background.is_earlier(id);
        let tasks = named_in(history, BackgroundChild::EXTRA_KEY);
        for (id, metadata) in jobs.chain(tasks.filter(|(id, _)| is_earlier(id))) {
            running.retain(|other| *other != id);
            if metadata.extra.get(JobInfo::RUNNING_KEY) != Some(&Value::Bool(false)) {
                running.push(id);
            }
        }
        if running.is_empty() {
            return Vec::new();
        }
        // The history yields no messages while calls are open; the model is not called then.
        let Ok(messages) = history.messages() else { return Vec::new() };
        // Jobs whose end the model was told of already are left out.
        for line in messages.iter().flat_map(|message| texts(message)).flat_map(str::lines) {
            running.retain(|id| !reports_end(line, id));
        }
        running
    }
}

async fn add_lines(session: &mut SessionWriter, lines: Vec<String>) -> Result<(), AgentError> {
    if lines.is_empty() { Ok(()) } else { session.add_notice(lines.join("\n")).await }
}

fn task_line(child: &BackgroundChild) -> String {
    let end = match &child.state {
        BackgroundState::Running => "is running".to_owned(),
        BackgroundState::NotStarted(error) => error.to_string(),
        BackgroundState::Ended(outcome) => match &outcome.end {
            ChildEnd::Done { .. } => "has finished".to_owned(),
            ChildEnd::Failed { reason } => format!("failed: {reason}"),
            ChildEnd::Cancelled => "was cancelled".to_owned(),
        },
    };
    let BackgroundChild { id, agent, description, .. } = child;
    format!("{id} ({agent}: {description}) {end}; its result was not read, task_output has it")
}

/// Returns the highest job number in the results of the history.
pub(super) fn last_job(history: &History) -> u64 {
    jobs_in(history).filter_map(|(id, _)| job_number(&id)).max().unwrap_or(0)
}

/// Returns the highest number of a background task in the results of the history.
pub(super) fn last_task(history: &History) -> u64 {
    let ids = named_in(history, BackgroundChild::EXTRA_KEY);
    ids.filter_map(|(id, _)| task_number(&id)).max().unwrap_or(0)
}

/// Returns the job ids in the results of the history, with the metadata of the results.
fn jobs_in(history: &History) -> impl Iterator<Item = (String, ToolMetadata)> {
    named_in(history, JobInfo::EXTRA_KEY)
}

/// Returns the names under `key` in the results of the history, with the metadata of the results.
fn named_in(history: &History, key: &'static str) -> impl Iterator<Item = (String, ToolMetadata)> {
    history.results_with_extra(key).filter_map(move |metadata| {
        let name = metadata.extra.get(key)?.as_str()?.to_owned();
        Some((name, metadata))
    })
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = match message {
        Message::User(user) => user.content.as_slice(),
        Message::Assistant(_) | Message::Results(_) => &[],
    };
    blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    })
}

/// Returns true if the line is one that reports the end of a job.
fn reports_end(line: &str, id: &str) -> bool {
    line == gone_line(id) || line.strip_prefix(id).is_some_and(|rest| rest.starts_with(" ("))
}

fn gone_line(id: &str) -> String {
    format!(
        "{id} no longer exists: it ended with the program that ran it, before this session was resumed"
    )
}
