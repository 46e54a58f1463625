//! The fold of events into spans.
//!
//! A span is given out when it ends, so children come before their parents; ids are derived from the log, so a child
//! knows its parent before that is given out. Only durable events are used: a live run and its log give the same spans.
//!
//! The span of a model call begins as long before its end as the log says it took, or, in logs of older versions, at the
//! last event of the agent before it.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, CheckRun, Envelope, InputSource, ModelCallTiming},
    ids::{CallId, ReplyId, RequestId, RunId, SessionId},
    message::Block,
    model::ModelRef,
    tool::{ToolResult, ToolStatus},
    trace::{SpanId, TraceId},
    turn::TurnEnd,
    usage::TokenUsage,
};
use crow_text::{one_line, shorten};
use jiff::Timestamp;

use super::{
    CheckWork, CompactionWork, HandoffWork, ModelCallContent, ModelCallPurpose, ModelCallWork,
    PermissionWork, QuestionWork, RunTotals, SpanOutcome, SpanWork, ToolCallWork, TraceSpan,
    TurnWork, VerdictWork,
    content::ContentFold,
    open_work::{
        CallSpanStart, OpenAgent, OpenRun, OpenTurn, ReplySpanStart, SpanOrigin, UnclaimedUsage,
    },
    outcome::{RunEndFacts, before, end_of_run, failed, failure, short},
};

/// Maximum length of the name of a tool, in bytes.
const TOOL: usize = 100;

/// Folds the events of a root session and its descendants into spans.
///
/// Events must come in the order of their numbers. What is still open when they end is closed by
/// [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct TraceBuilder {
    run: Option<OpenRun>,
    agents: HashMap<SessionId, OpenAgent>,
    /// Time of the last event.
    last: Option<Timestamp>,
    /// The content of calls, if it is collected.
    content: Option<ContentFold>,
}

impl TraceBuilder {
    /// Makes a builder that has seen no event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Collects the content of calls: messages of models, arguments and results of tools.
    #[must_use]
    pub fn with_content(mut self) -> Self {
        self.content = Some(ContentFold::default());
        self
    }

    /// Tells which model an agent uses, where the events do not begin with those of its session.
    pub fn set_model(&mut self, session: &SessionId, model: ModelRef) {
        self.agents.entry(session.clone()).or_default().model = Some(model);
    }

    /// Returns all spans of a log, in the order in which they ended. What has no end in it is unfinished.
    pub fn spans<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Vec<TraceSpan> {
        let mut builder = Self::new();
        let mut spans = Vec::new();
        for event in events {
            builder.apply(event, &mut spans);
        }
        builder.finish(&mut spans);
        spans
    }

    /// Returns the trace of the run that goes on.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.run.as_ref().map(|run| run.trace_id)
    }

    /// Applies an event, and adds the spans that it ends. Events that are not durable are passed over.
    pub fn apply(&mut self, line: &Envelope, ended: &mut Vec<TraceSpan>) {
        if !line.event.is_durable() {
            return;
        }
        // The clock was set back: time stands still until it has caught up.
        let at_last = self.last.filter(|last| *last > line.time);
        let corrected = at_last.map(|time| Envelope { time, ..line.clone() });
        let line = corrected.as_ref().unwrap_or(line);
        self.remember_starting_call(line);
        if let AgentEvent::RunStart { run_id, .. } = &line.event
            && line.is_root()
        {
            self.start_run(line, run_id, ended);
        }
        if let AgentEvent::SessionStart { model, .. } = &line.event {
            self.agent(line).model = model.parse().ok();
        }
        if let Some(content) = &mut self.content {
            content.apply(line);
        }
        if self.run.is_some() {
            self.apply_in_run(line, ended);
        }
        self.last = Some(line.time);
        let agent = self.agents.entry(line.session_id.clone()).or_default();
        agent.last = Some(line.time);
        if let AgentEvent::RunEnd { result, .. } = &line.event
            && line.is_root()
        {
            self.close(&end_of_run(result), ended);
        }
    }

    /// Adds the spans of what is still open, as unfinished ones that end with the last event.
    pub fn finish(&mut self, ended: &mut Vec<TraceSpan>) {
        self.close(&RunEndFacts::unfinished(), ended);
    }

    fn start_run(&mut self, line: &Envelope, run_id: &RunId, ended: &mut Vec<TraceSpan>) {
        // A run without an end: its process died, and the session was resumed.
        self.close(&RunEndFacts::unfinished(), ended);
        self.run = Some(OpenRun {
            trace_id: TraceId::of_run(&line.root_id, run_id),
            origin: SpanOrigin::of(line),
            work: RunTotals {
                run_id: run_id.clone(),
                prompt: None,
                result: String::new(),
                verified: false,
                verdict: None,
                rounds: 1,
                model_calls: 0,
                tool_calls: 0,
                usage: Vec::new(),
                waited_ms: 0,
            },
            call_ids: HashSet::new(),
        });
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most events end no span")]
    fn apply_in_run(&mut self, line: &Envelope, ended: &mut Vec<TraceSpan>) {
        // Usage without a reply is that of an attempt whose reply comes now, or of a call beside the conversation.
        match &line.event {
            AgentEvent::Usage { .. } | AgentEvent::Notice { .. } | AgentEvent::Reply { .. } => {}
            AgentEvent::Error { error, provider } => {
                let failure = failure(error, provider.as_ref());
                let nothing_came = self.agent(line).unclaimed.is_empty();
                self.end_unclaimed(&line.session_id, &failure, ended);
                if nothing_came && provider.is_some() {
                    self.end_failed_model_call(line, failure, ended);
                }
            }
            AgentEvent::Cancelled | AgentEvent::TurnComplete { end: TurnEnd::Cancelled, .. } => {
                self.end_unclaimed(&line.session_id, &SpanOutcome::Cancelled, ended);
            }
            // Another model takes over from one that failed.
            AgentEvent::Switch { change } => {
                let failure = failure(change, None);
                self.end_unclaimed(&line.session_id, &failure, ended);
            }
            _ => self.end_unclaimed(&line.session_id, &SpanOutcome::Succeeded, ended),
        }
        match &line.event {
            AgentEvent::UserInput { source: InputSource::Prompt, content, .. }
                if line.is_root() =>
            {
                self.take_prompt(content);
            }
            AgentEvent::TurnStart { turn } => self.start_turn(line, *turn, ended),
            AgentEvent::TurnComplete { end, .. } => {
                self.end_turn(&line.session_id, line.time, Some(end.name()), ended);
            }
            AgentEvent::Reply { reply_id, stop, origin, response_id, .. } => {
                let (attempts, start) = self.claim_attempts(line, reply_id);
                self.end_unclaimed(&line.session_id, &SpanOutcome::Succeeded, ended);
                self.agent(line).reply = Some(ReplySpanStart {
                    start,
                    attempts,
                    line: SpanOrigin::of(line),
                    reply_id: reply_id.clone(),
                    stop: *stop,
                    origin: origin.clone(),
                    response_id: response_id.clone(),
                });
            }
            AgentEvent::Usage { reply_id, usage, estimated, timing, .. } => {
                self.take_usage(line, reply_id, (*usage, *estimated, *timing), ended);
            }
            AgentEvent::CallStart { call_id, tool, title, .. } => {
                let call = CallSpanStart {
                    id: self.new_call_id(line, call_id),
                    start: line.time,
                    origin: SpanOrigin::of(line),
                    title: short(title),
                    tool: tool.clone(),
                };
                self.agent(line).calls.insert(call_id.clone(), call);
            }
            AgentEvent::CallEnd { call_id, tool, result, denial, .. } => {
                self.end_call(line, call_id, (tool, result, denial.is_some()), ended);
            }
            AgentEvent::PermissionDecision { call_id, answer, waited_ms, .. } => {
                let waited = waited_ms.unwrap_or(0);
                let work =
                    PermissionWork { call_id: call_id.clone(), answer: answer.name().to_owned() };
                self.count_wait(waited);
                let start = before(line.time, waited);
                self.event_span(line, start, SpanWork::Permission(work), ended);
            }
            AgentEvent::QuestionAsked { request_id, .. } => {
                let time = line.time;
                self.agent(line).questions.insert(request_id.clone(), time);
            }
            AgentEvent::QuestionAnswered { request_id, call_id, .. } => {
                self.end_question(line, request_id, call_id, true, ended);
            }
            AgentEvent::QuestionWithdrawn { request_id, call_id } => {
                self.end_question(line, request_id, call_id, false, ended);
            }
            AgentEvent::Handoff { from, to, .. } => {
                let work = HandoffWork { from: from.clone(), to: to.clone() };
                self.event_span(line, line.time, SpanWork::Handoff(work), ended);
            }
            AgentEvent::ReviewVerdict { reviewer, verdict } => {
                self.run_work().verdict = Some(*verdict);
                let work = VerdictWork { reviewer: reviewer.clone(), verdict: *verdict };
                self.event_span(line, line.time, SpanWork::Verdict(work), ended);
            }
            AgentEvent::Checks { checks, .. } => self.end_checks(line, checks, ended),
            AgentEvent::Compaction { report, .. } => {
                self.agent(line).compacted = true;
                let work = CompactionWork {
                    trigger: report.as_ref().map(|report| report.trigger),
                    tokens_before: report.as_ref().map_or(0, |report| report.tokens_before),
                    tokens_after: report.as_ref().map_or(0, |report| report.tokens_after),
                };
                self.event_span(line, line.time, SpanWork::Compaction(work), ended);
            }
            _ => {}
        }
        let run = self.run_work();
        run.rounds = run.rounds.max(line.round);
    }

    /// Returns the work of the run that goes on.
    fn run_work(&mut self) -> &mut RunTotals {
        &mut self.run.as_mut().expect("invariant: only called in a run").work
    }

    fn agent(&mut self, line: &Envelope) -> &mut OpenAgent {
        self.agents.entry(line.session_id.clone()).or_default()
    }

    fn take_prompt(&mut self, content: &[Block]) {
        let text = content.iter().find_map(|block| match block {
            Block::Text { text } => Some(short(text)),
            Block::Image(_) => None,
        });
        let work = self.run_work();
        if work.prompt.is_none() {
            work.prompt = text;
        }
    }

    fn count_wait(&mut self, waited_ms: u64) {
        let work = self.run_work();
        work.waited_ms = work.waited_ms.saturating_add(waited_ms);
    }

    fn start_turn(&mut self, line: &Envelope, turn: u32, ended: &mut Vec<TraceSpan>) {
        // A turn without an end: its process died.
        self.end_turn(&line.session_id, line.time, None, ended);
        self.agent(line).turn = Some(OpenTurn {
            id: SpanId::of_turn(&line.session_id, line.seq.unwrap_or_default()),
            start: line.time,
            origin: SpanOrigin::of(line),
            work: TurnWork {
                turn,
                end: None,
                model_calls: 0,
                tool_calls: 0,
                usage: TokenUsage::default(),
            },
        });
    }

    fn end_turn(
        &mut self,
        session: &SessionId,
        time: Timestamp,
        end: Option<&str>,
        ended: &mut Vec<TraceSpan>,
    ) {
        let Some(agent) = self.agents.get_mut(session) else { return };
        let Some(mut turn) = agent.turn.take() else { return };
        turn.work.end = end.map(str::to_owned);
        let outcome = match end {
            None => SpanOutcome::Unfinished,
            Some("cancelled") => SpanOutcome::Cancelled,
            Some("error") => SpanOutcome::Failed {
                kind: "agent_error".to_owned(),
                message: "the turn failed".to_owned(),
            },
            Some(_) => SpanOutcome::Succeeded,
        };
        let parent = self.parent_of_turn(&turn.origin);
        let run = self.run.as_ref().expect("invariant: only called in a run");
        let span = TraceSpan {
            id: turn.id,
            parent: Some(parent),
            ..run.span(&turn.origin, turn.start..time, outcome, SpanWork::Turn(turn.work))
        };
        ended.push(span);
    }

    /// Remembers, at the first event of an agent, the span of the call that started it: later calls may have its id.
    fn remember_starting_call(&mut self, line: &Envelope) {
        let Some(parent) = &line.parent else { return };
        if self.agents.contains_key(&line.session_id) {
            return;
        }
        let open = self.agents.get(&parent.session_id).zip(parent.call_id.as_ref());
        let call = open.and_then(|(agent, id)| agent.calls.get(id)).map(|call| call.id);
        let started_by = self.run.as_ref().map(|run| run.trace_id).zip(call);
        self.agents
            .insert(line.session_id.clone(), OpenAgent { started_by, ..OpenAgent::default() });
    }

    /// Returns the span that a turn is part of: the call that started its agent, or the run. The call of an agent that
    /// works in the background may belong to an earlier run, which is another trace.
    fn parent_of_turn(&self, origin: &SpanOrigin) -> SpanId {
        let run = self.run.as_ref().expect("invariant: only called in a run");
        let started_by = self.agents.get(&origin.session_id).and_then(|agent| agent.started_by);
        let call = match started_by {
            Some((trace_id, call)) => (trace_id == run.trace_id).then_some(call),
            // The feed did not begin with the session.
            None => origin.parent.as_ref().and_then(|parent| {
                let id = SpanId::of_tool_call(&parent.session_id, parent.call_id.as_ref()?);
                run.call_ids.contains(&id).then_some(id)
            }),
        };
        call.unwrap_or_else(|| self.run_span_id())
    }

    fn run_span_id(&self) -> SpanId {
        let run = self.run.as_ref().expect("invariant: only called in a run");
        SpanId::of_run(&run.work.run_id)
    }

    /// Returns the span of what an agent is doing: its turn, or the run between turns.
    fn current_parent(&self, line: &SpanOrigin) -> SpanId {
        let agent = self.agents.get(&line.session_id);
        match agent.and_then(|agent| agent.turn.as_ref()) {
            Some(turn) => turn.id,
            None => self.parent_of_turn(line),
        }
    }

    /// Returns the tokens of the attempts before a reply, and when the first of them began at the earliest.
    fn claim_attempts(&mut self, line: &Envelope, reply_id: &ReplyId) -> (TokenUsage, Timestamp) {
        let agent = self.agent(line);
        let (mut sum, mut start) = (TokenUsage::default(), agent.last.unwrap_or(line.time));
        let unclaimed = std::mem::take(&mut agent.unclaimed);
        for attempt in unclaimed {
            if attempt.reply_id == *reply_id {
                sum += attempt.usage;
                start = start.min(attempt.start);
            } else {
                agent.unclaimed.push(attempt);
            }
        }
        (sum, start)
    }

    /// Ends the model calls that no reply belongs to.
    fn end_unclaimed(
        &mut self,
        session: &SessionId,
        outcome: &SpanOutcome,
        ended: &mut Vec<TraceSpan>,
    ) {
        let Some(agent) = self.agents.get_mut(session) else { return };
        let unclaimed = std::mem::take(&mut agent.unclaimed);
        for call in unclaimed {
            // A call beside the conversation has content that is not in the log.
            let is_reply = *outcome != SpanOutcome::Succeeded;
            let content = is_reply.then(|| self.take_model_call_content(session)).flatten();
            let id = SpanId::of_event(&call.line.session_id, call.line.seq);
            self.count_usage(&call.line.session_id, None, call.usage);
            let work = ModelCallWork {
                reply_id: call.reply_id,
                model: self.model_of(&call.line.session_id),
                dialect: String::new(),
                base_url: String::new(),
                purpose: ModelCallPurpose::Other,
                stop: None,
                response_id: None,
                usage: Some(call.usage),
                estimated: call.estimated,
                first_chunk_ms: call.timing.and_then(|timing| timing.first_chunk_ms),
                retries: call.timing.map_or(0, |timing| timing.retries),
                compacted: false,
                content,
            };
            let end = call.line.time;
            let start = call.timing.map_or(call.start, |timing| before(end, timing.duration_ms));
            self.child_span(
                &call.line,
                id,
                (start, end, outcome.clone()),
                SpanWork::ModelCall(work),
                ended,
            );
        }
    }

    /// Ends a model call that failed before anything of the reply came.
    fn end_failed_model_call(
        &mut self,
        line: &Envelope,
        failure: SpanOutcome,
        ended: &mut Vec<TraceSpan>,
    ) {
        let origin = SpanOrigin::of(line);
        let work = ModelCallWork {
            reply_id: ReplyId::new(""),
            model: self.model_of(&line.session_id),
            dialect: String::new(),
            base_url: String::new(),
            purpose: ModelCallPurpose::Other,
            stop: None,
            response_id: None,
            usage: None,
            estimated: false,
            first_chunk_ms: None,
            retries: 0,
            compacted: false,
            content: self.take_model_call_content(&line.session_id),
        };
        let start = self.agent(line).last.unwrap_or(line.time);
        let id = SpanId::of_event(&origin.session_id, origin.seq);
        self.child_span(&origin, id, (start, line.time, failure), SpanWork::ModelCall(work), ended);
    }

    /// Returns the model that an agent used last, or an unknown one.
    fn model_of(&self, session: &SessionId) -> ModelRef {
        let model = self.agents.get(session).and_then(|agent| agent.model.clone());
        model.unwrap_or_else(|| ModelRef { provider: String::new(), model: "unknown".to_owned() })
    }

    fn take_usage(
        &mut self,
        line: &Envelope,
        reply_id: &ReplyId,
        (usage, estimated, timing): (TokenUsage, bool, Option<ModelCallTiming>),
        ended: &mut Vec<TraceSpan>,
    ) {
        let agent = self.agent(line);
        let Some(reply) = agent.reply.take_if(|reply| reply.reply_id == *reply_id) else {
            let start = agent.last.unwrap_or(line.time);
            agent.unclaimed.push(UnclaimedUsage {
                start,
                line: SpanOrigin::of(line),
                reply_id: reply_id.clone(),
                usage,
                estimated,
                timing,
            });
            return;
        };
        let model =
            ModelRef { provider: reply.origin.provider.clone(), model: reply.origin.model.clone() };
        agent.model = Some(model.clone());
        let compacted = std::mem::take(&mut agent.compacted);
        if let Some(turn) = &mut agent.turn {
            turn.work.model_calls += 1;
        }
        self.run_work().model_calls += 1;
        let mut usage = usage;
        usage += reply.attempts;
        self.count_usage(&line.session_id, Some(&model), usage);
        let end = reply.line.time;
        let start = timing.map_or(reply.start, |timing| before(end, timing.duration_ms));
        let work = ModelCallWork {
            reply_id: reply_id.clone(),
            model,
            dialect: reply.origin.dialect,
            base_url: reply.origin.base_url,
            purpose: ModelCallPurpose::Reply,
            stop: Some(reply.stop),
            response_id: reply.response_id,
            usage: Some(usage),
            estimated,
            first_chunk_ms: timing.and_then(|timing| timing.first_chunk_ms),
            retries: timing.map_or(0, |timing| timing.retries),
            compacted,
            content: self.take_model_call_content(&line.session_id),
        };
        let id = SpanId::of_model_call(&line.session_id, reply_id);
        let times = (start, end, SpanOutcome::Succeeded);
        self.child_span(&reply.line, id, times, SpanWork::ModelCall(work), ended);
    }

    fn take_model_call_content(&mut self, session: &SessionId) -> Option<Box<ModelCallContent>> {
        self.content.as_mut()?.take_model_call(session)
    }

    fn count_usage(&mut self, session: &SessionId, model: Option<&ModelRef>, usage: TokenUsage) {
        let model = model.cloned().unwrap_or_else(|| self.model_of(session));
        let agent = self.agents.entry(session.clone()).or_default();
        if let Some(turn) = &mut agent.turn {
            turn.work.usage += usage;
        }
        let by_model = &mut self.run_work().usage;
        match by_model.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += usage,
            None => by_model.push((model, usage)),
        }
    }

    fn end_call(
        &mut self,
        line: &Envelope,
        call_id: &CallId,
        (tool, result, denied): (&String, &ToolResult, bool),
        ended: &mut Vec<TraceSpan>,
    ) {
        let agent = self.agent(line);
        if let Some(turn) = &mut agent.turn {
            turn.work.tool_calls += 1;
        }
        let call = agent.calls.remove(call_id);
        self.run_work().tool_calls += 1;
        let (id, start, title) = match call {
            Some(call) => (call.id, call.start, call.title),
            None => (self.new_call_id(line, call_id), line.time, String::new()),
        };
        let outcome = match (result.status, denied) {
            (_, true) => failed("denied", result),
            (ToolStatus::Success, false) => SpanOutcome::Succeeded,
            (ToolStatus::Error, false) => failed("tool_error", result),
            (ToolStatus::Cancelled, false) => SpanOutcome::Cancelled,
        };
        let metadata = &result.metadata;
        let changes = metadata.changes.unwrap_or_default();
        let counted =
            changes.created.saturating_add(changes.deleted).saturating_add(changes.modified);
        let work = ToolCallWork {
            call_id: call_id.clone(),
            // A model may call what is no tool.
            tool: shorten(&one_line(tool), TOOL),
            title,
            denied,
            files_changed: counted.max(metadata.files_modified.len() as u64),
            additions: changes.additions,
            deletions: changes.deletions,
            snapshot: metadata.snapshot_after.clone(),
            output_bytes: result.output.len() as u64,
            content: self.content.as_mut().and_then(|content| {
                content.take_tool_call(&line.session_id, call_id, &result.output)
            }),
        };
        let line = SpanOrigin::of(line);
        let times = (start, line.time, outcome);
        self.child_span(&line, id, times, SpanWork::ToolCall(work), ended);
    }

    /// Returns the id of the span of a call that begins: that of the call, unless an earlier call had the same id.
    fn new_call_id(&mut self, line: &Envelope, call_id: &CallId) -> SpanId {
        let id = SpanId::of_tool_call(&line.session_id, call_id);
        let run = self.run.as_mut().expect("invariant: only called in a run");
        if run.call_ids.insert(id) {
            id
        } else {
            SpanId::of_event(&line.session_id, line.seq.unwrap_or_default())
        }
    }

    fn end_question(
        &mut self,
        line: &Envelope,
        request_id: &RequestId,
        call_id: &CallId,
        answered: bool,
        ended: &mut Vec<TraceSpan>,
    ) {
        let asked = self.agent(line).questions.remove(request_id).unwrap_or(line.time);
        let waited = Duration::try_from(line.time.duration_since(asked)).unwrap_or_default();
        self.count_wait(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
        let work = QuestionWork { call_id: call_id.clone(), answered };
        let line = SpanOrigin::of(line);
        let id = SpanId::of_event(&line.session_id, line.seq);
        // The runtime also asks between calls: whether a file that was moved aside is put back.
        let call = self.agents.get(&line.session_id).and_then(|agent| agent.calls.get(call_id));
        let parent = call.map_or_else(|| self.current_parent(&line), |call| call.id);
        let run = self.run.as_ref().expect("invariant: only called in a run");
        let outcome = if answered { SpanOutcome::Succeeded } else { SpanOutcome::Cancelled };
        let span = run.span(&line, asked..line.time, outcome, SpanWork::Question(work));
        ended.push(TraceSpan { id, parent: Some(parent), ..span });
    }

    fn end_checks(&mut self, line: &Envelope, checks: &[CheckRun], ended: &mut Vec<TraceSpan>) {
        let run_now = checks.iter().filter(|check| !check.fresh);
        let duration_ms = run_now.map(|check| check.duration_ms).fold(0, u64::saturating_add);
        let names = |passed: bool| {
            let checks = checks.iter().filter(move |check| check.passed() == passed);
            checks.map(|check| check.name.clone()).collect::<Vec<_>>()
        };
        let work = CheckWork { passed: names(true), failed: names(false) };
        let start = before(line.time, duration_ms);
        self.event_span(line, start, SpanWork::Checks(work), ended);
    }

    /// Adds a span that one event describes.
    fn event_span(
        &self,
        line: &Envelope,
        start: Timestamp,
        work: SpanWork,
        ended: &mut Vec<TraceSpan>,
    ) {
        let line = SpanOrigin::of(line);
        let id = SpanId::of_event(&line.session_id, line.seq);
        self.child_span(&line, id, (start, line.time, SpanOutcome::Succeeded), work, ended);
    }

    /// Adds a span below what its agent is doing.
    fn child_span(
        &self,
        line: &SpanOrigin,
        id: SpanId,
        (start, end, outcome): (Timestamp, Timestamp, SpanOutcome),
        work: SpanWork,
        ended: &mut Vec<TraceSpan>,
    ) {
        let run = self.run.as_ref().expect("invariant: only called in a run");
        let parent = Some(self.current_parent(line));
        // Durations are of a steady clock, but times are not: it may have been set in between.
        let agent = self.agents.get(&line.session_id);
        let turn_start = agent.and_then(|agent| agent.turn.as_ref()).map(|turn| turn.start);
        let start = start.max(turn_start.unwrap_or(run.origin.time));
        ended.push(TraceSpan { id, parent, ..run.span(line, start..end, outcome, work) });
    }

    /// Ends the run and all that is open in it.
    fn close(&mut self, end: &RunEndFacts, ended: &mut Vec<TraceSpan>) {
        if self.run.is_none() {
            return;
        }
        let time = self.last.expect("invariant: a run began with an event");
        let mut sessions: Vec<SessionId> = self.agents.keys().cloned().collect();
        sessions.sort();
        for session in &sessions {
            self.end_unclaimed(session, &SpanOutcome::Unfinished, ended);
            let calls = self.agents.get_mut(session).map(|agent| std::mem::take(&mut agent.calls));
            let mut calls: Vec<_> = calls.unwrap_or_default().into_iter().collect();
            calls.sort_by_key(|(_, call)| call.origin.seq);
            for (call_id, call) in calls {
                self.run_work().tool_calls += 1;
                let agent = self.agents.entry(session.clone()).or_default();
                if let Some(turn) = &mut agent.turn {
                    turn.work.tool_calls += 1;
                }
                let content = self
                    .content
                    .as_mut()
                    .and_then(|content| content.take_tool_call(session, &call_id, ""));
                let work = ToolCallWork {
                    call_id,
                    tool: call.tool,
                    title: call.title,
                    denied: false,
                    files_changed: 0,
                    additions: 0,
                    deletions: 0,
                    snapshot: None,
                    output_bytes: 0,
                    content,
                };
                let times = (call.start, time, SpanOutcome::Unfinished);
                self.child_span(&call.origin, call.id, times, SpanWork::ToolCall(work), ended);
            }
            self.end_turn(session, time, None, ended);
        }
        let run = self.run.take().expect("invariant: checked above");
        let work =
            RunTotals { result: end.result.to_owned(), verified: end.verified, ..run.work.clone() };
        let start = run.origin.time;
        let span = run.span(&run.origin, start..time, end.outcome.clone(), SpanWork::Run(work));
        ended.push(TraceSpan { id: SpanId::of_run(&run.work.run_id), ..span });
        for agent in self.agents.values_mut() {
            *agent = OpenAgent {
                model: agent.model.take(),
                last: agent.last,
                started_by: agent.started_by,
                ..OpenAgent::default()
            };
        }
    }
}
