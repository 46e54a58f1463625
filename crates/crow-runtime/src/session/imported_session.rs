//! Sessions whose events come from another program's file.

use std::path::PathBuf;

use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, FORMAT_VERSION},
    history::History,
    ids::SessionId,
    model::ModelRef,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{CrowMetadata, SessionError, SessionMetadata, SessionStore, metadata::CROW};

/// A conversation that another program recorded, as a root session.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// The id that the session gets.
    pub id: SessionId,
    /// The name of the agent in its events.
    pub agent: String,
    /// The model that wrote the last reply.
    pub model: ModelRef,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The title for lists.
    pub title: String,
    /// Time of the first event.
    pub started: Timestamp,
    /// The events after the start of the session, oldest first.
    pub events: Vec<(Timestamp, AgentEvent)>,
    /// Values of the embedding program for the header. The key `crow` is replaced.
    pub values: Map<String, Value>,
}

impl ImportedSession {
    /// Adds the session to a store, and returns its header. Blocks.
    ///
    /// # Errors
    /// Fails if the store has a session of this id, if it cannot be written, or if the events cannot follow each other.
    pub fn add_to(self, store: &dyn SessionStore) -> Result<SessionMetadata, SessionError> {
        let (metadata, lines) = self.into_header_and_log()?;
        store.add(&metadata, &lines)?;
        Ok(metadata)
    }

    /// Replaces the session of this id in a store, and returns its header. Blocks.
    ///
    /// # Errors
    /// Fails if the store has no session of this id or it is in use, if the new one cannot be written, or if the events cannot
    /// follow each other. The old one stays then.
    pub fn replace_in(self, store: &dyn SessionStore) -> Result<SessionMetadata, SessionError> {
        let (metadata, lines) = self.into_header_and_log()?;
        store.replace(&metadata, &lines)?;
        Ok(metadata)
    }

    /// Returns the time of the last event.
    pub fn updated(&self) -> Timestamp {
        self.events.iter().map(|(time, _)| *time).fold(self.started, Timestamp::max)
    }

    fn into_header_and_log(self) -> Result<(SessionMetadata, Vec<Envelope>), SessionError> {
        let last = self.updated();
        let id = self.id.clone();
        let start = AgentEvent::SessionStart {
            format_version: FORMAT_VERSION,
            model: self.model.to_string(),
            cwd: self.cwd.clone(),
            settings: None,
        };
        let events = std::iter::once((self.started, start)).chain(self.events);
        let lines = events.zip(1_u64..).map(|((time, event), seq)| Envelope {
            seq: Some(seq),
            time,
            session_id: id.clone(),
            root_id: id.clone(),
            agent: self.agent.clone(),
            role: AgentRole::Primary,
            parent: None,
            round: u32::from(seq > 1),
            event,
        });
        let lines: Vec<Envelope> = lines.collect();
        let history = History::from_log(&lines)
            .map_err(|source| SessionError::Inconsistent { id: id.clone(), source })?;
        let mut metadata = SessionMetadata {
            session_id: id.clone(),
            agent_type: self.agent,
            parent_session_id: None,
            parent_tool_use_id: None,
            child_session_ids: Vec::new(),
            model: self.model.model,
            provider: self.model.provider,
            created_at: self.started,
            updated_at: last,
            metadata: self.values,
        };
        metadata.metadata.remove(CROW);
        let crow = CrowMetadata::new(FORMAT_VERSION, id, AgentRole::Primary, self.cwd);
        metadata.set_crow(&CrowMetadata { title: self.title, turns: history.turns(), ..crow });
        Ok((metadata, lines))
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{
        event::InputSource,
        ids::{CallId, MessageId, ReplyId},
        message::Block,
        tool::ToolResult,
    };

    use super::*;
    use crate::session::{FileStore, MemoryStore, SessionFilter};

    fn session(events: Vec<AgentEvent>) -> ImportedSession {
        ImportedSession {
            id: SessionId::new("other-1"),
            agent: "other".to_owned(),
            model: "p/m".parse().unwrap(),
            cwd: "/p".into(),
            title: "a title".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            events: events.into_iter().map(|event| (Timestamp::UNIX_EPOCH, event)).collect(),
            values: Map::from_iter([
                ("crow".to_owned(), Value::from(1)),
                ("own".to_owned(), Value::from(2)),
            ]),
        }
    }

    fn prompt() -> AgentEvent {
        AgentEvent::UserInput {
            message_id: MessageId::new("m"),
            source: InputSource::Prompt,
            context: None,
            content: vec![Block::text("hello")],
        }
    }

    fn result() -> AgentEvent {
        AgentEvent::CallEnd {
            call_id: CallId::new("c"),
            reply_id: ReplyId::new("r"),
            tool: "t".to_owned(),
            result: ToolResult::success("x"),
            denial: None,
        }
    }

    #[test]
    fn an_imported_session_is_read_and_listed_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let both: [Box<dyn SessionStore>; 2] = [
            Box::new(FileStore::new(folder.path().join("sessions"))),
            Box::new(MemoryStore::default()),
        ];
        for store in both {
            let header = session(vec![prompt()]).add_to(store.as_ref()).unwrap();
            assert_eq!(header.crow().title, "a title");
            assert_eq!(header.metadata["own"], 2);
            let stored = store.read(&header.session_id).unwrap();
            assert!(stored.damage.is_none());
            assert_eq!(stored.metadata, header);
            let numbers: Vec<_> = stored.events.iter().filter_map(|event| event.seq).collect();
            assert_eq!(numbers, [1, 2]);
            assert_eq!(
                store.list(&SessionFilter::default()).unwrap(),
                std::slice::from_ref(&header)
            );
            // It is not in use, and its id is taken.
            drop(store.open(&header.session_id).unwrap());
            let again = session(vec![prompt()]).add_to(store.as_ref());
            assert!(matches!(again, Err(SessionError::Exists { .. })), "{again:?}");
            // It can be replaced, unless it is in use or the new one is wrong.
            assert!(session(vec![prompt(), result()]).replace_in(store.as_ref()).is_err());
            let opened = store.open(&header.session_id).unwrap();
            let locked = session(vec![prompt(), prompt()]).replace_in(store.as_ref());
            assert!(matches!(locked, Err(SessionError::Locked { .. })), "{locked:?}");
            drop(opened);
            assert_eq!(store.read(&header.session_id).unwrap().events.len(), 2);
            session(vec![prompt(), prompt()]).replace_in(store.as_ref()).unwrap();
            assert_eq!(store.read(&header.session_id).unwrap().events.len(), 3);
        }
    }

    #[test]
    fn events_that_cannot_follow_each_other_are_refused_and_leave_no_session() {
        let store = MemoryStore::default();
        let refused = session(vec![prompt(), result()]).add_to(&store);
        assert!(matches!(refused, Err(SessionError::Inconsistent { .. })), "{refused:?}");
        assert_eq!(store.list(&SessionFilter::default()).unwrap(), []);
    }
}
