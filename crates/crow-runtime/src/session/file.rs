//! Sessions stored as folders, readable by their owner only.
//!
//! A folder `<id>` holds `metadata.json` (the header), `history.jsonl` (the log, the source of truth), `lock`, and if
//! needed `undo.jsonl` and `output/`. The one writer holds an advisory lock on `lock`; readers take none. The log
//! and `undo.jsonl` are appended to, the header is replaced by a rename. A damaged header is rebuilt from the log, and a
//! log with unreadable lines is mended in memory (see `salvage`); only [`SessionStore::repair`] writes the mended files
//! to disk.

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
    SessionStore, StoredSession, UndoRecord,
    list::list,
    log_file::{LogContent, LogFile, keep_damaged, read_log, write_log},
    recent_log::RecentLog,
    salvage::mend,
    session_state::UsageByModel,
    undo_file, unfinished_sessions,
};
use crow_fs::FileLock;

pub(super) const METADATA: &str = "metadata.json";
pub(super) const HISTORY: &str = "history.jsonl";
pub(super) const LOCK: &str = "lock";
const OUTPUT: &str = "output";
/// Folder of a session that is being replaced, in the folder of the new one.
const REPLACED: &str = "replaced";
const LONGEST_ID: usize = 128;

/// A session store in a folder of the file system.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
    recent: RecentLog,
}

/// The writer of a session. Its lock is released when it is dropped, also when the process is killed.
#[derive(Debug)]
struct FileLog {
    folder: PathBuf,
    log: LogFile,
    recent: RecentLog,
    _lock: FileLock,
}

impl FileStore {
    /// Stores sessions in `folder`, which is created with the first session.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), recent: RecentLog::default() }
    }

    fn folder_of(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        let text = id.as_str();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty()
            || text.len() > LONGEST_ID
            || text.starts_with('.')
            || !text.chars().all(is_allowed)
        {
            return Err(SessionError::BadId { id: text.to_owned() });
        }
        Ok(self.folder.join(text))
    }

    fn existing_folder(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        let folder = self.folder_of(id)?;
        if is_session(&folder) {
            Ok(folder)
        } else {
            Err(SessionError::Unknown { id: id.to_string() })
        }
    }

    /// Assembles a session from the readable parts of its header and its log.
    fn assemble(
        &self,
        id: &SessionId,
        header: StoredHeader,
        content: LogContent,
    ) -> Result<StoredSession, SessionError> {
        let lines = content.lost.iter().map(|lost| lost.line.clone()).collect();
        let error = match header {
            StoredHeader::Valid(metadata) => {
                let events = mend(content.events, &content.lost, Some(&metadata));
                return Ok(StoredSession {
                    metadata,
                    events,
                    damage: Damage { header: None, lines },
                });
            }
            StoredHeader::Damaged(error) => error,
        };
        // The header is damaged: rebuild it from the log, then add what only other sessions' logs know.
        let events = mend(content.events, &content.lost, None);
        let rebuilt =
            SessionMetadata::from_log(&events).filter(|rebuilt| rebuilt.session_id == *id);
        let damage = Damage { header: Some(error.to_string()), lines };
        let Some(mut metadata) = rebuilt else { return Err(error) };
        check_format(id, &metadata)?;
        add_related_sessions(&mut metadata, &events, &self.folders()?);
        Ok(StoredSession { metadata, events, damage })
    }

    fn folders(&self) -> Result<Vec<PathBuf>, SessionError> {
        folders_in(&self.folder)
    }

    /// Builds the folder of a new session: `make_log` writes the log into the folder that it is given, and `put` moves that
    /// folder into its place. Returns the folder and its lock.
    fn build(
        &self,
        metadata: &SessionMetadata,
        make_log: impl FnOnce(&Path) -> Result<(), SessionError>,
        put: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<(PathBuf, FileLock), SessionError> {
        let id = &metadata.session_id;
        let folder = self.folder_of(id)?;
        let write_error = |path: &Path| {
            let path = path.to_path_buf();
            move |source| SessionError::Write { path, source }
        };
        private_dir().recursive(true).create(&self.folder).map_err(write_error(&self.folder))?;
        // The session is built in a temporary folder and renamed into place, so a kill leaves nothing that counts as a
        // session.
        let (new, lock) = unfinished_sessions::make(&self.folder, id)?;
        let built = make_log(&new).and_then(|()| {
            write_metadata(&new, metadata)?;
            // A rename never replaces a folder that is not empty.
            put(&new, &folder).map_err(|source| {
                if source.kind() == io::ErrorKind::DirectoryNotEmpty {
                    return SessionError::Exists { id: id.clone() };
                }
                SessionError::Write { path: folder.clone(), source }
            })
        });
        if built.is_err() {
            // Nothing was acknowledged yet, so the incomplete session is removed.
            unfinished_sessions::remove(&new);
        }
        unfinished_sessions::end(&self.folder);
        built?;
        Ok((folder, lock))
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
        let make_log = |new: &Path| LogFile::create(new.join(HISTORY)).map(drop);
        let (folder, lock) =
            self.build(metadata, make_log, |new, folder| fs::rename(new, folder))?;
        let (log, _) = LogFile::open(folder.join(HISTORY))?;
        Ok(Box::new(FileLog { folder, log, recent: self.recent.clone(), _lock: lock }))
    }

    fn add(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError> {
        let make_log = |new: &Path| write_log(&new.join(HISTORY), events);
        let put = |new: &Path, folder: &Path| {
            File::open(new.join(METADATA))?.sync_data()?;
            fs::rename(new, folder)
        };
        self.build(metadata, make_log, put).map(drop)
    }

    fn replace(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError> {
        let old = self.existing_folder(&metadata.session_id)?;
        let _lock = lock(&old, &metadata.session_id)?;
        let make_log = |new: &Path| write_log(&new.join(HISTORY), events);
        let put = |new: &Path, folder: &Path| {
            File::open(new.join(METADATA))?.sync_data()?;
            // The old session goes into the folder that counts as unfinished, and so is removed there after a crash.
            fs::rename(folder, new.join(REPLACED))?;
            fs::rename(new, folder)?;
            fs::remove_dir_all(folder.join(REPLACED))
        };
        self.build(metadata, make_log, put).map(drop)
    }

    fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError> {
        let folder = self.existing_folder(id)?;
        let lock = lock(&folder, id)?;
        let header = read_header(&folder, id)?;
        let (log, content) = LogFile::open(folder.join(HISTORY))?;
        let torn_bytes = content.torn.len();
        let stored = self.assemble(id, header, content)?;
        Ok(OpenedSession {
            stored,
            log: Box::new(FileLog { folder, log, recent: self.recent.clone(), _lock: lock }),
            torn_bytes,
        })
    }

    fn read(&self, id: &SessionId) -> Result<StoredSession, SessionError> {
        let folder = self.existing_folder(id)?;
        let header = read_header(&folder, id)?;
        let content = match self.recent.take(&folder) {
            Some(recent) => recent.read_on(&folder.join(HISTORY))?,
            None => read_log(&folder.join(HISTORY))?,
        };
        self.assemble(id, header, content)
    }

    fn header(&self, id: &SessionId) -> Result<SessionMetadata, SessionError> {
        let folder = self.existing_folder(id)?;
        match read_header(&folder, id)? {
            StoredHeader::Valid(metadata) => Ok(metadata),
            header @ StoredHeader::Damaged(_) => {
                let content = read_log(&folder.join(HISTORY))?;
                Ok(self.assemble(id, header, content)?.metadata)
            }
        }
    }

    fn repair(&self, id: &SessionId) -> Result<SessionRepair, SessionError> {
        let folder = self.existing_folder(id)?;
        let _lock = lock(&folder, id)?;
        let header = read_header(&folder, id)?;
        let (_, content) = LogFile::open(folder.join(HISTORY))?;
        let mut stored = self.assemble(id, header, content)?;
        stored.fold().map_err(|source| SessionError::Inconsistent { id: id.clone(), source })?;
        let StoredSession { metadata, events, damage } = stored;
        let mut kept = Vec::new();
        // The log is written before the header: mending depends on whether the header is whole, so an interruption
        // between the two must not change how the log is mended.
        if !damage.lines.is_empty() {
            kept.extend(keep_damaged(&folder.join(HISTORY))?);
            write_log(&folder.join(HISTORY), &events)?;
        }
        if damage.header.is_some() {
            kept.extend(keep_damaged(&folder.join(METADATA))?);
            write_metadata(&folder, &metadata)?;
        }
        Ok(SessionRepair { damage, copies: kept })
    }

    fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionMetadata>, SessionError> {
        Ok(list(&self.folders()?, filter))
    }

    fn remove(&self, id: &SessionId) -> Result<(), SessionError> {
        let folder = self.existing_folder(id)?;
        let _lock = lock(&folder, id)?;
        // A session that cannot be read can be removed all the same; its children stay.
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
        if self.existing_folder(&exact).is_ok() {
            return Ok(exact);
        }
        let folders = self.folders()?;
        let ids = folders.iter().filter(|folder| is_session(folder));
        resolve_prefix(
            prefix,
            ids.filter_map(|folder| folder.file_name()?.to_str().map(SessionId::new)),
        )
    }

    fn add_undo(&self, id: &SessionId, record: &UndoRecord) -> Result<(), SessionError> {
        undo_file::add(&self.existing_folder(id)?, record)
    }

    fn undos(&self, id: &SessionId) -> Result<Vec<UndoRecord>, SessionError> {
        undo_file::read(&self.folder_of(id)?)
    }

    fn undo_mark(&self, id: &SessionId) -> Result<u64, SessionError> {
        undo_file::size(&self.folder_of(id)?)
    }

    fn is_in_use(&self, id: &SessionId) -> Result<bool, SessionError> {
        let path = self.existing_folder(id)?.join(LOCK);
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

    fn cache_events(&mut self, events: Vec<Envelope>) {
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

/// Returns true if a folder is a session's: it has a header, or a log from which one can be rebuilt. A folder in which
/// neither was written yet is not one.
fn is_session(folder: &Path) -> bool {
    let has_log = || fs::metadata(folder.join(HISTORY)).is_ok_and(|log| log.len() > 0);
    folder.join(METADATA).is_file() || has_log()
}

/// Returns the one id that equals `prefix` or begins with it.
pub(super) fn resolve_prefix(
    prefix: &str,
    ids: impl Iterator<Item = SessionId>,
) -> Result<SessionId, SessionError> {
    let mut candidates: Vec<_> =
        ids.filter(|id| !prefix.is_empty() && id.as_str().starts_with(prefix)).collect();
    if let Some(exact) = candidates.iter().find(|id| id.as_str() == prefix) {
        return Ok(exact.clone());
    }
    match (candidates.pop(), candidates.len()) {
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

/// Takes the session's lock; fails with the id of the process that holds it, if known.
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

/// A header as read from the disk.
enum StoredHeader {
    Valid(SessionMetadata),
    /// It must be rebuilt from the log.
    Damaged(SessionError),
}

/// Reads a header. A newer format is an error; anything else that is wrong makes it [`StoredHeader::Damaged`].
///
/// The header is renamed into place without a sync, so a power cut may leave it empty. The log is the source of truth
/// and suffices to rebuild it.
fn read_header(folder: &Path, id: &SessionId) -> Result<StoredHeader, SessionError> {
    let path = folder.join(METADATA);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Ok(StoredHeader::Damaged(SessionError::Read { path, source })),
    };
    let damaged =
        |line, reason| StoredHeader::Damaged(SessionError::Damaged { path, line, reason });
    match serde_json::from_slice::<SessionMetadata>(&text) {
        Ok(metadata) if metadata.is_valid(id) => {
            check_format(id, &metadata)?;
            Ok(StoredHeader::Valid(metadata))
        }
        Ok(_) => Ok(damaged(1, "it is not that of this session".to_owned())),
        Err(error) => Ok(damaged(error.line(), error.to_string())),
    }
}

/// Adds to a header rebuilt from the log the data found in the other sessions among `folders`: its children, the usage
/// of all sessions of the tree (for a root), and the number of the last event up to which grants are revoked.
fn add_related_sessions(metadata: &mut SessionMetadata, events: &[Envelope], folders: &[PathBuf]) {
    let mut crow = metadata.crow();
    let mut spent = UsageByModel::default();
    spent.add_log(events);
    for folder in folders {
        let id = folder.file_name().and_then(|name| name.to_str()).map(SessionId::new);
        let Some(other) = id.and_then(|id| read_own_header(folder, &id)) else { continue };
        if other.session_id == metadata.session_id || other.crow().root_id != crow.root_id {
            continue;
        }
        if other.parent_session_id.as_ref() == Some(&metadata.session_id) {
            metadata.child_session_ids.push(other.session_id.clone());
        }
        // Grants given up to the latest event of any session of the tree count as revoked.
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

/// Returns a session's header for a list: the one on the disk, or one rebuilt from the log.
pub(super) fn read_list_header(folder: &Path, id: &SessionId) -> Option<SessionMetadata> {
    let mut metadata = read_own_header(folder, id)?;
    if metadata.crow().rebuilt
        && let Some(Ok(sessions)) = folder.parent().map(folders_in)
        && let Ok(content) = read_log(&folder.join(HISTORY))
    {
        add_related_sessions(&mut metadata, &content.events, &sessions);
    }
    Some(metadata)
}

/// Returns a session's header. One rebuilt from the log lacks the data found in other sessions.
fn read_own_header(folder: &Path, id: &SessionId) -> Option<SessionMetadata> {
    match read_header(folder, id) {
        Ok(StoredHeader::Valid(metadata)) => Some(metadata),
        Ok(StoredHeader::Damaged(error)) => {
            tracing::warn!(session = %id, %error, "a session's header cannot be read");
            let content = read_log(&folder.join(HISTORY)).ok()?;
            SessionMetadata::from_log(&mend(content.events, &content.lost, None))
                .filter(|metadata| metadata.session_id == *id)
        }
        // A newer format; opening the session reports it.
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
