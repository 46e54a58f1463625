//! Coagents and subagents: sessions of their own if the client shows such, else parts of a call of the parent.

use std::collections::{HashMap, HashSet};

use agent_client_protocol::v1::schema::{
    ContentBlock, IdleStateUpdate, IdleStopReason, MessageId, RequiresActionStateUpdate,
    RunningStateUpdate, SessionId as AcpSessionId, SessionMessage, SessionUpdate, StateUpdate,
    SubagentUpdate, ToolCallId,
};
use crow_core::{
    event::{AgentEvent, AgentRole, Envelope},
    ids::{CallId, SessionId},
    turn::TurnEnd,
};

use super::{
    call::CallViews,
    event::{Attribution, EventContext, SessionUpdateOut, SessionView},
};

/// Place where the text of an agent is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChildDisplay {
    /// In a session that the client knows.
    Session(AcpSessionId),
    /// In this call of the parent; `None` if it is not open.
    InCall(Option<ToolCallId>),
}

impl ChildDisplay {
    /// Returns the session in which calls and notices of the agent are shown.
    pub(super) fn session(&self, root: &SessionId) -> AcpSessionId {
        match self {
            Self::Session(session) => session.clone(),
            Self::InCall(_) => acp_id(root),
        }
    }
}

/// The agents below the root as the client sees them.
#[derive(Debug)]
pub(super) struct ChildViews {
    root: SessionId,
    /// True if the client shows them as sessions of their own.
    are_sessions: bool,
    children: HashMap<SessionId, ChildView>,
    /// Coagents that review, by the session whose work they review and their name. Others write messages.
    reviewers: HashSet<(SessionId, String)>,
}

/// A coagent or a subagent.
#[derive(Debug)]
struct ChildView {
    parent: SessionId,
    agent: String,
    /// The call that started it.
    call: Option<CallId>,
    role: AgentRole,
    state: ChildState,
    /// Number of messages between it and its parent.
    messages: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildState {
    Unknown,
    Running,
    Asking,
    Idle,
}

/// Direction of a message between an agent and its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToChild,
    ToParent,
}

pub(super) fn acp_id(session: &SessionId) -> AcpSessionId {
    AcpSessionId::new(session.as_str())
}

impl ChildViews {
    pub(super) fn new(root: SessionId, are_sessions: bool) -> Self {
        Self { root, are_sessions, children: HashMap::new(), reviewers: HashSet::new() }
    }

    /// Returns where an event is shown. The first event of an agent announces the agent to the client.
    pub(super) fn display_of_event(
        &mut self,
        calls: &CallViews,
        envelope: &Envelope,
        out: &mut Vec<SessionUpdateOut>,
    ) -> ChildDisplay {
        if envelope.session_id == self.root {
            return ChildDisplay::Session(acp_id(&self.root));
        }
        if !self.children.contains_key(&envelope.session_id) {
            self.announce(calls, envelope, out);
        }
        self.display_at(calls, &envelope.session_id, &envelope.agent, envelope.role)
    }

    pub(super) fn display_of_agent(&self, calls: &CallViews, who: &Attribution) -> ChildDisplay {
        self.display_at(calls, &who.session, &who.agent, who.role)
    }

    fn display_at(
        &self,
        calls: &CallViews,
        session: &SessionId,
        agent: &str,
        role: AgentRole,
    ) -> ChildDisplay {
        if *session == self.root || self.are_sessions {
            return ChildDisplay::Session(acp_id(session));
        }
        let Some(child) = self.children.get(session) else { return ChildDisplay::InCall(None) };
        ChildDisplay::InCall(match role {
            AgentRole::Coagent => calls.open_review(&child.parent, agent),
            AgentRole::Primary | AgentRole::Subagent => {
                child.call.as_ref().and_then(|call| calls.open_id(&child.parent, call))
            }
        })
    }

    /// Returns the call of the parent in which the agent works, open or not.
    pub(super) fn parent_call(
        &self,
        calls: &CallViews,
        envelope: &Envelope,
        stage: &ChildDisplay,
    ) -> Option<ToolCallId> {
        if let ChildDisplay::InCall(Some(anchor)) = stage {
            return Some(anchor.clone());
        }
        let child = self.children.get(&envelope.session_id)?;
        match &child.call {
            Some(call) => calls.last_id(&child.parent, call),
            None => calls.open_review(&child.parent, &envelope.agent),
        }
    }

    /// Records a new agent, and announces its session if the client shows such.
    fn announce(
        &mut self,
        calls: &CallViews,
        envelope: &Envelope,
        out: &mut Vec<SessionUpdateOut>,
    ) {
        let parent = envelope.parent.as_ref();
        let child = ChildView {
            parent: parent.map_or_else(|| self.root.clone(), |parent| parent.session_id.clone()),
            agent: envelope.agent.clone(),
            call: parent.and_then(|parent| parent.call_id.clone()),
            role: envelope.role,
            state: ChildState::Unknown,
            messages: 0,
        };
        if self.are_sessions {
            let task = child.call.as_ref().and_then(|call| calls.title(&child.parent, call));
            let mut update = SubagentUpdate::new(acp_id(&envelope.session_id))
                .title(envelope.agent.as_str())
                .meta(Attribution::new(envelope, None).meta());
            if let Some(task) = task {
                update = update.description(task);
            }
            let (session_id, update) =
                (acp_id(&child.parent), SessionUpdate::SubagentUpdate(update));
            out.push(SessionUpdateOut { session_id, update });
        }
        self.children.insert(envelope.session_id.clone(), child);
    }

    /// Shows the result of a subagent, which has ended.
    pub(super) fn on_subagent_end(
        &mut self,
        at: &mut EventContext<'_>,
        child_id: &SessionId,
        result: &str,
    ) {
        self.message(at, child_id, Direction::ToParent, &[result.into()]);
        self.set_state(at, child_id, ChildState::Idle, None);
    }

    pub(super) fn set_running(&mut self, at: &mut EventContext<'_>) {
        self.set_state(at, &at.who.session.clone(), ChildState::Running, None);
    }

    pub(super) fn set_asking(&mut self, at: &mut EventContext<'_>) {
        self.set_state(at, &at.who.session.clone(), ChildState::Asking, None);
    }

    pub(super) fn set_idle(&mut self, at: &mut EventContext<'_>, end: Option<&TurnEnd>) {
        self.set_state(at, &at.who.session.clone(), ChildState::Idle, end);
    }

    fn set_state(
        &mut self,
        at: &mut EventContext<'_>,
        session: &SessionId,
        state: ChildState,
        end: Option<&TurnEnd>,
    ) {
        if !self.are_sessions {
            return;
        }
        let Some(child) = self.children.get_mut(session).filter(|child| child.state != state)
        else {
            return;
        };
        child.state = state;
        let state_update = match state {
            ChildState::Unknown => return,
            ChildState::Running => StateUpdate::Running(RunningStateUpdate::new()),
            ChildState::Asking => StateUpdate::RequiresAction(RequiresActionStateUpdate::new()),
            ChildState::Idle => {
                StateUpdate::Idle(IdleStateUpdate::new().stop_reason(end.map(stop_reason)))
            }
        };
        let update = SubagentUpdate::new(acp_id(session)).state(state_update);
        at.send(acp_id(&child.parent), SessionUpdate::SubagentUpdate(update));
    }

    /// Shows a message between a child and its parent in the transcripts of both.
    pub(super) fn message(
        &mut self,
        at: &mut EventContext<'_>,
        session: &SessionId,
        direction: Direction,
        content: &[ContentBlock],
    ) {
        if !self.are_sessions || content.is_empty() {
            return;
        }
        let Some(child) = self.children.get_mut(session) else { return };
        child.messages += 1;
        let id = |side: &str| MessageId::new(format!("{session}.{}.{side}", child.messages));
        let (sent, received) = (id("sent"), id("received"));
        let (above, below) = (acp_id(&child.parent), acp_id(session));
        let (sender, recipient) = match direction {
            Direction::ToChild => (above, below),
            Direction::ToParent => (below, above),
        };
        let meta = at.who.meta();
        let between = |id: &MessageId| {
            SessionMessage::new(id.clone())
                .sender_session_id(sender.clone())
                .recipient_session_id(recipient.clone())
                .content(content.to_vec())
                .meta(meta.clone())
        };
        let outgoing = between(&sent).recipient_message_id(received.clone());
        let incoming = between(&received).sender_message_id(sent.clone());
        at.send(sender.clone(), SessionUpdate::SessionMessage(outgoing));
        at.send(recipient.clone(), SessionUpdate::SessionMessage(incoming));
    }

    /// Records that a coagent reviews the work of a session.
    pub(super) fn add_reviewer(&mut self, primary: &SessionId, coagent: &str) {
        self.reviewers.insert((primary.clone(), coagent.to_owned()));
    }

    /// Returns the reviewer of a session's work, if there is exactly one.
    pub(super) fn only_reviewer(&self, primary: &SessionId) -> Option<SessionId> {
        let is_reviewer = |child: &ChildView| {
            child.parent == *primary
                && child.role == AgentRole::Coagent
                && self.reviewers.contains(&(primary.clone(), child.agent.clone()))
        };
        let mut reviewers = self.children.iter().filter(|(_, child)| is_reviewer(child));
        let (session, _) = reviewers.next()?;
        reviewers.next().is_none().then(|| session.clone())
    }

    pub(super) fn is_coagent_of_root(&self, session: &SessionId) -> bool {
        let child = self.children.get(session);
        child.is_some_and(|child| child.role == AgentRole::Coagent && child.parent == self.root)
    }
}

impl SessionView {
    /// Shows events of an agent that are about other agents: reviews, and the end of subagents.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller names every event")]
    pub(super) fn show_others(&mut self, at: &mut EventContext<'_>, event: &AgentEvent) {
        match event {
            AgentEvent::Handoff { to, prompt, .. } => self.begin_review(at, to, Some(prompt)),
            AgentEvent::CoagentStart { coagent, .. } => self.begin_review(at, coagent, None),
            AgentEvent::ReviewVerdict { reviewer, verdict } => {
                self.end_review(at, reviewer, Some(*verdict));
            }
            AgentEvent::CoagentEnd { coagent, .. } => self.end_review(at, coagent, None),
            AgentEvent::SubagentEnd { child_id, result, .. } => {
                self.children.on_subagent_end(at, child_id, result);
            }
            // `SubagentStart`: the first event of the subagent itself announces it, also in a replay.
            _ => {}
        }
    }
}

fn stop_reason(end: &TurnEnd) -> IdleStopReason {
    match end {
        TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. } => {
            IdleStopReason::EndTurn
        }
        TurnEnd::OutputLimit => IdleStopReason::MaxTokens,
        TurnEnd::MaxSteps { .. }
        | TurnEnd::DoomLoop { .. }
        | TurnEnd::Budget { .. }
        | TurnEnd::Condition { .. } => IdleStopReason::MaxTurnRequests,
        TurnEnd::Refusal => IdleStopReason::Refusal,
        TurnEnd::Cancelled => IdleStopReason::Cancelled,
        TurnEnd::InvalidCalls | TurnEnd::Error { .. } => IdleStopReason::EndTurn,
    }
}
