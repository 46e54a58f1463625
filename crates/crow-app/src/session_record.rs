//! The complete record of a session: its own log, and those of its descendants.

use std::collections::BTreeSet;

use crow_core::{event::Envelope, ids::SessionId, redact::Redactor};
use crow_runtime::{Damage, SessionError, SessionMetadata, SessionStore};

/// Merged record of a session and its descendants.
#[derive(Debug)]
pub struct SessionRecord {
    /// Header of the session.
    pub metadata: SessionMetadata,
    /// Events of all logs, in the order in which they happened.
    pub events: Vec<Envelope>,
    /// Damage of the session's own files.
    pub damage: Damage,
}

impl SessionRecord {
    /// Reads a session and its descendants, redacting the currently known secrets: a log may be older than the secret,
    /// or than this program. Unreadable descendants are left out. Blocks.
    pub fn read(
        store: &dyn SessionStore,
        id: &SessionId,
        redactor: &Redactor,
    ) -> Result<Self, SessionError> {
        let root = store.read(id)?;
        let mut lines = Vec::new();
        number(root.events, &mut lines);
        let mut visited = BTreeSet::from([id.clone()]);
        let mut pending = root.metadata.child_session_ids.clone();
        while let Some(child) = pending.pop() {
            if !visited.insert(child.clone()) {
                continue;
            }
            let Ok(stored) = store.read(&child) else { continue };
            pending.extend(stored.metadata.child_session_ids);
            number(stored.events, &mut lines);
        }
        lines.sort_by_key(|(number, _)| *number);
        let mut events: Vec<Envelope> = lines.into_iter().map(|(_, event)| event).collect();
        for line in &mut events {
            redactor.redact_event(&mut line.event);
        }
        Ok(Self { metadata: root.metadata, events, damage: root.damage })
    }
}

/// Appends the events of a log with their sort keys: the sequence number, or that of the previous event if it has none.
fn number(events: Vec<Envelope>, lines: &mut Vec<(u64, Envelope)>) {
    let mut last = 0;
    for event in events {
        last = event.seq.unwrap_or(last);
        lines.push((last, event));
    }
}
