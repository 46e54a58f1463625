//! The consumers of telemetry, at two levels.

use std::fmt;

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::SessionId,
    model::ModelRef,
};

use crate::{
    HandoffWork, ModelCallWork, RunTotals, SpanWork, ToolCallWork, TraceBuilder, TraceSpan,
    TurnWork,
};

/// Consumer of what happens inside: calls of models and tools, handoffs, turns. All methods do nothing unless they are
/// overridden; they must not block.
pub trait InternalTelemetry: Send + fmt::Debug {
    /// A model was called; failed calls are among them.
    fn record_llm_call(&mut self, span: &TraceSpan, call: &ModelCallWork) {
        let _ = (span, call);
    }

    /// A tool was called; refused calls are among them.
    fn record_tool_execution(&mut self, span: &TraceSpan, call: &ToolCallWork) {
        let _ = (span, call);
    }

    /// An agent handed its work to another.
    fn record_handoff(&mut self, span: &TraceSpan, handoff: &HandoffWork) {
        let _ = (span, handoff);
    }

    /// A turn of an agent ended.
    fn record_turn_complete(&mut self, span: &TraceSpan, turn: &TurnWork) {
        let _ = (span, turn);
    }

    /// A run ended, after all that is part of it.
    fn record_run_complete(&mut self, span: &TraceSpan, run: &RunTotals) {
        let _ = (span, run);
    }

    /// A span of any kind ended. Called before the method for its kind; spans of questions, checks, verdicts and
    /// compactions have no other.
    fn record_span(&mut self, span: &TraceSpan) {
        let _ = span;
    }
}

/// Consumer of what the user experiences: a prompt, its events, and what it came to. All methods do nothing unless they
/// are overridden; they must not block.
pub trait AcpTelemetry: Send + fmt::Debug {
    /// A run began: the event `run_start` of the root session.
    fn record_prompt_start(&mut self, start: &Envelope) {
        let _ = start;
    }

    /// A run ended, or its events did.
    fn record_prompt_complete(&mut self, span: &TraceSpan, run: &RunTotals) {
        let _ = (span, run);
    }

    /// An event happened, durable or not.
    fn record_stream_event(&mut self, event: &Envelope) {
        let _ = event;
    }
}

/// Feeds the events of one root session and its descendants to consumers.
#[derive(Debug, Default)]
pub struct TelemetryFeed {
    builder: TraceBuilder,
    internal: Vec<Box<dyn InternalTelemetry>>,
    acp: Vec<Box<dyn AcpTelemetry>>,
    /// Kept for its room.
    ended: Vec<TraceSpan>,
}

impl TelemetryFeed {
    /// Makes a feed without consumers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells which model an agent uses, where the feed does not begin with its session.
    #[must_use]
    pub fn with_model(mut self, session: &SessionId, model: ModelRef) -> Self {
        self.builder.set_model(session, model);
        self
    }

    /// Collects the content of calls, for consumers that pass it on.
    #[must_use]
    pub fn with_content(mut self) -> Self {
        self.builder = self.builder.with_content();
        self
    }

    /// Adds a consumer of what happens inside.
    #[must_use]
    pub fn with_internal(mut self, consumer: impl InternalTelemetry + 'static) -> Self {
        self.internal.push(Box::new(consumer));
        self
    }

    /// Adds a consumer of what the user experiences.
    #[must_use]
    pub fn with_acp(mut self, consumer: impl AcpTelemetry + 'static) -> Self {
        self.acp.push(Box::new(consumer));
        self
    }

    /// Takes an event. Durable events must come in the order of their numbers.
    pub fn on_event(&mut self, event: &Envelope) {
        for consumer in &mut self.acp {
            consumer.record_stream_event(event);
        }
        let is_run_start = matches!(event.event, AgentEvent::RunStart { .. });
        if is_run_start && event.is_root() {
            for consumer in &mut self.acp {
                consumer.record_prompt_start(event);
            }
        }
        self.builder.apply(event, &mut self.ended);
        self.hand_out();
    }

    /// Ends the feed: what is open is handed out as unfinished.
    pub fn finish(mut self) {
        self.builder.finish(&mut self.ended);
        self.hand_out();
    }

    fn hand_out(&mut self) {
        for span in self.ended.drain(..) {
            for consumer in &mut self.internal {
                consumer.record_span(&span);
                match &span.work {
                    SpanWork::Turn(turn) => consumer.record_turn_complete(&span, turn),
                    SpanWork::ModelCall(call) => consumer.record_llm_call(&span, call),
                    SpanWork::ToolCall(call) => consumer.record_tool_execution(&span, call),
                    SpanWork::Handoff(handoff) => consumer.record_handoff(&span, handoff),
                    SpanWork::Permission(_)
                    | SpanWork::Question(_)
                    | SpanWork::Verdict(_)
                    | SpanWork::Checks(_)
                    | SpanWork::Compaction(_) => {}
                    SpanWork::Run(run) => consumer.record_run_complete(&span, run),
                }
            }
            if let SpanWork::Run(run) = &span.work {
                for consumer in &mut self.acp {
                    consumer.record_prompt_complete(&span, run);
                }
            }
        }
    }
}
