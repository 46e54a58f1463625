//! Sessions of Gemini CLI: `tmp/PROJECT/chats/session-*.jsonl`, or `.json` in older versions.
//!
//! Newer files are records that change the conversation: a message (which replaces an earlier one of its id), `$set` with new
//! values of the header or all messages, and `$rewindTo` with the first message that is dropped. Older files are one object with
//! all messages. A message that the program wrote as it came has calls with their results; one of a list of all messages has them
//! as the parts that were sent to the model. A list that lacks earlier messages is what a compression left.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    conversation::{ConversationEntry, EntryContent, EntryResult, ImportedConversation},
    format::{SessionFile, SessionFormat, file_stem, single_files},
    json_lines::{
        LineProblems, for_each_object, image, missing_image, read_object, take_text,
        text_and_images, text_at, time_of,
    },
};
use crate::import::files::{files_to_depth, read_text};

/// Beginnings of messages that the program injected.
const INJECTED_PREFIXES: [&str; 3] = [
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context",
];
/// Number of records that are read to find the header.
const HEADER_RECORDS: usize = 50;

/// The summary that stands before what a compression left.
const COMPRESSED: &str = "The conversation before was compressed. What is left of it follows.";

/// The sessions of Gemini CLI in its folder.
#[derive(Debug)]
pub(in crate::import) struct GeminiSessions {
    pub(in crate::import) folder: PathBuf,
    /// The directory in which the user imports.
    pub(in crate::import) current_dir: Option<PathBuf>,
}

impl SessionFormat for GeminiSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        let tmp = self.folder.join("tmp");
        let projects = match fs::read_dir(&tmp) {
            Ok(projects) => projects,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("{}: {error}", tmp.display())),
        };
        let files = projects
            .flatten()
            .flat_map(|project| files_to_depth(&project.path().join("chats"), "", 0));
        let is_session = |path: &PathBuf| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            let has_name = file_stem(path).starts_with("session-");
            has_name && matches!(ending, Some("json" | "jsonl")) || path.ends_with("chats")
        };
        Ok(single_files(files.filter(is_session)))
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        let reader = read_records(&file.path, HEADER_RECORDS, &mut LineProblems::default())?;
        if reader.is_subagent {
            return Ok(None);
        }
        self.project_root(&file.path).map(Some)
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let mut problems = LineProblems::default();
        let reader = read_records(&file.path, usize::MAX, &mut problems)?;
        let cwd = self.project_root(&file.path)?;
        reader.conversation(cwd, problems)
    }
}

impl GeminiSessions {
    /// Returns the directory of the project that a file belongs to: it is in a file beside it. Older versions kept only its
    /// hash, as the name of the folder; then it is found if the user is in it or below it.
    fn project_root(&self, file: &Path) -> Result<PathBuf, String> {
        let project = file.parent().and_then(Path::parent);
        let root = project.map(|project| project.join(".project_root"));
        let text = root.as_deref().map_or(Ok(None), read_text)?;
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            return Ok(PathBuf::from(text.trim()));
        }
        let name = project.and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(hash) = name.filter(|name| is_hash(name)) else {
            return Err("its working directory is not recorded".to_owned());
        };
        let candidates = self.current_dir.as_deref().map(Path::ancestors).into_iter().flatten();
        candidates.into_iter().find(|directory| hash_of(directory) == hash).map_or_else(
            || Err("only a hash of its working directory is recorded: import in it".to_owned()),
            |directory| Ok(directory.to_owned()),
        )
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the hash of a path as older versions name its folder: SHA-256 in hexadecimal digits.
fn hash_of(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    digest.iter().fold(String::new(), |mut hash, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

/// Reads at most this number of records.
fn read_records(
    file: &Path,
    most: usize,
    problems: &mut LineProblems,
) -> Result<GeminiReader, String> {
    let mut reader = GeminiReader::default();
    if file.extension().is_some_and(|extension| extension == "json") {
        reader.add(read_object(file)?, problems);
        return Ok(reader);
    }
    let mut lines = 0;
    for_each_object(file, problems, |record, problems| {
        lines += 1;
        reader.add(record, problems);
        lines < most
    })?;
    Ok(reader)
}

#[derive(Debug, Default)]
struct GeminiReader {
    id: Option<String>,
    title: Option<String>,
    started: Option<Timestamp>,
    is_subagent: bool,
    messages: Vec<GeminiMessage>,
    /// The positions of the messages, by id and type: a reply and the message with its results may have the same id.
    positions: HashMap<(String, String), usize>,
    /// Messages before those, which the program no longer sends to the model.
    compressed: Vec<GeminiMessage>,
}

/// A message with its id.
type GeminiMessage = (String, Map<String, Value>);

impl GeminiReader {
    fn add(&mut self, mut record: Map<String, Value>, problems: &mut LineProblems) {
        if let Some(first) = take_text(&mut record, "$rewindTo") {
            let at = self.messages.iter().position(|(id, _)| *id == first).unwrap_or(0);
            self.messages.truncate(at);
            self.positions.retain(|_, position| *position < at);
        } else if let Some(Value::Object(values)) = record.remove("$set") {
            self.set(values);
        } else if record.contains_key("sessionId") {
            self.set(record);
        } else if record.contains_key("id") {
            self.add_message(record);
        } else {
            problems.add_unknown("without an id");
        }
    }

    fn set(&mut self, mut values: Map<String, Value>) {
        self.id = take_text(&mut values, "sessionId").or(self.id.take());
        self.title = take_text(&mut values, "summary").or(self.title.take());
        self.started = time_of(values.get("startTime")).or(self.started);
        self.is_subagent |= text_at(&values, "kind") == Some("subagent");
        if let Some(Value::Array(messages)) = values.remove("messages") {
            let new: Vec<GeminiMessage> = messages
                .into_iter()
                .filter_map(|message| match message {
                    Value::Object(message) => Some((text_at(&message, "id")?.to_owned(), message)),
                    _ => None,
                })
                .collect();
            let ids: HashSet<&str> = new.iter().map(|(id, _)| id.as_str()).collect();
            self.compressed.append(&mut self.messages);
            self.compressed.retain(|(id, _)| !ids.contains(id.as_str()));
            self.positions.clear();
            for (position, (id, message)) in new.iter().enumerate() {
                self.positions.insert((id.clone(), type_of(message)), position);
            }
            self.messages = new;
        }
    }

    fn add_message(&mut self, message: Map<String, Value>) {
        let Some(id) = text_at(&message, "id").map(str::to_owned) else { return };
        let key = (id.clone(), type_of(&message));
        if let Some(position) = self.positions.get(&key) {
            self.messages[*position].1 = message;
        } else {
            self.positions.insert(key, self.messages.len());
            self.messages.push((id, message));
        }
    }

    fn conversation(
        self,
        cwd: PathBuf,
        mut problems: LineProblems,
    ) -> Result<ImportedConversation, String> {
        let mut time = self.started.unwrap_or_default();
        let mut entries = Vec::new();
        for (id, message) in self.compressed {
            time = time_of(message.get("timestamp")).unwrap_or(time);
            add_message(&mut entries, id, time, message, &mut problems);
        }
        if !entries.is_empty() {
            let (text, first_kept) = (COMPRESSED.to_owned(), None);
            let content = EntryContent::Summary { text, first_kept };
            entries.push(ConversationEntry { id: None, time, content });
        }
        for (id, message) in self.messages {
            time = time_of(message.get("timestamp")).unwrap_or(time);
            add_message(&mut entries, id, time, message, &mut problems);
        }
        Ok(ImportedConversation {
            id: self.id.ok_or("it has no header with its id")?,
            cwd,
            title: self.title,
            started: self.started.unwrap_or(time),
            entries,
            notes: problems.notes(),
        })
    }
}

fn type_of(message: &Map<String, Value>) -> String {
    text_at(message, "type").unwrap_or_default().to_owned()
}

/// Adds a message to the conversation.
fn add_message(
    entries: &mut Vec<ConversationEntry>,
    id: String,
    time: Timestamp,
    mut message: Map<String, Value>,
    problems: &mut LineProblems,
) {
    let content = message.remove("content");
    match text_at(&message, "type") {
        Some("user") => {
            let (results, blocks) = prompt_parts(content);
            entries.extend(results.into_iter().map(|result| ConversationEntry {
                id: None,
                time,
                content: EntryContent::Result(result),
            }));
            let text = Block::text_of(&blocks);
            let text = text.trim();
            let is_injected = INJECTED_PREFIXES.iter().any(|start| text.starts_with(start));
            // Commands of the program such as `/help` are no messages to the model.
            let is_letter = |char: char| char.is_ascii_lowercase() || char == '-';
            let is_command = text.strip_prefix('/').is_some_and(|name| name.chars().all(is_letter));
            if !blocks.is_empty() && !is_injected && !is_command {
                let (id, content) = (Some(id), EntryContent::Prompt(blocks));
                entries.push(ConversationEntry { id, time, content });
            }
        }
        Some("gemini") => add_reply(entries, id, time, content, message),
        // Messages of the program to the user.
        Some("info" | "warning" | "error") => {}
        other => problems.add_unknown(other.unwrap_or("without a type")),
    }
}

/// Returns the results of calls in the parts of a message of the user, and its other contents.
fn prompt_parts(content: Option<Value>) -> (Vec<EntryResult>, Vec<Block>) {
    let (mut results, mut blocks) = (Vec::new(), Vec::new());
    let parts = match content {
        Some(Value::Array(parts)) => parts,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    for part in parts {
        let response = part.get("functionResponse");
        let call_id = response.and_then(|response| Some(response.get("id")?.as_str()?.to_owned()));
        if let Some(call_id) = call_id {
            let is_error = part.pointer("/functionResponse/response/error").is_some();
            let (output, images) = text_and_images(result_blocks(part));
            results.push(EntryResult { call_id, output, images, is_error });
        } else {
            blocks.extend(blocks_of(part));
        }
    }
    (results, blocks)
}

/// Adds a reply, and the results of its calls.
fn add_reply(
    entries: &mut Vec<ConversationEntry>,
    id: String,
    time: Timestamp,
    content: Option<Value>,
    mut message: Map<String, Value>,
) {
    let mut blocks = Vec::new();
    let thoughts = message.remove("thoughts");
    for thought in thoughts.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let parts = ["subject", "description"].map(|key| thought.get(key).and_then(Value::as_str));
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        let text = parts.collect::<Vec<_>>().join(": ");
        if !text.is_empty() {
            blocks.push(ReplyContent::Thinking { text });
        }
    }
    let is_thinking = |block: &ReplyContent| matches!(block, ReplyContent::Thinking { .. });
    let content = content.map(reply_blocks).unwrap_or_default();
    if content.iter().any(is_thinking) {
        // The parts have the thoughts as well.
        blocks.clear();
    }
    blocks.extend(content);
    let mut results = Vec::new();
    if let Some(Value::Array(calls)) = message.remove("toolCalls") {
        for call in calls {
            let Value::Object(mut call) = call else { continue };
            let (Some(call_id), Some(name)) =
                (take_text(&mut call, "id"), take_text(&mut call, "name"))
            else {
                continue;
            };
            let time = time_of(call.get("timestamp")).unwrap_or(time);
            let is_error = text_at(&call, "status").is_some_and(|status| status != "success");
            if let Some(result) = call.remove("result") {
                let (output, images) = text_and_images(result_blocks(result));
                let call_id = call_id.clone();
                results.push((time, EntryResult { call_id, output, images, is_error }));
            }
            blocks.push(ReplyContent::Call(ToolCall {
                id: CallId::new(call_id),
                name,
                arguments: CallArguments::Json(call.remove("args").unwrap_or_default()),
            }));
        }
    }
    if blocks.is_empty() {
        return;
    }
    let model = take_text(&mut message, "model").unwrap_or_else(|| "unknown".to_owned());
    let model = ModelRef { provider: "gemini".to_owned(), model };
    let content = EntryContent::Reply { reply: None, model, blocks };
    entries.push(ConversationEntry { id: Some(id), time, content });
    entries.extend(results.into_iter().map(|(time, result)| ConversationEntry {
        id: None,
        time,
        content: EntryContent::Result(result),
    }));
}

/// Returns the blocks of a text, a part, or a list of parts of a reply.
fn reply_blocks(content: Value) -> Vec<ReplyContent> {
    match content {
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => vec![ReplyContent::Text { text }],
        Value::Array(parts) => parts.into_iter().flat_map(reply_blocks).collect(),
        Value::Object(mut part) => {
            if let Some(Value::Object(mut call)) = part.remove("functionCall") {
                let names = (take_text(&mut call, "id"), take_text(&mut call, "name"));
                let (Some(id), Some(name)) = names else { return Vec::new() };
                let arguments = CallArguments::Json(call.remove("args").unwrap_or_default());
                let id = CallId::new(id);
                return vec![ReplyContent::Call(ToolCall { id, name, arguments })];
            }
            let Some(text) = take_text(&mut part, "text").filter(|text| !text.trim().is_empty())
            else {
                return Vec::new();
            };
            let is_thought = part.get("thought") == Some(&Value::Bool(true));
            vec![if is_thought {
                ReplyContent::Thinking { text }
            } else {
                ReplyContent::Text { text }
            }]
        }
        _ => Vec::new(),
    }
}

/// Returns the texts and pictures of a text, a part, or a list of parts.
fn blocks_of(content: Value) -> Vec<Block> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![Block::text(text)],
        Value::Array(parts) => parts.into_iter().flat_map(blocks_of).collect(),
        Value::Object(mut part) => {
            if let Some(text) = take_text(&mut part, "text") {
                return vec![Block::text(text)];
            }
            let Some(Value::Object(data)) = part.remove("inlineData") else { return Vec::new() };
            let (kind, data) = (text_at(&data, "mimeType"), text_at(&data, "data"));
            let found = kind.zip(data).and_then(|(kind, data)| image(kind, data));
            vec![found.unwrap_or_else(missing_image)]
        }
        _ => Vec::new(),
    }
}

/// Returns the contents of the result of a call: the response of the function, and parts beside it.
fn result_blocks(result: Value) -> Vec<Block> {
    match result {
        Value::Array(parts) => parts.into_iter().flat_map(result_blocks).collect(),
        Value::Object(mut part) => {
            let Some(Value::Object(mut function)) = part.remove("functionResponse") else {
                return blocks_of(Value::Object(part));
            };
            let text = match function.remove("response") {
                Some(Value::Object(mut response)) => take_text(&mut response, "output")
                    .or_else(|| take_text(&mut response, "error"))
                    .unwrap_or_else(|| Value::Object(response).to_string()),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            vec![Block::text(text)]
        }
        other => blocks_of(other),
    }
}
