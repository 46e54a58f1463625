//! Sessions whose files are damaged.

use crow_core::ids::SessionId;
use crow_runtime::{Damage, SessionError, SessionStore};

use crate::run::say;

/// Returns a session and those of the agents below it. Of these, one of which nothing can be read is left out. Blocks.
pub(crate) fn family(
    store: &dyn SessionStore,
    root: &SessionId,
) -> Result<Vec<SessionId>, SessionError> {
    let mut family = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(id) = open.pop() {
        if family.contains(&id) {
            continue;
        }
        match store.read(&id) {
            Ok(stored) => open.extend(stored.metadata.child_session_ids),
            Err(error) if id == *root => return Err(error),
            Err(_) => continue,
        }
        family.push(id);
    }
    Ok(family)
}

/// Tells the user what of a session is damaged, and what can be done.
pub(crate) fn say_damage(id: &SessionId, damage: &Damage) {
    if !damage.is_none() {
        say(&format!(
            "session {id} is damaged: {damage}. What is whole is used; `crow-agent sessions repair {id}` writes it anew and keeps the damaged files"
        ));
    }
}
