//! `undo.jsonl`: the undo records of a session, one per line. Separate from the log, since it is also written while
//! another process writes the log.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::SessionError;
use super::UndoRecord;

const FILE: &str = "undo.jsonl";

/// Appends a record and syncs the file.
pub(super) fn add(folder: &Path, record: &UndoRecord) -> Result<(), SessionError> {
    let path = folder.join(FILE);
    let written = serde_json::to_string(record).map_err(io::Error::from).and_then(|line| {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        // The line feed comes first, so that a line cut off by a crash damages no other.
        file.write_all(format!("\n{line}").as_bytes())?;
        file.sync_data()
    });
    written.map_err(|source| SessionError::Write { path, source })
}

/// Returns the length of the file in bytes; 0 if there is none.
pub(super) fn size(folder: &Path) -> Result<u64, SessionError> {
    let path = folder.join(FILE);
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(SessionError::Read { path, source }),
    }
}

/// Reads all records. Skips a line cut off by a crash: it was never acknowledged.
pub(super) fn read(folder: &Path) -> Result<Vec<UndoRecord>, SessionError> {
    let path = folder.join(FILE);
    // A line that was cut off may end within a character.
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(SessionError::Read { path, source }),
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    let records = lines.filter_map(|line| {
        serde_json::from_str(line)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "a record of an undo is left out"))
            .ok()
    });
    Ok(records.collect())
}
