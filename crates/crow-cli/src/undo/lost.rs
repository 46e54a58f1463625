//! Changes that cannot be undone.

use std::collections::BTreeMap;

use crow_core::event::AgentEvent;
use crow_runtime::{ChangedCall, SessionError, SessionStore};

/// Counts by the number of the call how many of its changes cannot be undone, as the logs say.
pub(crate) fn lost(
    store: &dyn SessionStore,
    calls: &[ChangedCall],
) -> Result<BTreeMap<u64, usize>, SessionError> {
    let mut lost = BTreeMap::new();
    let mut sessions: Vec<_> = calls.iter().map(|call| &call.session_id).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        for envelope in store.read(session)?.events {
            let AgentEvent::CallEnd { call_id, result, .. } = &envelope.event else { continue };
            let ended = envelope.seq.unwrap_or(u64::MAX);
            // Ids come from models and may come again: the call is the last one that began before.
            let of = |call: &&ChangedCall| {
                call.session_id == *session && call.call_id == *call_id && call.seq < ended
            };
            if let Some(call) = calls.iter().filter(of).max_by_key(|call| call.seq) {
                lost.insert(call.seq, result.metadata.not_restorable.len());
            }
        }
    }
    Ok(lost)
}
