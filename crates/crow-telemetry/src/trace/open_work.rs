//! Runs, turns, model calls and tool calls that have started and not ended, while events are folded into spans.

use std::collections::{HashMap, HashSet};

use crow_core::{
    event::{AgentRole, Envelope, ModelCallTiming, ParentCall},
    ids::{CallId, ReplyId, RequestId, SessionId},
    message::Origin,
    model::{ModelRef, StopReason},
    trace::{SpanId, TraceId},
    usage::TokenUsage,
};
use jiff::Timestamp;

use super::{RunTotals, SpanOutcome, SpanWork, TraceSpan, TurnWork};

/// A run that goes on.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub(super) trace_id: TraceId,
    pub(super) origin: SpanOrigin,
    pub(super) work: RunTotals,
    /// The ids of the calls so far: some servers use one for several calls.
    pub(super) call_ids: HashSet<SpanId>,
}

/// An agent of the tree.
#[derive(Debug, Default)]
pub(super) struct OpenAgent {
    /// The trace and the span of the call that started it.
    pub(super) started_by: Option<(TraceId, SpanId)>,
    pub(super) turn: Option<OpenTurn>,
    pub(super) calls: HashMap<CallId, CallSpanStart>,
    pub(super) questions: HashMap<RequestId, Timestamp>,
    /// A reply whose usage is not known yet.
    pub(super) reply: Option<ReplySpanStart>,
    /// Usage of calls that no reply belongs to, or of which it still comes.
    pub(super) unclaimed: Vec<UnclaimedUsage>,
    /// Time of its last event: the next model call began then at the earliest.
    pub(super) last: Option<Timestamp>,
    /// The model that replied last.
    pub(super) model: Option<ModelRef>,
    pub(super) compacted: bool,
}

#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) id: SpanId,
    pub(super) start: Timestamp,
    pub(super) origin: SpanOrigin,
    pub(super) work: TurnWork,
}

#[derive(Debug)]
pub(super) struct CallSpanStart {
    pub(super) id: SpanId,
    pub(super) start: Timestamp,
    pub(super) origin: SpanOrigin,
    pub(super) title: String,
    pub(super) tool: String,
}

#[derive(Debug)]
pub(super) struct ReplySpanStart {
    /// When the model was asked, at the earliest.
    pub(super) start: Timestamp,
    /// The tokens of attempts that failed before.
    pub(super) attempts: TokenUsage,
    pub(super) line: SpanOrigin,
    pub(super) reply_id: ReplyId,
    pub(super) stop: StopReason,
    pub(super) origin: Origin,
    pub(super) response_id: Option<String>,
}

#[derive(Debug)]
pub(super) struct UnclaimedUsage {
    /// When the model was asked, at the earliest.
    pub(super) start: Timestamp,
    pub(super) line: SpanOrigin,
    pub(super) reply_id: ReplyId,
    pub(super) usage: TokenUsage,
    pub(super) estimated: bool,
    pub(super) timing: Option<ModelCallTiming>,
}

/// The origin of an event: its envelope without the event.
#[derive(Debug, Clone)]
pub(super) struct SpanOrigin {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) session_id: SessionId,
    pub(super) root_id: SessionId,
    pub(super) agent: String,
    pub(super) role: AgentRole,
    pub(super) parent: Option<ParentCall>,
    pub(super) round: u32,
}

impl SpanOrigin {
    pub(super) fn of(line: &Envelope) -> Self {
        Self {
            seq: line.seq.unwrap_or_default(),
            time: line.time,
            session_id: line.session_id.clone(),
            root_id: line.root_id.clone(),
            agent: line.agent.clone(),
            role: line.role,
            parent: line.parent.clone(),
            round: line.round,
        }
    }
}

impl OpenRun {
    /// Makes a span of an agent in this run, without an id of its own.
    pub(super) fn span(
        &self,
        line: &SpanOrigin,
        time: std::ops::Range<Timestamp>,
        outcome: SpanOutcome,
        work: SpanWork,
    ) -> TraceSpan {
        TraceSpan {
            trace_id: self.trace_id,
            id: SpanId::of_run(&self.work.run_id),
            parent: None,
            session_id: line.session_id.clone(),
            root_id: line.root_id.clone(),
            agent: line.agent.clone(),
            role: line.role,
            round: line.round,
            start: time.start,
            end: time.end.max(time.start),
            outcome,
            work,
        }
    }
}
