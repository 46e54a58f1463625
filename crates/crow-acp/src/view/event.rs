//! Conversion of events to updates: the view of a session, and the dispatch of events.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agent_client_protocol::v1::schema as acp;
use crow_core::{
    event::{AgentEvent, Envelope},
    ids::SessionId,
};
use crow_runtime::{ObserverItem, OpenReply};

use super::{
    abilities::ClientAbilities,
    attribution::Attribution,
    call::CallViews,
    child::{ChildDisplay, ChildViews},
    contents::FileReader,
    notice::NoticeSender,
    outgoing::SessionUpdateOut,
    plan::PlanViews,
    reply::{ReplyPart, ReplyViews},
};

/// Source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// It happened just now.
    Live,
    /// It is in the log of a session that is replayed.
    Replayed,
}

/// A root session, with all agents below it, as one client sees it.
///
/// Invariant: every shown call begins once and ends once, and no update names a call that was not shown before.
#[derive(Debug)]
pub(crate) struct SessionView {
    pub(super) root: SessionId,
    pub(super) abilities: ClientAbilities,
    /// Agent of the last event of each session.
    known: HashMap<SessionId, Attribution>,
    pub(super) replies: ReplyViews,
    pub(super) calls: CallViews,
    pub(super) children: ChildViews,
    pub(super) plans: PlanViews,
    pub(super) notices: NoticeSender,
    /// Last text of the primary.
    pub(super) last_words: String,
}

/// Context of one event: its agent, and where it is shown.
pub(super) struct EventContext<'a> {
    pub(super) who: &'a Attribution,
    pub(super) display: &'a ChildDisplay,
    pub(super) source: EventSource,
    pub(super) seq: Option<u64>,
    pub(super) out: &'a mut Vec<SessionUpdateOut>,
}

impl<'a> EventContext<'a> {
    /// Makes the context of something that happens now and that no event of the log stands for.
    pub(super) fn live(
        who: &'a Attribution,
        display: &'a ChildDisplay,
        out: &'a mut Vec<SessionUpdateOut>,
    ) -> Self {
        Self { who, display, source: EventSource::Live, seq: None, out }
    }

    /// Adds an update of a session.
    pub(super) fn send(&mut self, session_id: acp::SessionId, update: acp::SessionUpdate) {
        self.out.push(SessionUpdateOut { session_id, update });
    }
}

impl SessionView {
    /// Creates the view of a session of which nothing was shown yet. `cwd` is absolute.
    pub(crate) fn new(
        abilities: ClientAbilities,
        root: SessionId,
        cwd: PathBuf,
        contents: Arc<dyn FileReader>,
    ) -> Self {
        Self {
            known: HashMap::new(),
            replies: ReplyViews::default(),
            calls: CallViews::new(root.clone(), cwd, contents, abilities.terminals.is_yes()),
            children: ChildViews::new(root.clone(), abilities.subagents.is_yes()),
            plans: PlanViews::default(),
            notices: NoticeSender::new(root.clone(), abilities.notices.is_yes()),
            last_words: String::new(),
            root,
            abilities,
        }
    }

    /// Shows an item of an observer. [`ObserverItem::Lagged`] shows nothing: the items after it complete open replies.
    pub(crate) fn on_observer_item(
        &mut self,
        observed: &ObserverItem,
        out: &mut Vec<SessionUpdateOut>,
    ) {
        match observed {
            ObserverItem::Event(envelope) => self.on_event(envelope, EventSource::Live, out),
            ObserverItem::Lagged { .. } => {}
            ObserverItem::OpenReply(reply) => self.open_reply(reply, out),
            ObserverItem::Lost(error) => {
                let text = format!("some events cannot be shown: {error}");
                self.report_warning(&text, out);
            }
        }
    }

    /// Shows an event. May read files, for up to some milliseconds.
    pub(crate) fn on_event(
        &mut self,
        envelope: &Envelope,
        source: EventSource,
        out: &mut Vec<SessionUpdateOut>,
    ) {
        let stage = self.children.display_of_event(&self.calls, envelope, out);
        let call = self.children.parent_call(&self.calls, envelope, &stage);
        let who = Attribution::new(envelope, call);
        self.known.insert(envelope.session_id.clone(), who.clone());
        let at = EventContext { who: &who, display: &stage, source, seq: envelope.seq, out };
        self.show(at, &envelope.event);
    }

    /// Shows the part of a running reply that was not shown yet.
    pub(crate) fn open_reply(&mut self, reply: &OpenReply, out: &mut Vec<SessionUpdateOut>) {
        let OpenReply { session_id, reply_id, text, thinking } = reply;
        let who = self.who(session_id);
        let stage = self.children.display_of_agent(&self.calls, &who);
        let mut at = EventContext::live(&who, &stage, out);
        let Self { replies, calls, .. } = self;
        replies.on_text_so_far(&mut at, calls, ReplyPart::Thought, reply_id, thinking);
        replies.on_text_so_far(&mut at, calls, ReplyPart::Text, reply_id, text);
    }

    pub(super) fn who(&self, session: &SessionId) -> Attribution {
        self.known.get(session).cloned().unwrap_or_else(|| Attribution::unseen(session))
    }

    fn show(&mut self, mut at: EventContext<'_>, event: &AgentEvent) {
        let at = &mut at;
        match event {
            AgentEvent::TextDelta { reply_id, offset, delta } => {
                let part = ReplyPart::Text;
                self.replies.on_delta(at, &mut self.calls, part, reply_id, (*offset, delta));
            }
            AgentEvent::ThinkingDelta { reply_id, offset, delta } => {
                let part = ReplyPart::Thought;
                self.replies.on_delta(at, &mut self.calls, part, reply_id, (*offset, delta));
            }
            AgentEvent::TextComplete { .. } | AgentEvent::ThinkingComplete { .. } => {}
            AgentEvent::ReplyReset { reply_id, error, attempt, wait_ms } => {
                self.on_reset(at, reply_id, &error.to_string(), (*attempt, *wait_ms));
            }
            AgentEvent::ModelWait { reason, wait_ms, .. } => self.on_wait(at, reason, *wait_ms),
            AgentEvent::ToolsWait { servers } => self.on_tools_wait(at, servers),
            AgentEvent::Reply { reply_id, blocks, .. } => self.on_reply(at, reply_id, blocks),
            AgentEvent::CallPending { .. }
            | AgentEvent::CallStart { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::CallEnd { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::PermissionDecision { .. } => self.show_call(at, event),
            // The call that asks is shown, and its result has the answer.
            AgentEvent::QuestionAsked { .. } => self.children.set_asking(at),
            AgentEvent::QuestionAnswered { .. } | AgentEvent::QuestionWithdrawn { .. } => {
                self.children.set_running(at);
            }
            AgentEvent::Plan { items } => self.plans.on_plan(at, items),
            AgentEvent::UserInput { message_id, source, content, .. } => {
                self.on_input(at, message_id, *source, content);
            }
            AgentEvent::Handoff { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. } => self.show_others(at, event),
            AgentEvent::RunStart { .. }
            | AgentEvent::RunEnd { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::SessionStart { .. }
            | AgentEvent::StateChange { .. }
            | AgentEvent::Cancelling
            | AgentEvent::Cancelled => self.show_course(at, event),
            AgentEvent::Checks { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::TaskComplete { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::Instructions { .. }
            | AgentEvent::FilesRestored { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::Compaction { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Error { .. } => self.show_notice(at, event),
        }
    }
}
