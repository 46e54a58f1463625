//! The result of a turn.

use std::path::PathBuf;

use crow_core::{
    event::CheckReport,
    message::ReplyContent,
    model::ModelReply,
    tool::{ToolStatus, TypedTool as _},
    turn::{CallEffect, CallOutcome, ReplyFacts, TurnEnd},
    usage::TokenUsage,
};
use crow_runtime::ExecutedCall;

use super::bundle::TurnCall;
use crate::end_tools::{SubmitForReview, TaskComplete};

/// Result of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// The text of the last reply.
    pub text: Option<String>,
    /// Summaries of the calls that were answered, in order.
    pub tool_calls: Vec<TurnCall>,
    /// Summary of the finished task, if the agent called `task_complete`.
    pub task_complete: Option<String>,
    /// Result of the checks when the agent last called `task_complete`.
    pub evidence: CheckReport,
    /// Tokens used by the model calls of the turn.
    pub usage: TokenUsage,
    /// Files that were created, changed or deleted, each once, in the order of the first change.
    pub files_changed: Vec<PathBuf>,
    /// Number of model calls.
    pub steps: u32,
    /// Texts that the user wrote during the turn.
    pub steering: Vec<String>,
    /// Reason for which the turn ended.
    pub end: TurnEnd,
}

/// Tells if the session can see which files a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Captures {
    /// Files are captured before and after each call.
    Available,
    /// Files are not captured: any call may have changed some.
    Missing,
}

impl Default for TurnResult {
    fn default() -> Self {
        Self {
            text: None,
            tool_calls: Vec::new(),
            task_complete: None,
            evidence: CheckReport::default(),
            usage: TokenUsage::default(),
            files_changed: Vec::new(),
            steps: 0,
            steering: Vec::new(),
            end: TurnEnd::Text,
        }
    }
}

impl TurnResult {
    /// Takes in a text of the user. Returns true if there is one.
    pub(crate) fn take_steering(&mut self, text: Option<String>) -> bool {
        let has_text = text.is_some();
        self.steering.extend(text);
        has_text
    }

    /// Returns true if the task is done and the checks confirm it.
    pub fn is_verified(&self) -> bool {
        self.task_complete.is_some() && self.evidence.verified
    }

    /// Returns the last text, including the summary of a submission.
    pub(crate) fn final_text(&self) -> String {
        let text = self.text.as_deref().unwrap_or_default().trim();
        if let TurnEnd::SubmitForReview { summary } = &self.end
            && summary.trim() != text
        {
            return format!("{text}\n\n{}", summary.trim()).trim().to_owned();
        }
        text.to_owned()
    }

    /// Takes in a reply. Returns its facts for the turn machine.
    pub(crate) fn take_reply(&mut self, reply: &ModelReply) -> ReplyFacts {
        self.usage += reply.usage;
        let texts = reply.blocks.iter().filter_map(|block| match &block.content {
            ReplyContent::Text { text } => Some(text.as_str()),
            ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
        });
        let text: String = texts.collect();
        self.text = (!text.is_empty()).then(|| text.clone());
        ReplyFacts {
            calls: reply.calls().cloned().collect(),
            text,
            stop: reply.stop,
            text_calls: reply.text_calls.clone(),
        }
    }

    /// Takes in answered calls. Returns their outcomes for the turn machine.
    pub(crate) fn take_calls(
        &mut self,
        executed: Vec<ExecutedCall>,
        captures: Captures,
    ) -> Vec<CallOutcome> {
        let outcomes = executed.iter().map(|call| CallOutcome {
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            output: call.result.output.clone(),
            status: call.result.status,
            validity: call.validity,
            effect: self.effect(call, captures),
        });
        let outcomes: Vec<_> = outcomes.collect();
        for call in &executed {
            for file in &call.result.metadata.files_modified {
                if !self.files_changed.contains(file) {
                    self.files_changed.push(file.clone());
                }
            }
        }
        if let Some(TurnEnd::TaskComplete { summary }) =
            outcomes.iter().find_map(|outcome| match &outcome.effect {
                CallEffect::EndsTurn(end) => Some(end),
                CallEffect::None | CallEffect::FilesChanged | CallEffect::EndRefused => None,
            })
        {
            self.task_complete = Some(summary.clone());
        }
        self.tool_calls.extend(executed.into_iter().map(TurnCall::from_call));
        outcomes
    }

    /// Returns the effect of a call. Files that a check writes when the end is refused do not count as a change,
    /// because they repair nothing.
    fn effect(&self, call: &ExecutedCall, captures: Captures) -> CallEffect {
        let metadata = &call.result.metadata;
        let has_changed = metadata.changes.is_some() || !metadata.files_modified.is_empty();
        match (call.result.status, call.ends_turn, captures) {
            (ToolStatus::Success, true, _) => CallEffect::EndsTurn(self.ending(call)),
            (ToolStatus::Error, true, _) => CallEffect::EndRefused,
            (_, false, _) if has_changed => CallEffect::FilesChanged,
            (ToolStatus::Success, false, Captures::Missing) => CallEffect::FilesChanged,
            (_, _, _) => CallEffect::None,
        }
    }

    /// Returns the end of a turn by this call. An end tool of another product ends it like a text, which is then the
    /// answer.
    fn ending(&self, call: &ExecutedCall) -> TurnEnd {
        let summary = || {
            let given = call
                .arguments
                .get("summary")
                .and_then(|summary| summary.as_str())
                .unwrap_or_default();
            if given.is_empty() { self.text.clone().unwrap_or_default() } else { given.to_owned() }
        };
        match call.name.as_str() {
            TaskComplete::NAME => TurnEnd::TaskComplete { summary: summary() },
            SubmitForReview::NAME => TurnEnd::SubmitForReview { summary: summary() },
            _ => TurnEnd::Text,
        }
    }
}
