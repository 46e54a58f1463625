//! The session whose changes are meant, and what is known of them.

use std::path::Path;

use crow_core::ids::SessionId;
use crow_runtime::{RuntimeConfig, SessionFilter, SessionStore, UndoJournal, UnusedSessions};

use crate::{
    damage::{family, say_damage},
    environment::Environment,
    error::CliError,
    product,
};

/// What is known of the changes of a session.
pub(crate) struct Journal {
    pub session: SessionId,
    pub journal: UndoJournal,
}

/// Opens the journal of the session that is named, or else of the one that last worked in the current directory, or in
/// the nearest folder above it in which one did.
pub(crate) fn journal_of(
    named: Option<&str>,
    environment: &Environment,
) -> Result<Journal, CliError> {
    let store = product::session_store(environment)?;
    let session = match named {
        // What the agents below a root session changed is undone through it.
        Some(prefix) => store.header(&store.find(prefix)?)?.crow().root_id,
        None => last_here(store.as_ref(), environment)?,
    };
    let config = RuntimeConfig {
        store,
        snapshots: Some(product::snapshot_stores(environment)?),
        ..RuntimeConfig::default()
    };
    // What a lost line says was changed is not undone: nobody may take it for all.
    for id in family(config.store.as_ref(), &session)? {
        say_damage(&id, &config.store.read(&id)?.damage);
    }
    let journal = UndoJournal::open(&config, &session)?;
    Ok(Journal { session, journal })
}

/// Finds the session that last worked in the current directory, or in the nearest folder above it in which one did.
pub(crate) fn last_here(
    store: &dyn SessionStore,
    environment: &Environment,
) -> Result<SessionId, CliError> {
    let cwd = environment.current_dir()?;
    // Sessions know the directory that they work in by its true name.
    let cwd = cwd
        .canonicalize()
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", cwd.display())))?;
    let unused = UnusedSessions::LeftOut;
    let all = store.list(&SessionFilter { unused, ..SessionFilter::default() })?;
    let last_of = |folder: &Path| {
        let here = all.iter().filter(|session| session.crow().cwd == folder);
        here.max_by_key(|session| session.updated_at)
    };
    let last = cwd.ancestors().find_map(last_of);
    let nobody = || {
        let message = format!("no session worked in {} or above it", cwd.display());
        CliError { code: "unknown_session", ..CliError::usage(message) }
            .hint("name one with --session ID; `crow-agent sessions list` shows them")
    };
    Ok(last.ok_or_else(nobody)?.session_id.clone())
}
