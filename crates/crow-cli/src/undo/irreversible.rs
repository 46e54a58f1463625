//! Counts of changes that cannot be undone.

use std::collections::BTreeMap;

use crow_core::event::AgentEvent;
use crow_runtime::{ChangedCall, SessionError, SessionStore};

/// Returns, by the sequence number of the call, the number of its changes that cannot be undone, read from the logs.
pub(crate) fn irreversible_counts(
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
            let end_seq = envelope.seq.unwrap_or(u64::MAX);
            // Ids come from models and may repeat: the result belongs to the last call with this id that began before
            // it.
            let is_candidate = |call: &&ChangedCall| {
                call.session_id == *session && call.call_id == *call_id && call.seq < end_seq
            };
            if let Some(call) = calls.iter().filter(is_candidate).max_by_key(|call| call.seq) {
                lost.insert(call.seq, result.metadata.not_restorable.len());
            }
        }
    }
    Ok(lost)
}
