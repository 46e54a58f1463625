//! Listing of sessions that are stored as folders.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    panic::resume_unwind,
    path::{Path, PathBuf},
};

use crow_core::{event::AgentEvent, ids::SessionId};
use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    ListCursor, SessionFilter, SessionMetadata, UnusedSessions,
    file::{HISTORY, METADATA, lock, read_list_header},
    log_file::read_log,
};

/// Bytes read at a time; larger than most headers.
const HEADER_CHUNK: usize = 16 * 1024;

/// Returns the headers of the root sessions among `folders`, as selected and ordered by `filter`.
pub(super) fn list(folders: &[PathBuf], filter: &SessionFilter) -> Vec<SessionMetadata> {
    // Reading ten thousand small files is mostly waiting for the kernel: two threads halve it.
    let (first, second) = folders.split_at(folders.len() / 2);
    let mut roots = std::thread::scope(|scope| {
        let other = scope.spawn(|| read_headings(second));
        let mut roots = read_headings(first);
        roots.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        roots
    });
    roots.retain(|(place, _)| filter.is_after_cursor(place));
    roots.sort_by(|(a, _), (b, _)| b.cmp(a));
    // Only the headers to list are read completely. A session that is gone by now is left out.
    let listed = roots.into_iter().filter_map(|(place, folder)| {
        let metadata = read_list_header(folder, &place.id)?;
        if filter.unused == UnusedSessions::LeftOut && metadata.is_unused() {
            remove_unused(folder, &place.id);
            return None;
        }
        Some(metadata)
    });
    filter.apply(listed)
}

/// The members of a header that select and order a list.
#[derive(Deserialize)]
struct SessionHeading {
    parent_session_id: Option<IgnoredAny>,
    updated_at: Timestamp,
}

impl SessionHeading {
    fn from_log(folder: &Path, id: &SessionId) -> Option<Self> {
        let metadata = read_list_header(folder, id)?;
        Some(Self {
            parent_session_id: metadata.parent_session_id.map(|_| IgnoredAny),
            updated_at: metadata.updated_at,
        })
    }
}

/// Finds the root sessions and their places in the list.
fn read_headings(folders: &[PathBuf]) -> Vec<(ListCursor, &Path)> {
    let mut buffer = vec![0; HEADER_CHUNK];
    let headings = folders.iter().filter_map(|folder| {
        let id = SessionId::new(folder.file_name()?.to_str()?);
        let read = read_into(&folder.join(METADATA), &mut buffer).ok();
        let parsed = read.and_then(|len| serde_json::from_slice(buffer.get(..len)?).ok());
        let heading = match parsed {
            Some(heading) => heading,
            None => SessionHeading::from_log(folder, &id)?,
        };
        let place = ListCursor { updated_at: heading.updated_at, id };
        heading.parent_session_id.is_none().then_some((place, folder.as_path()))
    });
    headings.collect()
}

/// Reads a small file into a reusable buffer, without asking for its size first. Returns its length.
fn read_into(path: &Path, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut len = 0;
    loop {
        if len == buffer.len() {
            buffer.resize(len + HEADER_CHUNK, 0);
        }
        match file.read(&mut buffer[len..])? {
            0 => return Ok(len),
            count => len += count,
        }
    }
}

/// Removes a session without user input, unless it is in use. One with a damaged log stays.
fn remove_unused(folder: &Path, id: &SessionId) {
    let Ok(_lock) = lock(folder, id) else { return };
    let Ok(log) = read_log(&folder.join(HISTORY)) else { return };
    let has_input =
        log.events.iter().any(|line| matches!(line.event, AgentEvent::UserInput { .. }));
    if has_input || !log.lost.is_empty() || !log.torn.is_empty() {
        return;
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(session = %id, %error, "a session in which nothing was said cannot be removed");
    }
}
