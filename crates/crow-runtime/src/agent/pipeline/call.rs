//! Answering the calls of a reply.

use crow_core::{
    call::{InvalidCall, ResolvedCall, resolve},
    event::{AgentEvent, AgentState, NoticeAudience, NoticeLevel},
    history::HistoryError,
    ids::{CallId, ReplyId},
    message::ToolCall,
    permission::Denial,
    tool::{ToolCategory, ToolRegistry, ToolResult},
    turn::{RequestedCall, Validity},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{AgentError, AgentInternals},
    delegated_calls::RunBy,
};

/// Maximum number of reading calls that run in parallel.
pub(super) const PARALLEL_READS: usize = 8;
/// Maximum number of agent-starting calls that run in parallel. Their agents may still have to wait for free slots.
const PARALLEL_AGENTS: usize = 32;

/// A call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutedCall {
    /// The id of the call.
    pub id: CallId,
    /// The resolved name of the tool, or the name the model used.
    pub name: String,
    /// The arguments as executed, or as the model gave them.
    pub arguments: Value,
    /// The result.
    pub result: ToolResult,
    /// Execution time in milliseconds.
    pub duration_ms: u64,
    /// Validity of tool and arguments.
    pub validity: Validity,
    /// True if success of this tool ends the turn.
    pub ends_turn: bool,
    /// The denial, if it was denied.
    pub denial: Option<Denial>,
}

impl AgentInternals {
    /// Answers the calls of a reply, each exactly once, and returns the answers in the order of the calls.
    ///
    /// Consecutive reading calls run in parallel, as do consecutive agent-starting calls; every other call runs alone,
    /// in order. When `cancel` is cancelled the remaining calls are answered as cancelled. Fails without running
    /// anything if a call is not open in the history.
    pub async fn call(
        &mut self,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        calls: Vec<RequestedCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        for call in &calls {
            if self.history().open_reply() != Some(reply_id)
                || !self.history().is_open(&call.call.id)
            {
                return Err(HistoryError::NotOpen { call_id: call.call.id.clone() }.into());
            }
        }
        self.set_state(AgentState::Processing).await?;
        let mut done = Vec::with_capacity(calls.len());
        let calls: Vec<_> =
            calls.into_iter().map(|call| UnderstoodCall::new(tools, call)).collect();
        for call in &calls {
            self.claim(call).await?;
        }
        let mut calls = calls.into_iter().peekable();
        while let Some(call) = calls.next() {
            let group = call.group();
            let mut batch = vec![call];
            if let Some((kind, most)) = group {
                let fits =
                    |next: &UnderstoodCall| next.group().is_some_and(|(other, _)| other == kind);
                while batch.len() < most
                    && let Some(next) = calls.next_if(fits)
                {
                    batch.push(next);
                }
            }
            done.append(&mut self.call_batch(tools, reply_id, batch, cancel).await?);
        }
        Ok(done)
    }

    /// Registers whether a call runs inside or outside, before any call runs: a result from outside may arrive at any
    /// time.
    async fn claim(&mut self, call: &UnderstoodCall) -> Result<(), AgentError> {
        let call_id = &call.call.id;
        if !self.shared.calls.claim(call_id, call.run_by()) {
            return Ok(());
        }
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        let text = format!(
            "a result for call {call_id} came from outside and is not used; this agent runs the call itself"
        );
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }

    async fn call_batch(
        &mut self,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        batch: Vec<UnderstoodCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let mut prepared = Vec::with_capacity(batch.len());
        for call in batch {
            prepared.push(self.prepare(reply_id, call, cancel).await?);
        }
        self.run_batch(tools, reply_id, prepared, cancel).await
    }
}

/// A call with its resolved tool and arguments, or the reason why it is only answered.
pub(super) struct UnderstoodCall {
    pub(super) call: ToolCall,
    pub(super) meaning: Result<ResolvedCall, CallRejection>,
}

/// The reason why a call is answered without running.
pub(super) enum CallRejection {
    /// The turn refuses it.
    Refused(String),
    /// The tool is unknown, or the arguments are invalid.
    Invalid(InvalidCall),
}

impl UnderstoodCall {
    fn new(tools: &ToolRegistry, request: RequestedCall) -> Self {
        let RequestedCall { call, refusal } = request;
        let meaning = match refusal {
            Some(reason) => Err(CallRejection::Refused(reason)),
            None => resolve(tools, &call).map_err(CallRejection::Invalid),
        };
        Self { call, meaning }
    }

    fn run_by(&self) -> RunBy {
        match &self.meaning {
            Ok(resolved) if resolved.tool.is_delegated() => RunBy::Outside,
            Ok(_) | Err(_) => RunBy::Inside,
        }
    }

    /// Returns the category of calls that this one may run in parallel with, and the maximum number of them. Waiting
    /// for slots is done by the agents themselves.
    fn group(&self) -> Option<(ToolCategory, usize)> {
        match self.meaning.as_ref().ok()?.tool.category() {
            ToolCategory::Read => Some((ToolCategory::Read, PARALLEL_READS)),
            ToolCategory::Agent => Some((ToolCategory::Agent, PARALLEL_AGENTS)),
            ToolCategory::Write
            | ToolCategory::Execute
            | ToolCategory::Network
            | ToolCategory::Session
            | ToolCategory::External => None,
        }
    }
}
