//! Writing a session to a file.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;
use crow_runtime::{AgentHandle, HostError};

/// How many names are tried for a file whose name nobody gave.
const NAMES: usize = 100;

/// Writes an open session, as the text says it, to a new file: the one that is named, seen from where it works, or one named after it there.
/// Returns what is to be shown. Blocks.
pub(crate) fn write(text: &str, handle: &AgentHandle, file: &str) -> Result<String, HostError> {
    let folder = handle.metadata().crow().cwd;
    let refused = |path: &Path, error: &io::Error| HostError::Refused {
        message: format!("{} cannot be written: {error}", path.display()),
        hint: "/export FILE names another one".to_owned(),
    };
    let file = file.trim();
    if !file.is_empty() {
        let path = folder.join(file);
        return match write_new(&path, text) {
            Ok(()) => Ok(told(&path)),
            Err(error) => Err(refused(&path, &error)),
        };
    }
    let mut path = PathBuf::new();
    for number in 1..=NAMES {
        path = folder.join(name(handle.session_id(), number));
        match write_new(&path, text) {
            Ok(()) => return Ok(told(&path)),
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

fn told(path: &Path) -> String {
    format!("written to {}", path.display())
}

/// Nothing that is there is overwritten, and nobody else reads what was said.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
