//! Handlers of the renderer for events about calls and questions.

use std::io::{self, Write};

use crow_core::{
    capability::UserQuestion,
    event::Envelope,
    ids::CallId,
    permission::Denial,
    tool::{Patch, Subject, ToolResult},
};

use super::{
    ConsoleRenderer, Visibility,
    call::{call_lines, question, whole_command},
    change_summary::{change_summary, is_summarised},
    diff::diff,
    one_line,
    output_excerpt::output_excerpt,
    phrase,
    question::user_question,
    waiting::WaitIndicator,
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
        self.restart_wait(envelope);
        self.lines(&lines)
    }

    /// Shows a permission question with the previewed change, and counts it as open.
    pub(super) fn on_question(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
        about: (&str, &Subject, &str),
    ) -> io::Result<()> {
        self.questions += 1;
        self.show_question(envelope, call_id, about)
    }

    /// Shows the end of a question, and no longer counts it as open.
    pub(super) fn on_question_closed(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.questions = self.questions.saturating_sub(1);
        self.lines(&phrase::event(&self.style, envelope))
    }

    /// Shows a question of an agent, and counts it as open.
    pub(super) fn on_user_question(
        &mut self,
        envelope: &Envelope,
        question: &UserQuestion,
    ) -> io::Result<()> {
        self.questions += 1;
        self.show_user_question(envelope, question)
    }

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
