//! The copies of imported sessions in the store.

use crow_core::redact::Redactor;
use crow_runtime::{SessionError, SessionMetadata, SessionStore};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::events::imported_session;
use crate::{
    error::AppError,
    import::plan::{ImportState, SessionImport},
};

/// Key of the header of an imported session, with an [`ImportMark`] as its value.
const IMPORTED: &str = "imported";

/// What the header of an imported session says about its origin.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ImportMark {
    /// Number of entries of the conversation that were imported.
    entries: usize,
    /// Time of the last of them. The header has a later time once the session went on here.
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

/// Returns true for a session that was imported and did not go on here.
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
) -> Result<ImportState, AppError> {
    let header = match store.header(&session.id) {
        Ok(header) => header,
        Err(SessionError::Unknown { .. }) => return Ok(ImportState::New),
        Err(error) => return Err(AppError::failed(error.to_string())),
    };
    if ImportMark::of(&header).is_some_and(|mark| mark.entries == session.entries) {
        return Ok(ImportState::Present);
    }
    if is_untouched_import(&header) {
        notes.push("it went on there: the copy here, which did not go on, is replaced".to_owned());
        return Ok(ImportState::New);
    }
    notes.push(
        "it went on there and here: the copy here stays without what is new there".to_owned(),
    );
    Ok(ImportState::Present)
}

/// Reads a session again and stores it, in place of a copy that was imported before.
///
/// # Errors
/// Fails if it cannot be read or written, or if the copy went on in the meantime.
pub(in crate::import) fn write_session(
    store: &dyn SessionStore,
    session: &SessionImport,
    redactor: &Redactor,
) -> Result<(), String> {
    let conversation = session.format.read(&session.file)?;
    let mark = ImportMark { entries: conversation.entries.len(), updated: conversation.updated() };
    let values = Map::from_iter([(IMPORTED.to_owned(), json!(mark))]);
    let (id, program) = (session.id.clone(), session.program);
    let imported = imported_session(conversation, id, program, values, redactor);
    match store.header(&session.id) {
        Ok(header) if is_untouched_import(&header) => {
            store.remove(&session.id).map_err(|error| error.to_string())?;
        }
        Ok(_) => return Err("the session here went on".to_owned()),
        Err(SessionError::Unknown { .. }) => {}
        Err(error) => return Err(error.to_string()),
    }
    imported.add_to(store).map(drop).map_err(|error| error.to_string())
}
