//! The meaning of each event for the panel.

use crow_core::event::{AgentEvent, AgentState, Envelope};

use super::{
    live_calls::LiveCall, model_phase::PhaseKind, panel::ActivityPanel,
    received_tokens::ReceivedTokens, roster::ChildScope,
};

impl ActivityPanel {
    /// Takes an event of the root session or of an agent below it. An event of another root session replaces all that was
    /// known.
    pub(crate) fn on_event(&mut self, envelope: &Envelope) {
        self.follow_root(&envelope.root_id);
        if let Some(parent) = self.roster.observe(envelope)
            && let Some(call_id) = &parent.call_id
            && let Some(progress) = self.agents.get_mut(&parent.session_id)
        {
            progress.calls.on_wait_end(call_id);
        }
        self.on_agents(envelope);
        self.renew_run();
        self.on_progress(envelope);
        self.drop_unknown_agents();
    }

    /// Updates the roster: who begins and ends to work.
    fn on_agents(&mut self, envelope: &Envelope) {
        let Envelope { session_id, time, .. } = envelope;
        let (roster, time) = (&mut self.roster, *time);
        match &envelope.event {
            AgentEvent::RunStart { .. } => roster.start(session_id, time),
            AgentEvent::TurnStart { .. } => roster.resume(session_id, time),
            AgentEvent::RunEnd { .. } => {
                roster.end(session_id);
                roster.end_children(session_id, ChildScope::Foreground);
            }
            AgentEvent::TurnComplete { .. } => roster.on_turn_end(session_id),
            AgentEvent::StateChange { state } => match state {
                AgentState::Idle => {
                    roster.end(session_id);
                    roster.end_children(session_id, ChildScope::Foreground);
                }
                AgentState::Done | AgentState::Error(_) => {
                    roster.end(session_id);
                    roster.end_children(session_id, ChildScope::All);
                }
                AgentState::Processing
                | AgentState::WaitingForPermission
                | AgentState::ExecutingTool(_)
                | AgentState::WaitingForSubagent(_) => {}
            },
            AgentEvent::CallEnd { call_id, result, .. } => {
                roster.on_call_end(session_id, call_id, &result.metadata);
            }
            AgentEvent::CoagentStart { coagent, .. } => {
                roster.on_review_start(session_id, coagent, time);
            }
            AgentEvent::CoagentEnd { coagent, .. } => roster.on_review_end(session_id, coagent),
            AgentEvent::SubagentStart { subagent, child_id, task, .. } => {
                roster.on_subagent_start(envelope, child_id, subagent, task);
            }
            AgentEvent::SubagentEnd { child_id, .. } => {
                roster.end(child_id);
                roster.end_children(child_id, ChildScope::All);
            }
            AgentEvent::TextDelta { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::CallStart { .. } => roster.on_output(session_id, time),
            AgentEvent::SessionStart { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::UserInput { .. }
            | AgentEvent::Instructions { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::TextComplete { .. }
            | AgentEvent::ThinkingComplete { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::ModelWait { .. }
            | AgentEvent::ToolsWait { .. }
            | AgentEvent::Reply { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::CallPending { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::PermissionDecision { .. }
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. }
            | AgentEvent::Plan { .. }
            | AgentEvent::Handoff { .. }
            | AgentEvent::Checks { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::TaskComplete { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::FilesRestored { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::Compaction { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Error { .. }
            | AgentEvent::Cancelling
            | AgentEvent::Cancelled => {}
        }
    }

    /// Updates what the agent of the event does.
    fn on_progress(&mut self, envelope: &Envelope) {
        let (session_id, time) = (&envelope.session_id, envelope.time);
        let is_root = envelope.is_root();
        let mut ended = None;
        let progress = self.progress_of(session_id, time);
        match &envelope.event {
            AgentEvent::RunStart { .. } => progress.on_run_start(time),
            AgentEvent::UserInput { .. } => progress.on_input(),
            AgentEvent::TurnStart { .. } => {
                progress.on_phase(PhaseKind::ModelRequest, time);
                if is_root {
                    self.run.tokens = ReceivedTokens::default();
                }
            }
            AgentEvent::StepComplete { .. } => progress.on_phase(PhaseKind::ModelRequest, time),
            AgentEvent::TurnComplete { .. } | AgentEvent::Reply { .. } => {
                progress.on_phase(PhaseKind::Preparation, time);
            }
            AgentEvent::TextDelta { reply_id, offset, delta } => {
                progress.on_phase(PhaseKind::Text, time);
                if is_root {
                    self.run.tokens.on_text(reply_id, *offset, delta);
                }
            }
            AgentEvent::ThinkingDelta { reply_id, offset, delta } => {
                progress.on_phase(PhaseKind::Reasoning, time);
                if is_root {
                    self.run.tokens.on_thinking(reply_id, *offset, delta);
                }
            }
            AgentEvent::TextComplete { reply_id, text } if is_root => {
                self.run.tokens.on_text(reply_id, 0, text);
            }
            AgentEvent::ThinkingComplete { reply_id, text } if is_root => {
                self.run.tokens.on_thinking(reply_id, 0, text);
            }
            AgentEvent::Usage { usage, estimated, .. } if is_root => {
                self.run.tokens.on_usage(usage.output_tokens, *estimated);
            }
            AgentEvent::ReplyReset { error, attempt, wait_ms, .. } => {
                progress.on_phase(PhaseKind::retry(error, *attempt, time, *wait_ms), time);
                if is_root {
                    self.run.tokens.on_reset();
                }
            }
            AgentEvent::ModelWait { reason, wait_ms, .. } => {
                progress.on_rate_limit(reason, *wait_ms, time);
            }
            AgentEvent::ToolsWait { servers } => progress.on_tools_wait(servers, time),
            AgentEvent::StateChange { state } => match state {
                AgentState::Processing => progress.on_processing(time),
                AgentState::Idle
                | AgentState::WaitingForPermission
                | AgentState::ExecutingTool(_)
                | AgentState::WaitingForSubagent(_)
                | AgentState::Done
                | AgentState::Error(_) => {}
            },
            AgentEvent::Compaction { .. } => progress.on_compacted(time),
            AgentEvent::CallPending { call_id, title, .. } => {
                progress.calls.on_pending(call_id, title);
            }
            AgentEvent::CallStart { call_id, title, .. } => {
                progress.on_call_start(call_id, title, time);
            }
            AgentEvent::CallWait { call_id, reason } => {
                progress.calls.on_wait(call_id, reason, time);
            }
            AgentEvent::CallProgress { call_id, output } if is_root => {
                progress.calls.on_output(call_id, output);
            }
            AgentEvent::CallEnd { call_id, .. } => ended = progress.on_call_end(call_id, time),
            AgentEvent::PermissionRequest { request_id, call_id, .. }
            | AgentEvent::QuestionAsked { request_id, call_id, .. } => {
                progress.on_question(request_id, call_id, time);
            }
            AgentEvent::PermissionDecision { request_id, .. }
            | AgentEvent::PermissionWithdrawn { request_id, .. }
            | AgentEvent::QuestionAnswered { request_id, .. }
            | AgentEvent::QuestionWithdrawn { request_id, .. } => {
                progress.on_question_closed(request_id);
            }
            AgentEvent::Plan { items } if is_root => self.run.set_todos(items),
            AgentEvent::Cancelling if is_root => self.run.on_cancelling(time),
            AgentEvent::TextComplete { .. }
            | AgentEvent::ThinkingComplete { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::Plan { .. }
            | AgentEvent::Cancelling
            | AgentEvent::Notice { .. }
            | AgentEvent::SessionStart { .. }
            | AgentEvent::RunEnd { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::Instructions { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::Handoff { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. }
            | AgentEvent::Checks { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::TaskComplete { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::FilesRestored { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::Error { .. }
            | AgentEvent::Cancelled => {}
        }
        let title = ended.as_ref().map(|call| call.title.as_str());
        let since = ended.as_ref().and_then(LiveCall::since).unwrap_or(time);
        self.jobs.on_event_of_call(envelope, title, since);
    }
}
