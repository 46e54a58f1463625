//! Sessions of opencode: a database with the tables `session`, `message` and `part`; the last two have a column `data` with JSON.
//!
//! A message has its texts, tool calls and results as parts. A compaction is a message of the user with a part that says so, which
//! may name the first message that is kept (`tail_start_id`), and a reply with the summary. A session that was taken back
//! (`revert`) still has the messages and parts that are dropped when it goes on. The database may be in use: it is read again if it
//! was written meanwhile.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use crow_sqlite::{SqliteFile, SqliteFileError, SqliteRow, SqliteTable, SqliteValue};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    conversation::{
        ConversationEntry, EntryContent, EntryResult, ImportedConversation, first_message,
    },
    format::{SessionFile, SessionFormat},
    json_lines::{
        LineProblems, MAX_FILE_SIZE, image_of_url, missing_image, parse_object, take_text,
        text_and_images, text_at, time_of,
    },
};

/// Types of parts that are metadata and not messages.
const IGNORED_PART_TYPES: [&str; 7] =
    ["agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start"];

/// The text that the model is sent in place of an output that was cleared to save space.
const CLEARED_OUTPUT: &str = "[Old tool result content cleared]";

/// How often a database that is being written is read, and the time between.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(40);

/// The sessions of opencode in a database.
#[derive(Debug)]
pub(in crate::import) struct OpenCodeSessions {
    /// The database.
    pub(in crate::import) file: PathBuf,
    open: Mutex<Option<OpenDatabase>>,
}

#[derive(Debug)]
struct OpenDatabase {
    file: SqliteFile,
    /// Ids of the rows of messages and of parts, by session.
    messages: HashMap<String, Vec<i64>>,
    parts: HashMap<String, Vec<i64>>,
}

impl OpenCodeSessions {
    pub(in crate::import) fn new(file: PathBuf) -> Self {
        Self { file, open: Mutex::new(None) }
    }

    /// Reads the database, again if it was written meanwhile. Blocks.
    #[expect(clippy::disallowed_methods, reason = "imports block, and no executor waits for them")]
    fn with_database<T>(
        &self,
        read: impl Fn(&OpenDatabase) -> Result<T, SqliteFileError>,
    ) -> Result<T, String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = SqliteFileError::Busy;
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let database = match open.take() {
                Some(database) => Ok(database),
                None => OpenDatabase::new(&self.file),
            };
            let result = database.and_then(|database| {
                let value = read(&database)?;
                let has_changed = database.file.has_changed()?;
                Ok((value, database, has_changed))
            });
            match result {
                Ok((value, database, false)) => {
                    *open = Some(database);
                    return Ok(value);
                }
                Ok((_, _, true)) => last = SqliteFileError::Busy,
                Err(error @ (SqliteFileError::Busy | SqliteFileError::Damaged { .. })) => {
                    last = error;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(last.to_string())
    }
}

impl OpenDatabase {
    fn new(path: &Path) -> Result<Self, SqliteFileError> {
        let file = SqliteFile::open(path)?;
        let messages = rows_by_session(&file, "message")?;
        let parts = rows_by_session(&file, "part")?;
        Ok(Self { file, messages, parts })
    }

    /// Passes the rows of a session in a table to `add`.
    fn read_rows(
        &self,
        table: &str,
        rows: &HashMap<String, Vec<i64>>,
        session: &str,
        mut add: impl FnMut(&SqliteTable<'_>, SqliteRow) -> Result<(), SqliteFileError>,
    ) -> Result<(), SqliteFileError> {
        let table = self.file.table(table)?;
        for rowid in rows.get(session).into_iter().flatten() {
            if let Some(row) = table.row(*rowid)? {
                add(&table, row)?;
            }
        }
        Ok(())
    }
}

fn rows_by_session(
    file: &SqliteFile,
    table: &str,
) -> Result<HashMap<String, Vec<i64>>, SqliteFileError> {
    let table = file.table(table)?;
    let session = table.column("session_id")?;
    let mut rows: HashMap<String, Vec<i64>> = HashMap::new();
    for row in table.rows_of(&[session]) {
        let row = row?;
        if let SqliteValue::Text(session) = row.value(session) {
            rows.entry(session.clone()).or_default().push(row.rowid);
        }
    }
    Ok(rows)
}

/// Returns the text of a column; `None` for other values.
fn text_of(
    table: &SqliteTable<'_>,
    row: &mut SqliteRow,
    column: &str,
) -> Result<Option<String>, SqliteFileError> {
    Ok(match row.take(table.column(column)?) {
        SqliteValue::Text(text) => Some(text),
        SqliteValue::Null
        | SqliteValue::Integer(_)
        | SqliteValue::Real(_)
        | SqliteValue::Blob(_) => None,
    })
}

/// Returns the time in a column of milliseconds.
fn time_in(
    table: &SqliteTable<'_>,
    row: &SqliteRow,
    column: &str,
) -> Result<Timestamp, SqliteFileError> {
    let SqliteValue::Integer(milliseconds) = row.value(table.column(column)?) else {
        return Ok(Timestamp::UNIX_EPOCH);
    };
    Ok(Timestamp::from_millisecond(*milliseconds).unwrap_or_default())
}

impl SessionFormat for OpenCodeSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        if matches!(self.file.try_exists(), Ok(false)) {
            return Ok(Vec::new());
        }
        // Sessions with a parent are those of subagents.
        let mut sessions = self.with_database(|database| {
            let table = database.file.table("session")?;
            let (id, parent) = (table.column("id")?, table.column("parent_id")?);
            let mut sessions = Vec::new();
            for row in table.rows_of(&[id, parent]) {
                let mut row = row?;
                if *row.value(parent) == SqliteValue::Null {
                    sessions.extend(text_of(&table, &mut row, "id")?);
                }
            }
            Ok(sessions)
        })?;
        sessions.sort();
        let of_session = |session| SessionFile { path: self.file.clone(), session: Some(session) };
        Ok(sessions.into_iter().map(of_session).collect())
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        let session = file.session.clone().unwrap_or_default();
        let row = self.with_database(|database| OpenCodeSession::find(database, &session))?;
        Ok(row.map(|row| PathBuf::from(row.directory)))
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let id = file.session.clone().unwrap_or_default();
        let read = self.with_database(|database| {
            let Some(session) = OpenCodeSession::find(database, &id)? else { return Ok(None) };
            let mut reader = OpenCodeReader::default();
            reader.read(database, &id, session.revert.as_ref())?;
            Ok(Some(ImportedConversation {
                id: id.clone(),
                cwd: PathBuf::from(session.directory),
                title: Some(session.title),
                started: session.started,
                notes: reader.notes(),
                entries: reader.entries,
            }))
        })?;
        read.ok_or_else(|| "it was removed".to_owned())
    }
}

/// A row of the table `session`.
struct OpenCodeSession {
    directory: String,
    title: String,
    started: Timestamp,
    revert: Option<RevertPoint>,
}

/// The place from which on a session was taken back.
struct RevertPoint {
    message: String,
    /// The first part of the message that is dropped. Without one, the message is dropped as well.
    part: Option<String>,
}

impl RevertPoint {
    /// Reads the JSON of the column `revert`.
    fn parse(json: &str) -> Option<Self> {
        let mut revert = parse_object(json.as_bytes()).ok()?;
        let message = take_text(&mut revert, "messageID")?;
        Some(Self { message, part: take_text(&mut revert, "partID") })
    }
}

impl OpenCodeSession {
    fn find(database: &OpenDatabase, session: &str) -> Result<Option<Self>, SqliteFileError> {
        let table = database.file.table("session")?;
        let names = ["id", "directory", "title", "time_created", "revert"];
        let columns = names.map(|name| table.column(name));
        let columns = columns.into_iter().collect::<Result<Vec<_>, _>>()?;
        for row in table.rows_of(&columns) {
            let mut row = row?;
            if text_of(&table, &mut row, "id")?.as_deref() != Some(session) {
                continue;
            }
            let revert = text_of(&table, &mut row, "revert")?;
            return Ok(Some(Self {
                started: time_in(&table, &row, "time_created")?,
                directory: text_of(&table, &mut row, "directory")?.unwrap_or_default(),
                title: text_of(&table, &mut row, "title")?.unwrap_or_default(),
                revert: revert.as_deref().and_then(RevertPoint::parse),
            }));
        }
        Ok(None)
    }
}

#[derive(Debug, Default)]
struct OpenCodeReader {
    entries: Vec<ConversationEntry>,
    /// The ids of the messages, and the number of entries before each.
    positions: HashMap<String, usize>,
    /// The first messages that compactions keep, by the messages of the user that began them.
    tails: HashMap<String, String>,
    /// Number of replies that failed, which are not sent to the model.
    failed: usize,
    problems: LineProblems,
}

impl OpenCodeReader {
    fn read(
        &mut self,
        database: &OpenDatabase,
        session: &str,
        revert: Option<&RevertPoint>,
    ) -> Result<(), SqliteFileError> {
        let mut size = 0;
        // 1) The parts of all messages, in the order of their ids.
        let mut rows = Vec::new();
        database.read_rows("part", &database.parts, session, |table, mut row| {
            let id = text_of(table, &mut row, "id")?.unwrap_or_default();
            let message = text_of(table, &mut row, "message_id")?.unwrap_or_default();
            let data = text_of(table, &mut row, "data")?.unwrap_or_default();
            size = checked_size(size, &data)?;
            rows.push((id, message, data));
            Ok(())
        })?;
        rows.sort();
        // 2) The messages, by time.
        let mut messages = Vec::new();
        database.read_rows("message", &database.messages, session, |table, mut row| {
            let time = time_in(table, &row, "time_created")?;
            let id = text_of(table, &mut row, "id")?.unwrap_or_default();
            let data = text_of(table, &mut row, "data")?.unwrap_or_default();
            size = checked_size(size, &data)?;
            messages.push((time, id, data));
            Ok(())
        })?;
        messages.sort();
        // 3) Without what was taken back.
        let end = revert.and_then(|revert| {
            let at = messages.iter().position(|(_, id, _)| *id == revert.message)?;
            Some((at, revert))
        });
        if let Some((at, revert)) = end {
            messages.truncate(at + usize::from(revert.part.is_some()));
            let is_of_message = |message: &str| message == revert.message;
            let dropped = revert.part.as_ref().filter(|part| {
                rows.iter().any(|(id, message, _)| id == *part && is_of_message(message))
            });
            if let Some(part) = dropped {
                rows.retain(|(id, message, _)| !is_of_message(message) || id < part);
            }
        }
        let mut parts: HashMap<String, Vec<Map<String, Value>>> = HashMap::new();
        let kept: HashSet<&str> = messages.iter().map(|(_, id, _)| id.as_str()).collect();
        for (_, message, data) in rows {
            if kept.contains(message.as_str())
                && let Some(part) = self.object(&data)
            {
                parts.entry(message).or_default().push(part);
            }
        }
        for (time, id, data) in messages {
            let Some(message) = self.object(&data) else { continue };
            let parts = parts.remove(&id).unwrap_or_default();
            self.add(id, time, message, parts);
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.problems.notes();
        if self.failed > 0 {
            notes.push(format!("replies that failed are left out: {}", self.failed));
        }
        notes
    }

    fn object(&mut self, text: &str) -> Option<Map<String, Value>> {
        parse_object(text.as_bytes()).map_err(|problem| self.problems.add_record(problem)).ok()
    }

    fn add(
        &mut self,
        id: String,
        time: Timestamp,
        mut message: Map<String, Value>,
        parts: Vec<Map<String, Value>>,
    ) {
        self.positions.insert(id.clone(), self.entries.len());
        let content = match text_at(&message, "role") {
            Some("user") => {
                let tail = parts.iter().find_map(|part| text_at(part, "tail_start_id"));
                if let Some(tail) = tail {
                    self.tails.insert(id.clone(), tail.to_owned());
                }
                let blocks: Vec<Block> =
                    parts.into_iter().filter_map(|part| self.prompt_block(part)).collect();
                (!blocks.is_empty()).then_some(EntryContent::Prompt(blocks))
            }
            // A summary that failed replaces nothing.
            Some("assistant") if message.get("summary") == Some(&Value::Bool(true)) => {
                if message.contains_key("error") || !message.contains_key("finish") {
                    return;
                }
                let texts = parts.into_iter().filter_map(|part| {
                    (text_at(&part, "type") == Some("text"))
                        .then(|| text_at(&part, "text").map(Block::text))?
                });
                let text = Block::text_of(&texts.collect::<Vec<_>>());
                let tail = text_at(&message, "parentID").and_then(|parent| self.tails.get(parent));
                let first_kept = tail.and_then(|tail| {
                    first_message(&self.entries, *self.positions.get(tail)?).map(str::to_owned)
                });
                Some(EntryContent::Summary { text, first_kept })
            }
            Some("assistant") if is_left_out(&message, &parts) => {
                self.failed += 1;
                None
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

/// Adds the size of a row to that of a session.
fn checked_size(size: u64, data: &str) -> Result<u64, SqliteFileError> {
    let size = size + data.len() as u64;
    if size > MAX_FILE_SIZE {
        let what = format!("a session of more than {} MiB", MAX_FILE_SIZE / 1024 / 1024);
        return Err(SqliteFileError::Unsupported { what });
    }
    Ok(size)
}

/// Returns true for a reply with an error: only one that the user interrupted is sent to the model, if it says something.
fn is_left_out(message: &Map<String, Value>, parts: &[Map<String, Value>]) -> bool {
    let Some(error) = message.get("error") else { return false };
    let is_content = |part: &Map<String, Value>| {
        !matches!(text_at(part, "type"), Some("step-start" | "reasoning"))
    };
    error.get("name").and_then(Value::as_str) != Some("MessageAbortedError")
        || !parts.iter().any(is_content)
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
    let is_cleared = state.get("time").is_some_and(|times| times.get("compacted").is_some());
    let interrupted = state.get("metadata").filter(|metadata| {
        status == "error" && metadata.get("interrupted") == Some(&Value::Bool(true))
    });
    let interrupted = interrupted.and_then(|metadata| metadata.get("output")?.as_str());
    let is_error = status == "error" && interrupted.is_none();
    let output = match (status.as_str(), interrupted) {
        ("completed", _) if is_cleared => Some(CLEARED_OUTPUT.to_owned()),
        ("completed", _) => take_text(&mut state, "output"),
        ("error", Some(output)) => Some(output.to_owned()),
        ("error", None) => take_text(&mut state, "error"),
        _ => None,
    };
    let attachments = state.remove("attachments").filter(|_| !is_cleared);
    let attachments = attachments.as_ref().and_then(Value::as_array).into_iter().flatten();
    let pictures = attachments.filter_map(|file| image_of_url(file.get("url")?.as_str()?));
    let (_, images) = text_and_images(pictures.collect());
    let result =
        output.map(|output| EntryResult { call_id: call_id.clone(), output, images, is_error });
    Some((ToolCall { id: CallId::new(call_id), name, arguments }, time, result))
}
