//! The progress of one agent: its phase, its calls, and the questions that it waits for.

use crow_core::ids::{CallId, RequestId};
use jiff::Timestamp;

use super::{
    live_calls::{CallStartKind, LiveCall, LiveCalls},
    model_phase::{ModelPhase, PhaseKind},
    roster::WorkPeriod,
};

/// Maximum number of open questions of an agent.
const MOST_QUESTIONS: usize = 32;
/// Text for an agent that waits for the user.
pub(super) const ASKING: &str = "waiting for your answer";

/// The progress of an agent since it began the work that it does.
#[derive(Debug)]
pub(super) struct AgentProgress {
    /// The work that this is the progress of. None between two works.
    pub(super) work: Option<WorkPeriod>,
    pub(super) phase: ModelPhase,
    pub(super) calls: LiveCalls,
    /// Number of calls that were started.
    pub(super) call_count: usize,
    questions: Vec<UnansweredQuestion>,
    /// True between the start of a run and the first sign of its content. A run without any compacts the conversation.
    awaits_content: bool,
}

/// A question that is not answered.
#[derive(Debug)]
struct UnansweredQuestion {
    request_id: RequestId,
    call_id: CallId,
    since: Timestamp,
}

impl AgentProgress {
    pub(super) fn new(work: Option<WorkPeriod>, time: Timestamp) -> Self {
        Self {
            work,
            phase: ModelPhase::new(PhaseKind::Preparation, time),
            calls: LiveCalls::default(),
            call_count: 0,
            questions: Vec::new(),
            awaits_content: false,
        }
    }

    /// Records the start of a run.
    pub(super) fn on_run_start(&mut self, time: Timestamp) {
        self.phase = ModelPhase::new(PhaseKind::Preparation, time);
        self.awaits_content = true;
    }

    /// Records the input of a run.
    pub(super) fn on_input(&mut self) {
        self.awaits_content = false;
    }

    /// Records another phase of the model call or of the turn.
    pub(super) fn on_phase(&mut self, kind: PhaseKind, time: Timestamp) {
        self.awaits_content = false;
        self.phase.switch_to(kind, time);
    }

    /// Records a wait for the tools of servers.
    pub(super) fn on_tools_wait(&mut self, servers: &[String], time: Timestamp) {
        self.phase.switch_to(PhaseKind::server_tools(servers), time);
    }

    /// Records a wait for the limits of the provider. During a compaction it is a part of it.
    pub(super) fn on_rate_limit(&mut self, reason: &str, wait_ms: Option<u64>, time: Timestamp) {
        if *self.phase.kind() != PhaseKind::Compaction {
            self.on_phase(PhaseKind::rate_limit(reason, time, wait_ms), time);
        }
    }

    /// Records that the agent is about to ask the model. In a run without a turn, that is for a summary.
    pub(super) fn on_processing(&mut self, time: Timestamp) {
        if self.awaits_content {
            self.phase.switch_to(PhaseKind::Compaction, time);
        } else if let PhaseKind::ServerTools(_) = self.phase.kind() {
            self.phase.switch_to(PhaseKind::ModelRequest, time);
        }
    }

    /// Records the end of a compaction.
    pub(super) fn on_compacted(&mut self, time: Timestamp) {
        self.awaits_content = false;
        if *self.phase.kind() == PhaseKind::Compaction {
            self.phase.switch_to(PhaseKind::Preparation, time);
        }
    }

    /// Records that a call runs.
    pub(super) fn on_call_start(&mut self, id: &CallId, title: &str, time: Timestamp) {
        self.awaits_content = false;
        if self.calls.on_start(id, title, time) == CallStartKind::First {
            self.call_count = self.call_count.saturating_add(1);
        }
    }

    /// Records the end of a call, and returns it if it was known. After the last one the model is asked.
    pub(super) fn on_call_end(&mut self, id: &CallId, time: Timestamp) -> Option<LiveCall> {
        self.questions.retain(|question| question.call_id != *id);
        let call = self.calls.remove(id);
        if call.is_some() && self.calls.is_empty() {
            self.on_phase(PhaseKind::ModelRequest, time);
        }
        call
    }

    /// Records a question to the user.
    pub(super) fn on_question(
        &mut self,
        request_id: &RequestId,
        call_id: &CallId,
        time: Timestamp,
    ) {
        if self.questions.iter().any(|question| question.request_id == *request_id) {
            return;
        }
        if self.questions.len() == MOST_QUESTIONS {
            self.questions.remove(0);
        }
        let (request_id, call_id) = (request_id.clone(), call_id.clone());
        self.questions.push(UnansweredQuestion { request_id, call_id, since: time });
    }

    /// Records that a question was answered or withdrawn.
    pub(super) fn on_question_closed(&mut self, request_id: &RequestId) {
        self.questions.retain(|question| question.request_id != *request_id);
    }

    /// Returns since when a question is open.
    pub(super) fn asking_since(&self) -> Option<Timestamp> {
        self.questions.iter().map(|question| question.since).min()
    }

    /// Returns what the agent does: its question, its latest call or its phase.
    pub(super) fn doing(&self, now: Timestamp) -> String {
        if self.asking_since().is_some() {
            return ASKING.to_owned();
        }
        match self.calls.running().last() {
            Some(call) => call.description(),
            None => self.phase.describe_shortly(now),
        }
    }
}
