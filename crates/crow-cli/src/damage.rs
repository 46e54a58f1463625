//! Sessions below a root session, and messages about damaged ones.

use crow_core::ids::SessionId;
use crow_runtime::{Damage, SessionError, SessionStore};

use crate::terminal::print_message;

/// Returns a session and all its descendants. An unreadable descendant is left out; an unreadable root is an error.
/// Blocks.
pub(crate) fn session_subtree(
    store: &dyn SessionStore,
    root: &SessionId,
) -> Result<Vec<SessionId>, SessionError> {
    let mut family = Vec::new();
    let mut pending = vec![root.clone()];
    while let Some(id) = pending.pop() {
        if family.contains(&id) {
            continue;
        }
        match store.read(&id) {
            Ok(stored) => pending.extend(stored.metadata.child_session_ids),
            Err(error) if id == *root => return Err(error),
            Err(_) => continue,
        }
        family.push(id);
    }
    Ok(family)
}

/// Prints the damage of a session, if any, and the command that repairs it.
pub(crate) fn print_damage(id: &SessionId, damage: &Damage) {
    if !damage.is_none() {
        print_message(&format!(
            "session {id} is damaged: {damage}. The intact part is used; `crow-agent sessions repair {id}` rebuilds it and keeps the damaged files"
        ));
    }
}
