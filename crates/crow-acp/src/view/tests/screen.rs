//! A strict client: keeps the state that updates describe, and panics on updates that violate the protocol.

use std::collections::{BTreeMap, BTreeSet};

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, SessionUpdate, ToolCallStatus, ToolCallUpdateFields,
};

use super::sample::ROOT;
use crate::view::SessionUpdateOut;

/// A call as the client has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) title: String,
    pub(super) name: Option<String>,
    pub(super) status: ToolCallStatus,
}

/// State of the client, by session.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) calls: BTreeMap<(String, String), Call>,
    /// The text of each message, in the order in which they began.
    pub(super) texts: Vec<(String, String)>,
    pub(super) thoughts: Vec<(String, String)>,
    pub(super) sessions: BTreeSet<String>,
    /// Number of ends of calls.
    pub(super) ends: usize,
}

impl Screen {
    pub(super) fn of(out: &[SessionUpdateOut]) -> Self {
        let mut screen = Self::default();
        screen.sessions.insert(ROOT.to_owned());
        screen.take(out);
        screen
    }

    pub(super) fn take(&mut self, out: &[SessionUpdateOut]) {
        for outgoing in out {
            self.apply(&outgoing.session_id.0, &outgoing.update);
        }
    }

    /// Returns the text of a message.
    pub(super) fn text(&self, id: &str) -> &str {
        self.texts.iter().find(|(own, _)| own == id).map_or("", |(_, text)| text)
    }

    /// Returns the number of open calls.
    pub(super) fn open(&self) -> usize {
        self.calls.values().filter(|call| !is_end(call.status)).count()
    }

    fn apply(&mut self, session: &str, update: &SessionUpdate) {
        assert!(self.sessions.contains(session), "session {session} was not announced");
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => add(&mut self.texts, chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => add(&mut self.thoughts, chunk),
            SessionUpdate::ToolCall(call) => {
                let key = (session.to_owned(), call.tool_call_id.0.to_string());
                let (title, name, status) = (call.title.clone(), call.name.clone(), call.status);
                assert!(!title.is_empty(), "a call without a title");
                self.ends += usize::from(is_end(status));
                let before = self.calls.insert(key, Call { title, name, status });
                assert_eq!(before, None, "a call is announced twice");
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let key = (session.to_owned(), update.tool_call_id.0.to_string());
                self.update(&key, &update.fields);
            }
            SessionUpdate::SubagentUpdate(update) => {
                self.sessions.insert(update.session_id.0.to_string());
            }
            SessionUpdate::UserMessageChunk(_)
            | SessionUpdate::Plan(_)
            | SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::CurrentModeUpdate(_)
            | SessionUpdate::ConfigOptionUpdate(_)
            | SessionUpdate::SessionInfoUpdate(_)
            | SessionUpdate::UsageUpdate(_)
            | SessionUpdate::Notice(_)
            | SessionUpdate::CompactionUpdate(_)
            | SessionUpdate::CompactionSummaryChunk(_)
            | SessionUpdate::SessionMessage(_)
            | SessionUpdate::SessionMessageChunk(_)
            | _ => {}
        }
    }

    fn update(&mut self, key: &(String, String), fields: &ToolCallUpdateFields) {
        let call = self.calls.get_mut(key).unwrap_or_else(|| panic!("unknown call {key:?}"));
        assert!(!is_end(call.status), "call {key:?} is updated after its end");
        if let Some(status) = fields.status {
            call.status = status;
            self.ends += usize::from(is_end(status));
        }
    }
}

fn is_end(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}

fn add(messages: &mut Vec<(String, String)>, chunk: &ContentChunk) {
    let id = chunk.message_id.as_ref().unwrap().0.to_string();
    let ContentBlock::Text(text) = &chunk.content else { panic!("no text: {chunk:?}") };
    assert!(!text.text.is_empty(), "an empty chunk");
    match messages.iter_mut().find(|(own, _)| *own == id) {
        Some((_, message)) => message.push_str(&text.text),
        None => messages.push((id, text.text.clone())),
    }
}
