//! The content so far of replies that are still being received.

use std::collections::BTreeMap;

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::{ReplyId, SessionId},
};

/// The content so far of an incomplete reply. Deltas are not logged, so a late observer gets this instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReply {
    /// The session of the agent that receives the reply.
    pub session_id: SessionId,
    /// The id of the reply.
    pub reply_id: ReplyId,
    /// Its text so far. Deltas that begin before its end are already contained in it.
    pub text: String,
    /// Its reasoning so far.
    pub thinking: String,
}

impl OpenReply {
    fn new(envelope: &Envelope, reply_id: &ReplyId) -> Self {
        Self {
            session_id: envelope.session_id.clone(),
            reply_id: reply_id.clone(),
            text: String::new(),
            thinking: String::new(),
        }
    }
}

/// The open replies of a tree of agents, at most one per session.
#[derive(Debug, Default)]
pub(super) struct OpenReplies(BTreeMap<SessionId, OpenReply>);

impl OpenReplies {
    pub(super) fn apply(&mut self, envelope: &Envelope) {
        if let AgentEvent::TextDelta { reply_id, delta, .. } = &envelope.event {
            self.reply_mut(envelope, reply_id).text.push_str(delta);
        }
        if let AgentEvent::ThinkingDelta { reply_id, delta, .. } = &envelope.event {
            self.reply_mut(envelope, reply_id).thinking.push_str(delta);
        }
        if ends_reply(&envelope.event) {
            self.0.remove(&envelope.session_id);
        }
    }

    pub(super) fn forget(&mut self, session: &SessionId) {
        self.0.remove(session);
    }

    pub(super) fn to_vec(&self) -> Vec<OpenReply> {
        self.0.values().cloned().collect()
    }

    fn reply_mut(&mut self, envelope: &Envelope, reply_id: &ReplyId) -> &mut OpenReply {
        self.0
            .entry(envelope.session_id.clone())
            .and_modify(|reply| {
                if reply.reply_id != *reply_id {
                    *reply = OpenReply::new(envelope, reply_id);
                }
            })
            .or_insert_with(|| OpenReply::new(envelope, reply_id))
    }
}

/// Returns true if this event completes or invalidates the open reply of its session.
fn ends_reply(event: &AgentEvent) -> bool {
    if let AgentEvent::StateChange { state } = event {
        return state.is_end();
    }
    matches!(
        event,
        AgentEvent::Reply { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::RunEnd { .. }
            | AgentEvent::Error { .. }
            | AgentEvent::Cancelled
    )
}
