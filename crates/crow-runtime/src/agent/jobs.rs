//! What the model is told of its jobs without asking.

use crow_core::{
    capability::{JobInfo, Jobs as _},
    history::History,
    message::{Block, Message},
    tool::ToolResult,
};
use serde_json::Value;

use super::{AgentError, AgentInternals};
use crate::process::job_number;

impl AgentInternals {
    /// Tells the model of jobs whose end it has not seen, each once.
    pub(super) async fn tell_ended_jobs(&mut self) -> Result<(), AgentError> {
        let ended = self.jobs.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        let lines = ended.iter().map(|JobInfo { id, title, state, .. }| {
            format!("{id} ({title}) {state}; its output was not read")
        });
        self.remind(lines.collect::<Vec<_>>().join("\n")).await
    }

    /// Tells the model which jobs ended with the process that had the session before. What the history says of them is
    /// asked each time: it may have gone back to before they were told of.
    pub(super) async fn tell_gone_jobs(&mut self) -> Result<(), AgentError> {
        let gone = self.gone_jobs();
        if gone.is_empty() {
            return Ok(());
        }
        self.remind(gone.iter().map(|id| gone_line(id)).collect::<Vec<_>>().join("\n")).await
    }

    /// Returns the jobs of earlier processes that the model takes for running.
    fn gone_jobs(&self) -> Vec<String> {
        let mut open: Vec<&str> = Vec::new();
        for (id, result) in jobs_in(&self.history).filter(|(id, _)| self.jobs.is_earlier(id)) {
            open.retain(|other| *other != id);
            if result.metadata.extra.get(JobInfo::RUNNING_KEY) != Some(&Value::Bool(false)) {
                open.push(id);
            }
        }
        if open.is_empty() {
            return Vec::new();
        }
        // The model is not asked as long as calls are open.
        let Ok(messages) = self.history.messages() else { return Vec::new() };
        for line in messages.iter().flat_map(|message| texts(message)).flat_map(str::lines) {
            open.retain(|id| !tells_the_end(line, id));
        }
        open.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the number of the last job that results tell of.
pub(super) fn last_job(history: &History) -> u64 {
    jobs_in(history).filter_map(|(id, _)| job_number(id)).max().unwrap_or(0)
}

/// Returns the results that tell of a job.
fn jobs_in(history: &History) -> impl Iterator<Item = (&str, &ToolResult)> {
    history.results().filter_map(|(_, result)| {
        let id = result.metadata.extra.get(JobInfo::EXTRA_KEY)?.as_str()?;
        Some((id, result))
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

/// Whether a line is one of those that tell of a job's end.
fn tells_the_end(line: &str, id: &str) -> bool {
    line == gone_line(id) || line.strip_prefix(id).is_some_and(|rest| rest.starts_with(" ("))
}

fn gone_line(id: &str) -> String {
    format!("{id} is gone: it ended with the program that ran it, before this session went on")
}
