//! The copies of imported sessions in the store.

use crow_core::redact::Redactor;
use crow_runtime::{SessionError, SessionMetadata, SessionStore};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::events::imported_session;
use crate::import::plan::{ImportState, SessionImport};

/// Key of the header of an imported session, with an [`ImportMark`] as its value.
const IMPORTED: &str = "imported";

/// Origin of an imported session, stored in its header.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ImportMark {
    /// The digest of the conversation that was imported.
    digest: String,
    /// Time of its last event. The header has a later time once the session was continued here.
    updated: Timestamp,
}

impl ImportMark {
    fn of(header: &SessionMetadata) -> Option<Self> {
        header.metadata.get(IMPORTED).and_then(|value| Self::deserialize(value).ok())
    }
}

/// Returns true for a session that was imported and was never opened.
pub(crate) fn is_new_import(header: &SessionMetadata) -> bool {
    ImportMark::of(header).is_some() && header.crow().opened_with.is_none()
}

/// Returns true for a session that was imported and not continued here.
fn is_untouched_import(header: &SessionMetadata) -> bool {
    ImportMark::of(header).is_some_and(|mark| mark.updated == header.updated_at)
}

/// Compares a session with the copy that was imported before, and adds what is to be known to `notes`.
///
/// # Errors
/// Fails if the copy cannot be read.
pub(in crate::import) fn session_state(
    store: &dyn SessionStore,
    session: &SessionImport,
    notes: &mut Vec<String>,
) -> Result<ImportState, SessionError> {
    let header = match store.header(&session.id) {
        Ok(header) => header,
        Err(SessionError::Unknown { .. }) => return Ok(ImportState::New),
        Err(error) => return Err(error),
    };
    if ImportMark::of(&header).is_some_and(|mark| mark.digest == session.digest) {
        return Ok(ImportState::Present);
    }
    if is_untouched_import(&header) {
        notes.push(
            "it was continued there since: Crow's copy, which was not, is replaced".to_owned(),
        );
        return Ok(ImportState::New);
    }
    notes.push(format!(
        "it was continued both there and in Crow: Crow's copy stays without what is new there; to replace it, \
         remove it (`crow-agent sessions rm {}`) and import again",
        session.id
    ));
    Ok(ImportState::Present)
}

/// Reads a session again and stores it, in place of a copy that was imported before.
///
/// # Errors
/// Fails if it cannot be read or written, or if the copy was continued in the meantime.
pub(in crate::import) fn write_session(
    store: &dyn SessionStore,
    session: &SessionImport,
    redactor: &Redactor,
) -> Result<(), String> {
    let conversation = session.format.read(&session.file)?;
    let digest = conversation.digest();
    let mut imported =
        imported_session(conversation, session.id.clone(), session.program, redactor);
    let mark = ImportMark { digest, updated: imported.updated() };
    imported.values.insert(IMPORTED.to_owned(), json!(mark));
    let stored = match store.header(&session.id) {
        Ok(header) if is_untouched_import(&header) => imported.replace_in(store),
        Ok(_) => return Err("the session was continued in Crow in the meantime".to_owned()),
        Err(SessionError::Unknown { .. }) => imported.add_to(store),
        Err(error) => return Err(error.to_string()),
    };
    stored.map(drop).map_err(|error| error.to_string())
}
