//! Conversion of events to updates: the view of a session, the dispatch of events, their attribution to agents under
//! `_meta.crow`, and the todo lists as plans.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agent_client_protocol::v1::schema::{
    self as acp, Meta, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate,
    ToolCallId,
};
use crow_core::{
    event::{AgentEvent, AgentRole, Envelope},
    ids::SessionId,
    todo::{TodoItem, TodoStatus},
};
use crow_runtime::{ObserverItem, OpenReply};
use serde_json::{Map, Value};

use super::{
    abilities::ClientAbilities,
    call::CallViews,
    child::{ChildDisplay, ChildViews},
    content::sanitise,
    contents::FileReader,
    notice::NoticeSender,
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

/// The agent behind an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribution {
    pub(super) session: SessionId,
    pub(super) agent: String,
    pub(super) role: AgentRole,
    pub(super) round: u32,
    /// Id for the client of the call in which the agent works.
    pub(super) parent: Option<ToolCallId>,
}

impl Attribution {
    pub(super) fn new(envelope: &Envelope, parent: Option<ToolCallId>) -> Self {
        Self {
            session: envelope.session_id.clone(),
            agent: envelope.agent.clone(),
            role: envelope.role,
            round: envelope.round,
            parent,
        }
    }

    /// Returns the agent of a session that had no event yet.
    fn unseen(session: &SessionId) -> Self {
        let (role, round) = (AgentRole::Primary, 0);
        Self { session: session.clone(), agent: String::new(), role, round, parent: None }
    }

    /// Returns the prefix of the titles of its calls where they are shown among those of the primary.
    pub(super) fn prefix(&self) -> String {
        match self.role {
            AgentRole::Primary => String::new(),
            AgentRole::Coagent | AgentRole::Subagent => format!("{} · ", self.agent),
        }
    }

    pub(super) fn meta(&self) -> Meta {
        self.meta_with(Map::new())
    }

    /// Returns the attribution with more keys under `crow`.
    pub(super) fn meta_with(&self, more: Map<String, Value>) -> Meta {
        let role = match self.role {
            AgentRole::Primary => "primary",
            AgentRole::Coagent => "coagent",
            AgentRole::Subagent => "subagent",
        };
        let mut crow = more;
        if !self.agent.is_empty() {
            crow.insert("agent".to_owned(), self.agent.as_str().into());
        }
        crow.insert("role".to_owned(), role.into());
        if self.round > 0 {
            crow.insert("round".to_owned(), self.round.into());
        }
        if let Some(parent) = &self.parent {
            crow.insert("parentToolCallId".to_owned(), parent.0.as_ref().into());
        }
        Meta::from_iter([("crow".to_owned(), Value::Object(crow))])
    }
}

/// Returns an object with one key.
pub(super) fn single_key(key: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value.into())])
}

/// An update, and the session that it is sent for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionUpdateOut {
    /// Id of the session in the protocol.
    pub(crate) session_id: acp::SessionId,
    /// Content of the update.
    pub(crate) update: SessionUpdate,
}

impl From<SessionUpdateOut> for acp::SessionNotification {
    fn from(outgoing: SessionUpdateOut) -> Self {
        Self::new(outgoing.session_id, outgoing.update)
    }
}

/// The todo lists as the client has them.
#[derive(Debug, Default)]
pub(super) struct PlanViews {
    /// By the session of the agent.
    shown: HashMap<SessionId, Plan>,
}

impl PlanViews {
    /// Shows the todo list if it changed. Lists of agents that the client does not know as sessions are not shown: they
    /// would replace the primary's.
    pub(super) fn on_plan(&mut self, at: &mut EventContext<'_>, items: &[TodoItem]) {
        let ChildDisplay::Session(session) = at.display else { return };
        let plan = Plan::new(items.iter().map(plan_entry).collect());
        let shown = self.shown.get(&at.who.session);
        let is_known = shown.map_or(items.is_empty(), |shown| *shown == plan);
        if !is_known {
            self.shown.insert(at.who.session.clone(), plan.clone());
            at.send(session.clone(), SessionUpdate::Plan(plan.meta(at.who.meta())));
        }
    }
}

/// Converts a todo item. Todos have no priority: the one in progress gets the highest.
fn plan_entry(item: &TodoItem) -> PlanEntry {
    let (priority, status) = match item.status {
        TodoStatus::Pending => (PlanEntryPriority::Medium, PlanEntryStatus::Pending),
        TodoStatus::InProgress => (PlanEntryPriority::High, PlanEntryStatus::InProgress),
        TodoStatus::Completed => (PlanEntryPriority::Medium, PlanEntryStatus::Completed),
    };
    PlanEntry::new(sanitise(&item.content), priority, status)
}
