//! `history.jsonl`: one event per line, written whole or not at all.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::event::Envelope;

use super::{SessionError, salvage::LostLine};

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
    /// Lines before the last one that cannot be understood, in their order.
    pub lost: Vec<LostEvent>,
    /// The bytes of a last line that was not written to its end.
    pub torn: Vec<u8>,
    pub good_len: u64,
}

/// A line that cannot be understood, and what can still be read in it.
#[derive(Debug)]
pub(super) struct LostEvent {
    /// How many events of the log come before it.
    pub before: usize,
    pub line: LostLine,
    pub text: Vec<u8>,
}

impl LostEvent {
    /// Reads a member by its name. The first one counts: the envelope comes before what it holds.
    pub(super) fn member<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        let key = format!("\"{name}\":");
        let at = self.text.windows(key.len()).position(|window| window == key.as_bytes())?;
        let value = self.text.get(at + key.len()..)?;
        serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()
    }
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

    /// Returns how long the log is.
    pub(super) fn len(&self) -> u64 {
        self.len
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

/// How many copies of a damaged file are kept.
const COPIES: usize = 100;

/// Copies a damaged file beside itself, before it is written anew. Returns where, if there is such a file.
pub(super) fn keep_damaged(path: &Path) -> Result<Option<PathBuf>, SessionError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SessionError::Read { path: path.to_path_buf(), source }),
    }
    let mut copy = PathBuf::from(path);
    for number in 1..=COPIES {
        let ending = if number == 1 { ".damaged".to_owned() } else { format!(".damaged-{number}") };
        copy = path.to_path_buf();
        copy.as_mut_os_string().push(ending);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy);
        let written = made.and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_data()
        });
        match written {
            Ok(()) => return Ok(Some(copy)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(SessionError::Write { path: copy, source }),
        }
    }
    let source = io::ErrorKind::AlreadyExists.into();
    Err(SessionError::Write { path: copy, source })
}

/// Writes a log anew. It is there whole, or the one before is.
pub(super) fn write_log(path: &Path, events: &[Envelope]) -> Result<(), SessionError> {
    let new = path.with_extension("jsonl.new");
    let written = (|| {
        let mut text = Vec::new();
        for event in events {
            serde_json::to_writer(&mut text, event)?;
            text.push(b'\n');
        }
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_data()?;
        std::fs::rename(&new, path)
    })();
    written.map_err(|source| SessionError::Write { path: path.to_path_buf(), source })
}

/// Whether a line was not written to its end. A whole line that is not understood is not torn.
fn is_torn(line: &[u8]) -> bool {
    !line.ends_with(b"\n") || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
}

/// Reads a log. What a crash or a power cut leaves of a last line is torn; any other line that is not understood is lost,
/// and those around it are not.
pub(super) fn read_log(path: &Path) -> Result<LogContent, SessionError> {
    read_on(
        path,
        LogContent { events: Vec::new(), lost: Vec::new(), torn: Vec::new(), good_len: 0 },
    )
}

/// Reads what a log holds behind what was read of it before, which was whole.
pub(super) fn read_on(path: &Path, before: LogContent) -> Result<LogContent, SessionError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(before.good_len))?;
        file.read_to_end(&mut bytes)
    });
    read.map_err(|source| SessionError::Read { path: path.to_path_buf(), source })?;
    let LogContent { mut events, mut lost, .. } = before;
    let known = events.len();
    let mut good_len = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let error = match serde_json::from_slice::<Envelope>(line) {
            Ok(event) if line.ends_with(b"\n") => {
                events.push(event);
                good_len += line.len();
                continue;
            }
            Ok(_) => break,
            Err(error) => error,
        };
        if let Some(two) = joined(line) {
            events.extend(two);
        } else if lines.peek().is_none() && is_torn(line) {
            break;
        } else {
            lost.push(LostEvent {
                before: events.len(),
                line: LostLine { line: known + index + 1, reason: error.to_string() },
                text: line.to_vec(),
            });
        }
        good_len += line.len();
    }
    let torn = bytes.split_off(good_len);
    Ok(LogContent { events, lost, torn, good_len: before.good_len + good_len as u64 })
}

/// Reads two events that stand in one line because the byte between them is damaged.
fn joined(line: &[u8]) -> Option<[Envelope; 2]> {
    let mut stream = serde_json::Deserializer::from_slice(line).into_iter::<Envelope>();
    let first = stream.next()?.ok().filter(|_| line.ends_with(b"\n"))?;
    let rest = line.get(stream.byte_offset() + 1..)?;
    Some([first, serde_json::from_slice(rest).ok()?])
}
