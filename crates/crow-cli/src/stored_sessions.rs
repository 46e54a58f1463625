//! Stored sessions: the one that a command means, the sessions below it, the journal of its changes, and its damage.

use std::path::Path;

use crow_app::{ProcessEnvironment, product, sandbox::sandbox_folder};
use crow_core::ids::SessionId;
use crow_runtime::{
    Damage, RuntimeConfig, SessionError, SessionFilter, SessionStore, UndoJournal, UnusedSessions,
};

use crate::{error::CliError, terminal::print_message};

/// A root session and the journal of its changes.
pub(crate) struct Journal {
    pub session: SessionId,
    pub journal: UndoJournal,
}

/// Opens the journal of the named session (the prefix of an id), or else of the one that
/// [`last_session_of_current_dir`] returns. Prints the damage of its logs.
pub(crate) fn journal_of(
    requested: Option<&str>,
    environment: &ProcessEnvironment,
) -> Result<Journal, CliError> {
    let store = product::session_store(environment)?;
    let session = match requested {
        // Changes of subagents and reviewers are undone through their root session.
        Some(prefix) => store.header(&store.find(prefix)?)?.crow().root_id,
        None => last_session_of_current_dir(store.as_ref(), environment)?,
    };
    let config = RuntimeConfig {
        store,
        snapshots: Some(product::snapshot_stores(environment)?),
        sandbox_folder: Some(sandbox_folder(environment)?),
        ..RuntimeConfig::default()
    };
    // Changes in a damaged part of a log are not undone; the user must know that the undo may be incomplete.
    for id in session_subtree(config.store.as_ref(), &session)? {
        print_damage(&id, &config.store.read(&id)?.damage);
    }
    let journal = UndoJournal::open(&config, &session)?;
    for message in journal.recovered() {
        print_message(message);
    }
    Ok(Journal { session, journal })
}

/// Returns the session that last worked in the current directory, or else in the nearest ancestor that has sessions.
pub(crate) fn last_session_of_current_dir(
    store: &dyn SessionStore,
    environment: &ProcessEnvironment,
) -> Result<SessionId, CliError> {
    let cwd = environment.current_dir()?;
    // Sessions record their directory as a canonical path.
    let cwd = cwd
        .canonicalize()
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", cwd.display())))?;
    let unused = UnusedSessions::LeftOut;
    let all = store.list(&SessionFilter { unused, ..SessionFilter::default() })?;
    let last_of = |folder: &Path| {
        let sessions = all.iter().filter(|session| session.crow().cwd == folder);
        sessions.max_by_key(|session| session.updated_at)
    };
    let last = cwd.ancestors().find_map(last_of);
    let not_found = || {
        let message = format!("no session worked in {} or above it", cwd.display());
        CliError { code: "unknown_session", ..CliError::usage(message) }
            .hint("name one with --session ID; `crow-agent sessions list` shows them")
    };
    Ok(last.ok_or_else(not_found)?.session_id.clone())
}

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
