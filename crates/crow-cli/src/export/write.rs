//! Writes an exported session to a file.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;
use crow_runtime::{AgentHandle, HostError};

/// Number of default names that are tried if the user gives none.
const NAMES: usize = 100;

/// Writes `text`, the exported session, to a new file in the working directory of the session. `file` is the path,
/// relative to that directory; if it is blank, the name is derived from the session id. Returns the message to show.
/// Blocks.
///
/// # Errors
/// Fails if the file exists already or cannot be written.
pub(crate) fn write(text: &str, handle: &AgentHandle, file: &str) -> Result<String, HostError> {
    let dir = handle.metadata().crow().cwd;
    let refused = |path: &Path, error: &io::Error| HostError::Refused {
        message: format!("{} cannot be written: {error}", path.display()),
        hint: "/export FILE names another one".to_owned(),
    };
    let file = file.trim();
    if !file.is_empty() {
        let path = dir.join(file);
        return match write_new(&path, text) {
            Ok(()) => Ok(success_message(&path)),
            Err(error) => Err(refused(&path, &error)),
        };
    }
    let mut path = PathBuf::new();
    for number in 1..=NAMES {
        path = dir.join(name(handle.session_id(), number));
        match write_new(&path, text) {
            Ok(()) => return Ok(success_message(&path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(&path, &error)),
        }
    }
    Err(refused(&path, &io::ErrorKind::AlreadyExists.into()))
}

fn name(id: &SessionId, number: usize) -> String {
    let id: String = id.as_str().chars().take(18).collect();
    match number {
        1 => format!("crow-session-{id}.md"),
        number => format!("crow-session-{id}-{number}.md"),
    }
}

fn success_message(path: &Path) -> String {
    format!("written to {}", path.display())
}

/// Creates the file with mode 0600, since conversations are private; never overwrites an existing file.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
