//! Handlers of the renderer for events about calls and questions, and the calls that have no result yet.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use crow_core::{
    capability::UserQuestion,
    event::Envelope,
    ids::{CallId, SessionId},
    message::{CallArguments, ReplyBlock, ToolCall, calls_of},
    permission::Denial,
    tool::{Patch, Subject, ToolResult},
};

use super::{
    ConsoleRenderer, Visibility,
    call::{
        call_lines, change_summary, is_summarised, output_excerpt, question, user_question,
        whole_command,
    },
    console::restart_wait,
    diff::diff,
    live::WaitIndicator,
    one_line, phrase,
};

impl<O: Write, E: Write> ConsoleRenderer<O, E> {
    pub(super) fn on_call_pending(
        &mut self,
        envelope: &Envelope,
        (call_id, tool): (&CallId, &str),
        title: &str,
        preview: Option<&Patch>,
    ) -> io::Result<()> {
        self.before_call(envelope, tool)?;
        let call = self.calls.open(envelope, call_id);
        title.clone_into(&mut call.title);
        call.preview = preview.cloned();
        Ok(())
    }

    pub(super) fn on_call_start(
        &mut self,
        envelope: &Envelope,
        (call_id, tool): (&CallId, &str),
        title: &str,
    ) -> io::Result<()> {
        self.before_call(envelope, tool)?;
        let call = self.calls.open(envelope, call_id);
        title.clone_into(&mut call.title);
        call.running = Some(WaitIndicator::new(envelope.time, one_line(title)));
        Ok(())
    }

    pub(super) fn on_call_end(
        &mut self,
        envelope: &Envelope,
        (call_id, tool): (&CallId, &str),
        result: &ToolResult,
        denial: Option<&Denial>,
    ) -> io::Result<()> {
        let call = self.calls.close(envelope, call_id);
        // A refused call in a log has no title: the arguments in the reply of the model describe it.
        let (title, previewed) = match &call {
            Some(call) if !call.title.is_empty() => (call.title.as_str(), call.previewed),
            Some(call) if denial.is_some() && !call.description.is_empty() => {
                (call.description.as_str(), call.previewed)
            }
            Some(_) | None => (tool, false),
        };
        let agent = phrase::agent_prefix(&self.style, envelope);
        let mut lines = call_lines(&self.style, &agent, (tool, title), result, denial);
        if denial.is_none() {
            lines.push_str(&output_excerpt(&self.style, tool, result));
        }
        // The diff is omitted if the question showed it, or if a summary replaces it.
        let is_covered = previewed || is_summarised(tool, result);
        if let (Some(patch), false) = (&result.metadata.diff, is_covered) {
            lines.push_str(&diff(&self.style, patch));
        }
        lines.push_str(&change_summary(&self.style, tool, result));
        restart_wait(&mut self.waiting, envelope);
        self.lines(&lines)
    }

    /// Shows the end of a question, and no longer counts it as open.
    pub(super) fn on_question_closed(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.questions = self.questions.saturating_sub(1);
        self.lines(&phrase::event(&self.style, envelope))
    }

    /// Shows a question of an agent.
    pub(super) fn show_user_question(
        &mut self,
        envelope: &Envelope,
        question: &UserQuestion,
    ) -> io::Result<()> {
        if self.style.questions == Visibility::Hide {
            return Ok(());
        }
        let lines =
            user_question(&self.style, &phrase::agent_prefix(&self.style, envelope), question);
        self.lines(&lines)
    }

    /// Shows a permission question with the previewed change.
    pub(super) fn show_question(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
        (title, subject, reason): (&str, &Subject, &str),
    ) -> io::Result<()> {
        if self.style.questions == Visibility::Hide {
            return Ok(());
        }
        let style = self.style;
        let call = self.calls.open(envelope, call_id);
        let change = call.preview.as_ref().map(|patch| diff(&style, patch));
        call.previewed = change.is_some();
        let mut lines = question(&style, &phrase::agent_prefix(&style, envelope), title, reason);
        lines.push_str(&whole_command(&style, title, subject));
        lines.push_str(&change.unwrap_or_default());
        self.lines(&lines)
    }
}

/// Call without a result.
#[derive(Debug, Default)]
pub(super) struct ConsoleOpenCall {
    pub(super) title: String,
    /// Description of the call from the model's arguments: a log has no title for a refused call.
    pub(super) description: String,
    /// Change that the call would make.
    pub(super) preview: Option<Patch>,
    /// True if the change is on the screen already.
    previewed: bool,
    /// Waiting line of the call; set while it runs.
    pub(super) running: Option<WaitIndicator>,
}

/// The calls that have no result yet. The key includes the session, since call ids come from models and are not unique.
#[derive(Debug, Default)]
pub(super) struct OpenCalls(HashMap<(SessionId, CallId), ConsoleOpenCall>);

impl OpenCalls {
    /// Returns the call; adds it if it is new.
    pub(super) fn open(&mut self, envelope: &Envelope, call_id: &CallId) -> &mut ConsoleOpenCall {
        self.0.entry(key(envelope, call_id)).or_default()
    }

    /// Records the calls in a reply.
    pub(super) fn record_calls(&mut self, envelope: &Envelope, blocks: &[ReplyBlock]) {
        for call in calls_of(blocks) {
            self.open(envelope, &call.id).description = describe(call);
        }
    }

    /// Removes and returns the call.
    pub(super) fn close(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<ConsoleOpenCall> {
        self.0.remove(&key(envelope, call_id))
    }

    /// Returns the waiting line of the call, if it runs.
    pub(super) fn running(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<&mut WaitIndicator> {
        self.0.get_mut(&key(envelope, call_id))?.running.as_mut()
    }

    /// Returns the waiting line of the call that has run longest, with the number of other running calls.
    pub(super) fn longest_running(&self) -> Option<WaitIndicator> {
        let running = || self.0.values().filter_map(|call| call.running.as_ref());
        let mut first = running().min_by_key(|running| running.since)?.clone();
        let others = running().count() - 1;
        if others > 0 {
            first.subject = format!("{} (+{others})", first.subject);
        }
        Some(first)
    }

    /// Removes all calls.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn key(envelope: &Envelope, call_id: &CallId) -> (SessionId, CallId) {
    (envelope.session_id.clone(), call_id.clone())
}

/// Describes a call: its command, or the tool with its path, pattern, URL or query.
fn describe(call: &ToolCall) -> String {
    let CallArguments::Json(arguments) = &call.arguments else { return call.name.clone() };
    let text = |key: &str| arguments.get(key).and_then(|value| value.as_str());
    if let Some(command) = text("command") {
        return command.to_owned();
    }
    match ["path", "pattern", "url", "query"].into_iter().find_map(text) {
        Some(target) => format!("{} {target}", call.name),
        None => call.name.clone(),
    }
}
