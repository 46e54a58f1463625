//! Metadata of sessions for lists, and the part of a log that a replay shows.

use agent_client_protocol::v1::schema::{
    SessionId as AcpSessionId, SessionInfo, SessionInfoUpdate,
};
use crow_core::event::{AgentEvent, Envelope};
use crow_runtime::SessionMetadata;

use super::text::title;

/// Returns the entry of a session in a list.
pub(crate) fn session_info(metadata: &SessionMetadata) -> SessionInfo {
    let crow = metadata.crow();
    SessionInfo::new(AcpSessionId::new(metadata.session_id.as_str()), crow.cwd.clone())
        .title(shown_title(metadata))
        .updated_at(metadata.updated_at.to_string())
}

/// Returns the update for a changed title or time of a session.
pub(crate) fn session_info_update(metadata: &SessionMetadata) -> SessionInfoUpdate {
    let update = SessionInfoUpdate::new().updated_at(metadata.updated_at.to_string());
    match shown_title(metadata) {
        Some(title) => update.title(title),
        None => update,
    }
}

fn shown_title(metadata: &SessionMetadata) -> Option<String> {
    Some(title(&metadata.crow().title)).filter(|title| !title.is_empty())
}

/// Returns the events that a replay shows: those of all agents by sequence number, without those that a rewind removed.
pub(crate) fn replayable(mut events: Vec<Envelope>) -> Vec<Envelope> {
    events.sort_by_key(|envelope| envelope.seq);
    let gaps: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|envelope| {
            let AgentEvent::Rewind { last_kept, .. } = &envelope.event else { return None };
            Some((*last_kept, envelope.seq?))
        })
        .collect();
    events.retain(|envelope| {
        let is_in = |(kept, rewind): &(u64, u64)| {
            envelope.seq.is_some_and(|seq| seq > *kept && seq < *rewind)
        };
        !gaps.iter().any(is_in)
    });
    events
}
