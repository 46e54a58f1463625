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
    outside_calls::RunBy,
};

/// How many reading calls run side by side.
pub(super) const PARALLEL_READS: usize = 8;
/// How many calls that start agents run side by side. Of the agents, so many run at once as may; the others wait.
const PARALLEL_AGENTS: usize = 32;

/// A call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutedCall {
    /// The call.
    pub id: CallId,
    /// The tool by its true name, or what the model called.
    pub name: String,
    /// The arguments as they were used, or as the model gave them.
    pub arguments: Value,
    /// The answer.
    pub result: ToolResult,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether the call could be understood.
    pub validity: Validity,
    /// Whether the success of this tool ends the turn.
    pub ends_turn: bool,
    /// Who refused it, if it was refused.
    pub denial: Option<Denial>,
}

impl AgentInternals {
    /// Answers the calls of a reply, each exactly once, and returns the answers in the order of the calls.
    ///
    /// Calls that only read run side by side, and so do calls that start agents; every other call runs alone and in its
    /// place. When `cancel` is cancelled
    /// the remaining calls are answered as cancelled. Calls that are not open in the history are an error, and nothing is
    /// run.
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
            let beside = call.beside();
            let mut batch = vec![call];
            if let Some((kind, most)) = beside {
                let fits =
                    |next: &UnderstoodCall| next.beside().is_some_and(|(other, _)| other == kind);
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

    /// Says who runs a call before the first one runs: a result from outside may come at any time.
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

/// What is understood of a call: the tool and arguments that fit, or why it is only answered.
pub(super) struct UnderstoodCall {
    pub(super) call: ToolCall,
    pub(super) meaning: Result<ResolvedCall, CallRejection>,
}

/// Why a call is only answered.
pub(super) enum CallRejection {
    /// The turn does not want it to be run.
    Refused(String),
    /// It names no tool, or its arguments do not fit.
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
            Ok(resolved) if resolved.tool.runs_outside() => RunBy::Outside,
            Ok(_) | Err(_) => RunBy::Inside,
        }
    }

    /// Returns beside which kind of calls it may run, and how many of them at once. Agents wait for their turn by
    /// themselves.
    fn beside(&self) -> Option<(ToolCategory, usize)> {
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
