//! `history.jsonl`: one event per line, written completely or not at all.
//!
//! Reading distinguishes two kinds of damage. A *torn* last line was cut by a crash before it was acknowledged: it is
//! cut off and its bytes are kept in `history.torn`. Any other unreadable line is *lost*: it stays in the file and is
//! reported with its position, and the lines around it are used.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::event::Envelope;

use super::{SessionError, salvage::LostLine};

/// A log that is open for appending.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    line: Vec<u8>,
}

/// The content of a log.
#[derive(Debug)]
pub(super) struct LogContent {
    pub events: Vec<Envelope>,
    /// Unreadable lines before the last one, in file order.
    pub lost: Vec<LostEvent>,
    /// The bytes of a last line that was not written completely.
    pub torn: Vec<u8>,
    /// Length in bytes without the torn line.
    pub good_len: u64,
}

/// An unreadable line and its raw bytes, from which single members can still be read.
#[derive(Debug)]
pub(super) struct LostEvent {
    /// Number of events of the log that precede it.
    pub before: usize,
    pub line: LostLine,
    pub text: Vec<u8>,
}

impl LostEvent {
    /// Reads a JSON member by its name. The first occurrence counts: the members of the envelope precede those of the
    /// event.
    pub(super) fn member<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        let key = format!("\"{name}\":");
        let at = self.text.windows(key.len()).position(|window| window == key.as_bytes())?;
        let value = self.text.get(at + key.len()..)?;
        serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()
    }
}

impl LogFile {
    /// Creates a new, empty log.
    pub(super) fn create(path: PathBuf) -> Result<Self, SessionError> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| SessionError::Write { path: path.clone(), source })?;
        Ok(Self { path, file: Arc::new(file), len: 0, line: Vec::new() })
    }

    /// Opens a log, cuts off a torn last line and saves its bytes in `history.torn`.
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

    /// Appends one line. On failure, for example a full disk, the file is truncated to its previous length.
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
                // Part of the line may be in the file.
                if let Err(error) = self.file.set_len(self.len) {
                    tracing::warn!(path = %self.path.display(), %error, "a torn line stays in the log until it is opened again");
                }
                Err(SessionError::Write { path: self.path.clone(), source })
            }
        }
    }

    /// Returns the length of the log in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns a blocking job that flushes the log to disk.
    pub(super) fn sync(&self) -> Box<dyn FnOnce() -> Result<(), SessionError> + Send> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        Box::new(move || file.sync_data().map_err(|source| SessionError::Write { path, source }))
    }
}

fn keep_torn(path: &Path, torn: &[u8]) -> Result<(), SessionError> {
    let result = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(torn));
    result.map_err(|source| SessionError::Write { path: path.to_path_buf(), source })
}

/// Maximum number of copies of a damaged file.
const COPIES: usize = 100;

/// Copies a damaged file to a sibling (`.damaged`, `.damaged-2`, …) before it is rewritten. Returns the copy's path, or
/// `None` if the file does not exist.
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
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy);
        let written = opened.and_then(|mut file| {
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

/// Rewrites a log through a temporary file: afterwards either the new log or the previous one is there, complete.
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

/// Returns true if a line was not written completely. A complete JSON line that is not a valid event is not torn.
fn is_torn(line: &[u8]) -> bool {
    !line.ends_with(b"\n") || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
}

/// Reads a log. An incomplete last line, left by a crash or a power cut, is torn; any other unreadable line is lost,
/// and the lines around it are not.
pub(super) fn read_log(path: &Path) -> Result<LogContent, SessionError> {
    read_on(
        path,
        LogContent { events: Vec::new(), lost: Vec::new(), torn: Vec::new(), good_len: 0 },
    )
}

/// Reads the part of a log after `before`, an earlier read without damage.
pub(super) fn read_on(path: &Path, before: LogContent) -> Result<LogContent, SessionError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(before.good_len))?;
        file.read_to_end(&mut bytes)
    });
    read.map_err(|source| SessionError::Read { path: path.to_path_buf(), source })?;
    let LogContent { mut events, mut lost, .. } = before;
    let known_count = events.len();
    let mut good_len = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    // Sorts each line into events, lost lines, or the torn end.
    while let Some((index, line)) = lines.next() {
        let error = match serde_json::from_slice::<Envelope>(line) {
            Ok(event) if line.ends_with(b"\n") => {
                events.push(event);
                good_len += line.len();
                continue;
            }
            // A complete event without a line feed was never acknowledged: torn.
            Ok(_) => break,
            Err(error) => error,
        };
        // Not a valid event: two events in one line, a torn last line, or a lost line.
        if let Some(pair) = parse_joined(line) {
            events.extend(pair);
        } else if lines.peek().is_none() && is_torn(line) {
            break;
        } else {
            lost.push(LostEvent {
                before: events.len(),
                line: LostLine { line: known_count + index + 1, reason: error.to_string() },
                text: line.to_vec(),
            });
        }
        good_len += line.len();
    }
    let torn = bytes.split_off(good_len);
    Ok(LogContent { events, lost, torn, good_len: before.good_len + good_len as u64 })
}

/// Parses two events in one line, where the byte between them is damaged.
fn parse_joined(line: &[u8]) -> Option<[Envelope; 2]> {
    let mut stream = serde_json::Deserializer::from_slice(line).into_iter::<Envelope>();
    let first = stream.next()?.ok().filter(|_| line.ends_with(b"\n"))?;
    let rest = line.get(stream.byte_offset() + 1..)?;
    Some([first, serde_json::from_slice(rest).ok()?])
}
