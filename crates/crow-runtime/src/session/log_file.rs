//! `history.jsonl`: one event per line, written whole or not at all.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::event::Envelope;

use super::SessionError;

/// An open log.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    line: Vec<u8>,
}

/// What a log holds.
#[derive(Debug)]
pub(super) struct LogContent {
    pub events: Vec<Envelope>,
    /// The bytes of a last line that was not written to its end.
    pub torn: Vec<u8>,
    good_len: u64,
}

impl LogFile {
    /// Makes a new, empty log.
    pub(super) fn create(path: PathBuf) -> Result<Self, SessionError> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| SessionError::Write { path: path.clone(), source })?;
        Ok(Self { path, file: Arc::new(file), len: 0, line: Vec::new() })
    }

    /// Opens a log, cuts a torn last line off and keeps its bytes in `history.torn`.
    pub(super) fn open(path: PathBuf) -> Result<(Self, LogContent), SessionError> {
        let content = read_log(&path)?;
        let write_error = |source| SessionError::Write { path: path.clone(), source };
        let file = OpenOptions::new().append(true).open(&path).map_err(write_error)?;
        if !content.torn.is_empty() {
            keep_torn(&path.with_extension("torn"), &content.torn)?;
            file.set_len(content.good_len).map_err(write_error)?;
            file.sync_data().map_err(write_error)?;
        }
        Ok((Self { path, file: Arc::new(file), len: content.good_len, line: Vec::new() }, content))
    }

    /// Writes one line. If the disk is full the file is as it was before.
    pub(super) fn append(&mut self, event: &Envelope) -> Result<(), SessionError> {
        self.line.clear();
        let written =
            serde_json::to_writer(&mut self.line, event).map_err(io::Error::from).and_then(|()| {
                self.line.push(b'\n');
                (&*self.file).write_all(&self.line)
            });
        match written {
            Ok(()) => {
                self.len += self.line.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Part of the line may stand in the file.
                if let Err(error) = self.file.set_len(self.len) {
                    tracing::warn!(path = %self.path.display(), %error, "a torn line stays in the log until it is opened again");
                }
                Err(SessionError::Write { path: self.path.clone(), source })
            }
        }
    }

    /// Returns work that makes the log outlive a power cut.
    pub(super) fn sync(&self) -> Box<dyn FnOnce() -> Result<(), SessionError> + Send> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        Box::new(move || file.sync_data().map_err(|source| SessionError::Write { path, source }))
    }
}

fn keep_torn(path: &Path, torn: &[u8]) -> Result<(), SessionError> {
    let kept = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(torn));
    kept.map_err(|source| SessionError::Write { path: path.to_path_buf(), source })
}

/// Whether a line was not written to its end. A whole line that is not understood is not torn.
fn is_torn(line: &[u8]) -> bool {
    !line.ends_with(b"\n") || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
}

/// Reads a log. Only the last line may be broken: it is what a crash or a power cut leaves.
pub(super) fn read_log(path: &Path) -> Result<LogContent, SessionError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|source| SessionError::Read { path: path.to_path_buf(), source })?;
    let mut events = Vec::new();
    let mut good_len = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let parsed = if line.ends_with(b"\n") {
            serde_json::from_slice::<Envelope>(line).map_err(|error| error.to_string())
        } else {
            Err("it has no end".to_owned())
        };
        match parsed {
            Ok(event) => {
                events.push(event);
                good_len += line.len();
            }
            Err(_) if lines.peek().is_none() && is_torn(line) => break,
            Err(reason) => {
                return Err(SessionError::Damaged {
                    path: path.to_path_buf(),
                    line: index + 1,
                    reason,
                });
            }
        }
    }
    let torn = bytes.split_off(good_len);
    Ok(LogContent { events, torn, good_len: good_len as u64 })
}
