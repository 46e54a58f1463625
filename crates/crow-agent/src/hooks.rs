//! Hooks and termination conditions: code of the embedding program in the built-in loop.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::{
    message::Message, model::ModelReply, tool::ToolStatus, turn::RequestedCall, usage::TokenUsage,
};
use crow_runtime::{AgentError, AgentInternals, ExecutedCall};

use crate::handoff::{TurnCall, TurnResult};

/// The decision of a hook: the turn goes on or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookDecision {
    /// The turn goes on.
    Continue,
    /// The turn ends with this reason, see [`TurnEnd::Condition`](crow_core::turn::TurnEnd::Condition).
    EndTurn(String),
}

/// The next request, as a hook can change it.
#[derive(Debug, Default)]
pub struct RequestDraft {
    /// The messages to send instead of those of the history, see [`ModelCall::messages`](crow_runtime::ModelCall). A loop
    /// that gets them compacts nothing: their length is that of the hook.
    pub messages: Option<Vec<Arc<Message>>>,
}

/// Code that runs before and after the parts of a turn, in the task of the agent. It may act: add notices, change a
/// request or a call, end the turn. Each method does nothing by default.
///
/// An error ends the run. Hooks run in the order in which they were added; the first one that ends the turn is the last
/// one that runs.
#[async_trait]
pub trait AgentHooks: Send + Sync + fmt::Debug {
    /// Runs before the first model call of a turn.
    async fn before_turn(&self, _agent: &mut AgentInternals) -> Result<HookDecision, AgentError> {
        Ok(HookDecision::Continue)
    }

    /// Runs before each model call. All calls in the history have their results.
    async fn before_model_call(
        &self,
        _agent: &mut AgentInternals,
        _draft: &mut RequestDraft,
    ) -> Result<HookDecision, AgentError> {
        Ok(HookDecision::Continue)
    }

    /// Runs after each reply, before its calls. If it ends the turn, they are answered as cancelled.
    async fn after_model_call(
        &self,
        _agent: &mut AgentInternals,
        _reply: &ModelReply,
    ) -> Result<HookDecision, AgentError> {
        Ok(HookDecision::Continue)
    }

    /// Runs before the calls of a reply are decided about and run. It may set [`RequestedCall::refusal`], with which the
    /// model is answered, or other arguments.
    async fn before_call(
        &self,
        _agent: &mut AgentInternals,
        _call: &mut RequestedCall,
    ) -> Result<(), AgentError> {
        Ok(())
    }

    /// Runs for each answered call, after all calls of the reply.
    async fn after_call(
        &self,
        _agent: &mut AgentInternals,
        _call: &ExecutedCall,
    ) -> Result<HookDecision, AgentError> {
        Ok(HookDecision::Continue)
    }

    /// Runs after a turn, however it ended.
    async fn after_turn(
        &self,
        _agent: &mut AgentInternals,
        _result: &TurnResult,
    ) -> Result<(), AgentError> {
        Ok(())
    }
}

/// The progress of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnProgress<'a> {
    /// Number of model calls.
    pub steps: u32,
    /// Their tokens.
    pub usage: TokenUsage,
    /// Time since the turn began.
    pub elapsed: Duration,
    /// The text of the last reply.
    pub text: Option<&'a str>,
    /// The answered calls, in order.
    pub calls: &'a [TurnCall],
    /// Files that were created, changed or deleted.
    pub files_changed: &'a [PathBuf],
}

/// A condition under which a turn ends, checked after the calls of each reply.
pub trait TerminationCondition: Send + Sync + fmt::Debug {
    /// Returns the reason to end the turn, if there is one.
    fn reason_to_end(&self, progress: &TurnProgress<'_>) -> Option<String>;
}

/// Ends a turn when the text of a reply contains a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextContains(pub String);

impl TerminationCondition for TextContains {
    fn reason_to_end(&self, progress: &TurnProgress<'_>) -> Option<String> {
        let has_mark = progress.text.is_some_and(|text| text.contains(&self.0));
        has_mark.then(|| format!("the model wrote \"{}\"", self.0))
    }
}

/// Ends a turn once this tool was called with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSucceeded(pub String);

impl TerminationCondition for ToolSucceeded {
    fn reason_to_end(&self, progress: &TurnProgress<'_>) -> Option<String> {
        let succeeded = progress
            .calls
            .iter()
            .any(|call| *call.tool == *self.0 && call.status == ToolStatus::Success);
        succeeded.then(|| format!("{} was called", self.0))
    }
}

/// Ends a turn that used this many tokens, input and output together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensUsed(pub u64);

impl TerminationCondition for TokensUsed {
    fn reason_to_end(&self, progress: &TurnProgress<'_>) -> Option<String> {
        (progress.usage.total() >= self.0).then(|| format!("the turn used {} tokens", self.0))
    }
}

/// Ends a turn that took this long, between two steps. Unlike the limit of a run it interrupts nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeElapsed(pub Duration);

impl TerminationCondition for TimeElapsed {
    fn reason_to_end(&self, progress: &TurnProgress<'_>) -> Option<String> {
        (progress.elapsed >= self.0).then(|| format!("the turn took {:?}", self.0))
    }
}
