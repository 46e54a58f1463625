//! Sessions as folders: `<id>/metadata.json`, `<id>/history.jsonl`, readable by their owner alone.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION},
    ids::SessionId,
};

use super::{
    Damage, OpenedSession, SessionError, SessionFilter, SessionLog, SessionMetadata, SessionRepair,
    SessionStore, StoredSession,
    list::list,
    log_file::{LogContent, LogFile, keep_damaged, read_log, write_log},
    recent_log::RecentLog,
    salvage::mend,
    undo_file, unfinished_sessions,
};
use crate::{agent_tree::UsageByModel, undo::UndoRecord};
use crow_fs::FileLock;

pub(super) const METADATA: &str = "metadata.json";
pub(super) const HISTORY: &str = "history.jsonl";
pub(super) const LOCK: &str = "lock";
const OUTPUT: &str = "output";
const LONGEST_ID: usize = 128;

/// Keeps sessions in a folder.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
    recent: RecentLog,
}

/// The writer; the lock ends with it, also when the process is killed.
#[derive(Debug)]
struct FileLog {
    folder: PathBuf,
    log: LogFile,
    recent: RecentLog,
    _lock: FileLock,
}

impl FileStore {
    /// Keeps sessions in `folder`, which is made when the first session is.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), recent: RecentLog::default() }
    }

    fn folder_of(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        let text = id.as_str();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty()
            || text.len() > LONGEST_ID
            || text.starts_with('.')
            || !text.chars().all(fits)
        {
            return Err(SessionError::BadId { id: text.to_owned() });
        }
        Ok(self.folder.join(text))
    }

    fn existing(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        let folder = self.folder_of(id)?;
        if is_session(&folder) {
            Ok(folder)
        } else {
            Err(SessionError::Unknown { id: id.to_string() })
        }
    }

    /// Puts a session together from what is whole of its header and its log.
    fn stored(
        &self,
        id: &SessionId,
        header: StoredHeader,
        content: LogContent,
    ) -> Result<StoredSession, SessionError> {
        let lines = content.lost.iter().map(|lost| lost.line.clone()).collect();
        let error = match header {
            StoredHeader::Whole(metadata) => {
                let events = mend(content.events, &content.lost, Some(&metadata));
                return Ok(StoredSession {
                    metadata,
                    events,
                    damage: Damage { header: None, lines },
                });
            }
            StoredHeader::Damaged(error) => error,
        };
        let events = mend(content.events, &content.lost, None);
        let made = SessionMetadata::from_log(&events).filter(|made| made.session_id == *id);
        let damage = Damage { header: Some(error.to_string()), lines };
        let Some(mut metadata) = made else { return Err(error) };
        check_format(id, &metadata)?;
        add_family(&mut metadata, &events, &self.folders()?);
        Ok(StoredSession { metadata, events, damage })
    }

    fn folders(&self) -> Result<Vec<PathBuf>, SessionError> {
        folders_in(&self.folder)
    }
}

fn folders_in(sessions: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = match fs::read_dir(sessions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(SessionError::Read { path: sessions.to_path_buf(), source }),
    };
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

impl SessionStore for FileStore {
    fn create(&self, metadata: &SessionMetadata) -> Result<Box<dyn SessionLog>, SessionError> {
        let id = &metadata.session_id;
        let folder = self.folder_of(id)?;
        let write_error = |path: &Path| {
            let path = path.to_path_buf();
            move |source| SessionError::Write { path, source }
        };
        private_dir().recursive(true).create(&self.folder).map_err(write_error(&self.folder))?;
        // It is made under a name of its own and moved into place: what a kill leaves of it is no session.
        let (new, lock) = unfinished_sessions::make(&self.folder, id)?;
        let made = LogFile::create(new.join(HISTORY)).and_then(|_| {
            write_metadata(&new, metadata)?;
            // A folder that holds something is never replaced.
            fs::rename(&new, &folder).map_err(|source| {
                if source.kind() == io::ErrorKind::DirectoryNotEmpty {
                    return SessionError::Exists { id: id.clone() };
                }
                SessionError::Write { path: folder.clone(), source }
            })
        });
        if made.is_err() {
            // Nothing was acknowledged yet: leave no half of a session behind.
            unfinished_sessions::remove(&new);
        }
        unfinished_sessions::end(&self.folder);
        made?;
        let (log, _) = LogFile::open(folder.join(HISTORY))?;
        Ok(Box::new(FileLog { folder, log, recent: self.recent.clone(), _lock: lock }))
    }

    fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError> {
        let folder = self.existing(id)?;
        let lock = lock(&folder, id)?;
        let header = read_header(&folder, id)?;
        let (log, content) = LogFile::open(folder.join(HISTORY))?;
        let torn_bytes = content.torn.len();
        let stored = self.stored(id, header, content)?;
        Ok(OpenedSession {
            stored,
            log: Box::new(FileLog { folder, log, recent: self.recent.clone(), _lock: lock }),
            torn_bytes,
        })
    }

    fn read(&self, id: &SessionId) -> Result<StoredSession, SessionError> {
        let folder = self.existing(id)?;
        let header = read_header(&folder, id)?;
        let content = match self.recent.take(&folder) {
            Some(recent) => recent.read_on(&folder.join(HISTORY))?,
            None => read_log(&folder.join(HISTORY))?,
        };
        self.stored(id, header, content)
    }

    fn header(&self, id: &SessionId) -> Result<SessionMetadata, SessionError> {
        let folder = self.existing(id)?;
        match read_header(&folder, id)? {
            StoredHeader::Whole(metadata) => Ok(metadata),
            header @ StoredHeader::Damaged(_) => {
                let content = read_log(&folder.join(HISTORY))?;
                Ok(self.stored(id, header, content)?.metadata)
            }
        }
    }

    fn repair(&self, id: &SessionId) -> Result<SessionRepair, SessionError> {
        let folder = self.existing(id)?;
        let _lock = lock(&folder, id)?;
        let header = read_header(&folder, id)?;
        let (_, content) = LogFile::open(folder.join(HISTORY))?;
        let mut stored = self.stored(id, header, content)?;
        stored.fold().map_err(|source| SessionError::Inconsistent { id: id.clone(), source })?;
        let StoredSession { metadata, events, damage } = stored;
        let mut kept = Vec::new();
        // The log comes first: with a whole header it is mended the same way again, should this be cut off here.
        if !damage.lines.is_empty() {
            kept.extend(keep_damaged(&folder.join(HISTORY))?);
            write_log(&folder.join(HISTORY), &events)?;
        }
        if damage.header.is_some() {
            kept.extend(keep_damaged(&folder.join(METADATA))?);
            write_metadata(&folder, &metadata)?;
        }
        Ok(SessionRepair { damage, kept })
    }

    fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionMetadata>, SessionError> {
        Ok(list(&self.folders()?, filter))
    }

    fn remove(&self, id: &SessionId) -> Result<(), SessionError> {
        let folder = self.existing(id)?;
        let _lock = lock(&folder, id)?;
        // A session that is beyond repair can be removed all the same.
        let children =
            self.read(id).map(|stored| stored.metadata.child_session_ids).unwrap_or_default();
        for child in &children {
            match self.remove(child) {
                Ok(()) | Err(SessionError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        fs::remove_dir_all(&folder)
            .map_err(|source| SessionError::Write { path: folder.clone(), source })
    }

    fn find(&self, prefix: &str) -> Result<SessionId, SessionError> {
        let exact = SessionId::new(prefix);
        if self.existing(&exact).is_ok() {
            return Ok(exact);
        }
        let folders = self.folders()?;
        let ids = folders.iter().filter(|folder| is_session(folder));
        pick(prefix, ids.filter_map(|folder| folder.file_name()?.to_str().map(SessionId::new)))
    }

    fn add_undo(&self, id: &SessionId, record: &UndoRecord) -> Result<(), SessionError> {
        undo_file::add(&self.existing(id)?, record)
    }

    fn undos(&self, id: &SessionId) -> Result<Vec<UndoRecord>, SessionError> {
        undo_file::read(&self.folder_of(id)?)
    }

    fn undo_mark(&self, id: &SessionId) -> Result<u64, SessionError> {
        undo_file::size(&self.folder_of(id)?)
    }

    fn is_in_use(&self, id: &SessionId) -> Result<bool, SessionError> {
        let path = self.existing(id)?.join(LOCK);
        match File::open(&path) {
            Ok(file) => FileLock::is_held_by_other(file)
                .map_err(|source| SessionError::Read { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(SessionError::Read { path, source }),
        }
    }

    fn scratch(&self, id: &SessionId) -> Option<PathBuf> {
        let folder = self.folder_of(id).ok()?;
        // Permission is decided on resolved paths.
        Some(folder.canonicalize().unwrap_or(folder).join(OUTPUT))
    }
}

impl SessionLog for FileLog {
    fn append(&mut self, event: &Envelope) -> Result<(), SessionError> {
        if matches!(event.event, AgentEvent::RunStart { .. }) {
            self.recent.forget(&self.folder);
        }
        self.log.append(event)
    }

    fn give_back(&mut self, events: Vec<Envelope>) {
        self.recent.keep(&self.folder, events, self.log.len());
    }

    fn save_metadata(&mut self, metadata: &SessionMetadata) -> Result<(), SessionError> {
        write_metadata(&self.folder, metadata)
    }

    fn sync(&mut self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>> {
        Some(self.log.sync())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.recent.forget(&self.folder);
    }
}

/// Whether a folder is a session's: it has a header, or a log from which one can be made. Before the first of either is
/// written it is not one yet.
fn is_session(folder: &Path) -> bool {
    let has_log = || fs::metadata(folder.join(HISTORY)).is_ok_and(|log| log.len() > 0);
    folder.join(METADATA).is_file() || has_log()
}

/// Finds the one id that is or begins with `prefix`.
pub(super) fn pick(
    prefix: &str,
    ids: impl Iterator<Item = SessionId>,
) -> Result<SessionId, SessionError> {
    let mut fitting: Vec<_> =
        ids.filter(|id| !prefix.is_empty() && id.as_str().starts_with(prefix)).collect();
    if let Some(exact) = fitting.iter().find(|id| id.as_str() == prefix) {
        return Ok(exact.clone());
    }
    match (fitting.pop(), fitting.len()) {
        (Some(id), 0) => Ok(id),
        (Some(_), others) => {
            Err(SessionError::Ambiguous { prefix: prefix.to_owned(), count: others + 1 })
        }
        (None, _) => Err(SessionError::Unknown { id: prefix.to_owned() }),
    }
}

pub(super) fn private_dir() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Takes the session's lock, or says who has it.
pub(super) fn lock(folder: &Path, id: &SessionId) -> Result<FileLock, SessionError> {
    let path = folder.join(LOCK);
    let write_error = |source| SessionError::Write { path: path.clone(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(write_error)?;
    let lock = match FileLock::try_exclusive(file).map_err(write_error)? {
        Ok(lock) => lock,
        Err(mut file) => {
            let mut pid = String::new();
            let read = file.read_to_string(&mut pid);
            let pid = read.ok().and_then(|_| pid.trim().parse().ok());
            return Err(SessionError::Locked { id: id.clone(), pid });
        }
    };
    let mut file = lock.file();
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(write_error)?;
    Ok(lock)
}

/// A header as it stands on the disk.
enum StoredHeader {
    Whole(SessionMetadata),
    /// It has to be made from the log.
    Damaged(SessionError),
}

/// Reads a header. One of a newer format is refused.
///
/// It is renamed into place without waiting for the disk, so a power cut may leave it empty. The log, which is the truth,
/// says enough to make it anew.
fn read_header(folder: &Path, id: &SessionId) -> Result<StoredHeader, SessionError> {
    let path = folder.join(METADATA);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Ok(StoredHeader::Damaged(SessionError::Read { path, source })),
    };
    let damaged =
        |line, reason| StoredHeader::Damaged(SessionError::Damaged { path, line, reason });
    match serde_json::from_slice::<SessionMetadata>(&text) {
        Ok(metadata) if metadata.is_whole(id) => {
            check_format(id, &metadata)?;
            Ok(StoredHeader::Whole(metadata))
        }
        Ok(_) => Ok(damaged(1, "it is not that of this session".to_owned())),
        Err(error) => Ok(damaged(error.line(), error.to_string())),
    }
}

/// Adds to a header that was made from the log what the other sessions among `folders` know: which of them it started, what
/// they used, and up to which event something may have been allowed.
fn add_family(metadata: &mut SessionMetadata, events: &[Envelope], folders: &[PathBuf]) {
    let mut crow = metadata.crow();
    let mut spent = UsageByModel::default();
    spent.add_log(events);
    for folder in folders {
        let id = folder.file_name().and_then(|name| name.to_str()).map(SessionId::new);
        let Some(other) = id.and_then(|id| alone(folder, &id)) else { continue };
        if other.session_id == metadata.session_id || other.crow().root_id != crow.root_id {
            continue;
        }
        if other.parent_session_id.as_ref() == Some(&metadata.session_id) {
            metadata.child_session_ids.push(other.session_id.clone());
        }
        let Ok(content) = read_log(&folder.join(HISTORY)) else { continue };
        let last = content.events.iter().filter_map(|event| event.seq).max();
        crow.grants_forgotten = crow.grants_forgotten.max(last.unwrap_or(0));
        spent.add_log(&content.events);
    }
    if metadata.parent_session_id.is_none() {
        crow.spent = spent.to_header();
    }
    metadata.child_session_ids.sort();
    metadata.set_crow(&crow);
}

/// Returns a session's header for a list: the one on the disk, or one that is made from the log.
pub(super) fn listed(folder: &Path, id: &SessionId) -> Option<SessionMetadata> {
    let mut metadata = alone(folder, id)?;
    if metadata.crow().rebuilt
        && let Some(Ok(sessions)) = folder.parent().map(folders_in)
        && let Ok(content) = read_log(&folder.join(HISTORY))
    {
        add_family(&mut metadata, &content.events, &sessions);
    }
    Some(metadata)
}

/// Returns a session's header, without what other sessions know where it is made from the log.
fn alone(folder: &Path, id: &SessionId) -> Option<SessionMetadata> {
    match read_header(folder, id) {
        Ok(StoredHeader::Whole(metadata)) => Some(metadata),
        Ok(StoredHeader::Damaged(error)) => {
            tracing::warn!(session = %id, %error, "a session's header cannot be read");
            let content = read_log(&folder.join(HISTORY)).ok()?;
            SessionMetadata::from_log(&mend(content.events, &content.lost, None))
                .filter(|metadata| metadata.session_id == *id)
        }
        // Whoever opens it is told of its format.
        Err(_) => serde_json::from_slice(&fs::read(folder.join(METADATA)).ok()?).ok(),
    }
}

fn write_metadata(folder: &Path, metadata: &SessionMetadata) -> Result<(), SessionError> {
    let path = folder.join(METADATA);
    let new = folder.join("metadata.json.new");
    let mut crow = metadata.crow();
    let mut metadata = metadata.clone();
    if std::mem::take(&mut crow.rebuilt) {
        metadata.set_crow(&crow);
    }
    let written = serde_json::to_vec_pretty(&metadata).map_err(io::Error::from).and_then(|text| {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        fs::rename(&new, &path)
    });
    written.map_err(|source| SessionError::Write { path, source })
}

fn check_format(id: &SessionId, metadata: &SessionMetadata) -> Result<(), SessionError> {
    let found = metadata.crow().format_version;
    if found > FORMAT_VERSION {
        return Err(SessionError::NewerFormat { id: id.clone(), found, known: FORMAT_VERSION });
    }
    Ok(())
}
