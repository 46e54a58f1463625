//! Sessions of opencode: a database with the tables `session`, `message` and `part`; the last two have a column `data` with JSON.
//!
//! A message has its texts, tool calls and results as parts. A compaction is a reply with the summary. The database is opened such
//! that no file of opencode is written: in place if its journal is empty, as a copy otherwise.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::{
    conversation::{ConversationEntry, EntryContent, EntryResult, ImportedConversation},
    format::{SessionFile, SessionFormat},
    json_lines::{
        LineProblems, image_of_url, missing_image, take_text, text_and_images, text_at, time_of,
    },
};

/// Types of parts that are metadata and not messages.
const IGNORED_PART_TYPES: [&str; 7] =
    ["agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start"];

/// The sessions of opencode in a database.
#[derive(Debug)]
pub(in crate::import) struct OpenCodeSessions {
    /// The database.
    pub(in crate::import) file: PathBuf,
    open: Mutex<Option<OpenDatabase>>,
}

#[derive(Debug)]
struct OpenDatabase {
    connection: Connection,
    /// The copy, if it is one.
    _copy: Option<TempDir>,
}

impl OpenCodeSessions {
    pub(in crate::import) fn new(file: PathBuf) -> Self {
        Self { file, open: Mutex::new(None) }
    }

    /// Reads the database, which is opened once.
    fn with_database<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match open.take() {
            Some(database) => database,
            None => OpenDatabase::new(&self.file)?,
        };
        let result = read(&database.connection);
        *open = Some(database);
        result.map_err(|error| format!("the database cannot be read: {error}"))
    }
}

impl OpenDatabase {
    fn new(file: &Path) -> Result<Self, String> {
        let with_ending = |path: &Path, ending: &str| {
            let mut name = OsString::from(path);
            name.push(ending);
            PathBuf::from(name)
        };
        let journal = with_ending(file, "-wal");
        let has_journal = fs::metadata(&journal).is_ok_and(|journal| journal.len() > 0);
        // The entries of a journal are read only with files beside the database that readers write, too.
        let copy = if has_journal {
            let copied = (|| {
                let folder = tempfile::tempdir()?;
                let copy = folder.path().join("copy.db");
                fs::copy(file, &copy)?;
                fs::copy(&journal, with_ending(&copy, "-wal"))?;
                Ok((folder, copy))
            })();
            Some(copied.map_err(|error: io::Error| format!("it cannot be copied: {error}"))?)
        } else {
            None
        };
        let address = match &copy {
            Some((_, copy)) => address_of(copy, "mode=rw"),
            None => address_of(file, "immutable=1"),
        };
        let flags = OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_READ_WRITE;
        let flags = if copy.is_some() {
            flags
        } else {
            OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_READ_ONLY
        };
        let connection = Connection::open_with_flags(address, flags)
            .map_err(|error| format!("the database cannot be opened: {error}"))?;
        Ok(Self { connection, _copy: copy.map(|(folder, _)| folder) })
    }
}

/// Returns the address of a database file.
fn address_of(path: &Path, query: &str) -> String {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            address.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(address, "%{byte:02x}");
        }
    }
    format!("{address}?{query}")
}

impl SessionFormat for OpenCodeSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        if !self.file.exists() {
            return Ok(Vec::new());
        }
        // Sessions with a parent are those of subagents.
        let query = "SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_created, id";
        let ids = self.with_database(|database| {
            let mut statement = database.prepare(query)?;
            let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
            ids.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let of_session = |session| SessionFile { path: self.file.clone(), session: Some(session) };
        Ok(ids.into_iter().map(of_session).collect())
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        let query = "SELECT directory FROM session WHERE id = ?1";
        let directory = self.with_database(|database| {
            database.query_row(query, [&file.session], |row| row.get::<_, String>(0))
        })?;
        Ok(Some(PathBuf::from(directory)))
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let mut reader = OpenCodeReader::default();
        let session = self.with_database(|database| reader.read(database, file))?;
        Ok(ImportedConversation {
            id: file.session.clone().unwrap_or_default(),
            cwd: PathBuf::from(session.directory),
            title: Some(session.title),
            started: session.started,
            entries: reader.entries,
            notes: reader.problems.notes(),
        })
    }
}

/// A row of the table `session`.
struct SessionRow {
    directory: String,
    title: String,
    started: Timestamp,
    /// The first message that was taken back.
    reverted: Option<String>,
}

impl SessionRow {
    fn new(row: &Row<'_>) -> rusqlite::Result<Self> {
        let revert: Option<String> = row.get(3)?;
        let revert = revert.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let reverted =
            revert.and_then(|revert| Some(revert.get("messageID")?.as_str()?.to_owned()));
        Ok(Self {
            directory: row.get(0)?,
            title: row.get(1)?,
            started: Timestamp::from_millisecond(row.get(2)?).unwrap_or_default(),
            reverted,
        })
    }
}

#[derive(Debug, Default)]
struct OpenCodeReader {
    entries: Vec<ConversationEntry>,
    problems: LineProblems,
}

impl OpenCodeReader {
    fn read(&mut self, database: &Connection, file: &SessionFile) -> rusqlite::Result<SessionRow> {
        let query = "SELECT directory, title, time_created, revert FROM session WHERE id = ?1";
        let session = database.query_row(query, [&file.session], SessionRow::new)?;
        // 1) The parts of all messages.
        let mut parts: HashMap<String, Vec<Map<String, Value>>> = HashMap::new();
        let mut statement = database
            .prepare("SELECT message_id, data FROM part WHERE session_id = ?1 ORDER BY id")?;
        let mut rows = statement.query([&file.session])?;
        while let Some(row) = rows.next()? {
            if let Some(part) = self.object(&row.get::<_, String>(1)?) {
                parts.entry(row.get(0)?).or_default().push(part);
            }
        }
        // 2) The messages.
        let query = "SELECT id, time_created, data FROM message WHERE session_id = ?1 ORDER BY time_created, id";
        let mut statement = database.prepare(query)?;
        let mut rows = statement.query([&file.session])?;
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            if session.reverted.as_ref() == Some(&id) {
                break;
            }
            let time = Timestamp::from_millisecond(row.get(1)?).unwrap_or_default();
            let Some(message) = self.object(&row.get::<_, String>(2)?) else { continue };
            let parts = parts.remove(&id).unwrap_or_default();
            self.add(id, time, message, parts);
        }
        Ok(session)
    }

    fn object(&mut self, text: &str) -> Option<Map<String, Value>> {
        let object = serde_json::from_str(text).ok();
        if object.is_none() {
            self.problems.add_unknown("without JSON");
        }
        object
    }

    fn add(
        &mut self,
        id: String,
        time: Timestamp,
        mut message: Map<String, Value>,
        parts: Vec<Map<String, Value>>,
    ) {
        let content = match text_at(&message, "role") {
            Some("user") => {
                let blocks: Vec<Block> =
                    parts.into_iter().filter_map(|part| self.prompt_block(part)).collect();
                (!blocks.is_empty()).then_some(EntryContent::Prompt(blocks))
            }
            // A compaction that failed has no text, and its error.
            Some("assistant") if message.get("summary") == Some(&Value::Bool(true)) => {
                if message.contains_key("error") {
                    return;
                }
                let texts = parts.into_iter().filter_map(|part| {
                    (text_at(&part, "type") == Some("text"))
                        .then(|| text_at(&part, "text").map(Block::text))?
                });
                let text = Block::text_of(&texts.collect::<Vec<_>>());
                Some(EntryContent::Summary { text, first_kept: None })
            }
            Some("assistant") => {
                let model = ModelRef {
                    provider: take_text(&mut message, "providerID").unwrap_or_default(),
                    model: take_text(&mut message, "modelID").unwrap_or_default(),
                };
                return self.add_reply(id, time, model, parts);
            }
            other => {
                self.problems.add_unknown(other.unwrap_or("without a role"));
                None
            }
        };
        if let Some(content) = content {
            self.entries.push(ConversationEntry { id: Some(id), time, content });
        }
    }

    /// Returns a part of a prompt; `None` for what the program added to it.
    fn prompt_block(&mut self, mut part: Map<String, Value>) -> Option<Block> {
        let is_true = |key: &str| part.get(key) == Some(&Value::Bool(true));
        if is_true("synthetic") || is_true("ignored") {
            return None;
        }
        match take_text(&mut part, "type").unwrap_or_default().as_str() {
            "text" => take_text(&mut part, "text").map(Block::text),
            "file" => {
                let url = text_at(&part, "url").unwrap_or_default();
                if url.starts_with("data:image/") {
                    return Some(image_of_url(url).unwrap_or_else(missing_image));
                }
                // The content of files is in parts that the program added.
                let name = text_at(&part, "filename").unwrap_or("a file");
                Some(Block::text(format!("[attached: {name}]")))
            }
            "subtask" => take_text(&mut part, "prompt").map(Block::text),
            other if IGNORED_PART_TYPES.contains(&other) => None,
            other => {
                self.problems.add_unknown(other);
                None
            }
        }
    }

    /// Adds a reply, and the results of its calls.
    fn add_reply(
        &mut self,
        id: String,
        time: Timestamp,
        model: ModelRef,
        parts: Vec<Map<String, Value>>,
    ) {
        let (mut blocks, mut results) = (Vec::new(), Vec::new());
        for mut part in parts {
            let kind = take_text(&mut part, "type").unwrap_or_default();
            match kind.as_str() {
                "text" => {
                    blocks.extend(
                        take_text(&mut part, "text").map(|text| ReplyContent::Text { text }),
                    );
                }
                "reasoning" => {
                    let text = take_text(&mut part, "text");
                    blocks.extend(text.map(|text| ReplyContent::Thinking { text }));
                }
                "tool" => {
                    if let Some((call, time, result)) = call_of(part, time) {
                        blocks.push(ReplyContent::Call(call));
                        results.extend(result.map(|result| (time, result)));
                    }
                }
                "file" => {}
                other if IGNORED_PART_TYPES.contains(&other) => {}
                other => self.problems.add_unknown(other),
            }
        }
        if blocks.is_empty() {
            return;
        }
        let content = EntryContent::Reply { reply: None, model, blocks };
        self.entries.push(ConversationEntry { id: Some(id), time, content });
        self.entries.extend(results.into_iter().map(|(time, result)| ConversationEntry {
            id: None,
            time,
            content: EntryContent::Result(result),
        }));
    }
}

/// Returns the call of a part, and its result with the time of it, if it has ended.
fn call_of(
    mut part: Map<String, Value>,
    time: Timestamp,
) -> Option<(ToolCall, Timestamp, Option<EntryResult>)> {
    let call_id = take_text(&mut part, "callID")?;
    let name = take_text(&mut part, "tool")?;
    let Some(Value::Object(mut state)) = part.remove("state") else { return None };
    let arguments = CallArguments::Json(state.remove("input").unwrap_or_default());
    let time = state.get("time").and_then(|times| time_of(times.get("end"))).unwrap_or(time);
    let status = take_text(&mut state, "status").unwrap_or_default();
    let output = match status.as_str() {
        "completed" => take_text(&mut state, "output"),
        "error" => take_text(&mut state, "error"),
        _ => None,
    };
    let attachments = state.remove("attachments");
    let attachments = attachments.as_ref().and_then(Value::as_array).into_iter().flatten();
    let pictures = attachments.filter_map(|file| image_of_url(file.get("url")?.as_str()?));
    let (_, images) = text_and_images(pictures.collect());
    let result = output.map(|output| EntryResult {
        call_id: call_id.clone(),
        output,
        images,
        is_error: status == "error",
    });
    Some((ToolCall { id: CallId::new(call_id), name, arguments }, time, result))
}
