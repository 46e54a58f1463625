//! Sessions of Codex: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, records of a `type`, a `timestamp` and a `payload`.
//!
//! The conversation is in records of the type `response_item`, as the model was sent it: prompts among messages that the program
//! added, such as instructions and facts about the machine. A fork has only its own records: its header names the session that it
//! was forked from, and the number of the first record (its `ordinal`) that it does not share with it.

use std::path::{Path, PathBuf};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    conversation::{ConversationEntry, EntryContent, EntryResult, ImportedConversation},
    format::{SessionFile, SessionFormat, file_stem, single_files},
    json_lines::{
        LineProblems, find_in_objects, for_each_object, image_of_url, missing_image, take_text,
        text_and_images, text_at, time_of,
    },
};
use crate::import::files::files_below;

/// Types of records that are metadata and not messages.
const IGNORED_RECORD_TYPES: [&str; 4] =
    ["world_state", "token_usage_record", "session_state", "inter_agent_communication"];
/// Types of items that have no counterpart in Crow and that the next model does not need.
const IGNORED_ITEM_TYPES: [&str; 4] = ["additional_tools", "ghost_snapshot", "compaction", "other"];
/// Beginnings of messages that the program injected, for older files that do not say so.
const INJECTED_PREFIXES: [&str; 7] = [
    "# AGENTS.md instructions",
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<model_switch>",
];

/// Maximum number of forks of forks.
const MAX_FORK_DEPTH: usize = 50;
const NO_META: &str = "it has no record of the type `session_meta`";

/// The sessions of Codex in its folder.
#[derive(Debug)]
pub(in crate::import) struct CodexSessions {
    pub(in crate::import) folder: PathBuf,
}

impl SessionFormat for CodexSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        let folders = ["sessions", "archived_sessions"].map(|name| self.folder.join(name));
        Ok(single_files(folders.iter().flat_map(|folder| files_below(folder, ".jsonl"))))
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        let meta = find_in_objects(&file.path, |record| {
            let is_meta = text_at(&record, "type") == Some("session_meta");
            let time = time_of(record.get("timestamp")).unwrap_or_default();
            SessionMeta::of(record.get("payload").filter(|_| is_meta)?.as_object()?, time)
        })?;
        let meta = meta.ok_or(NO_META)?;
        Ok((!meta.is_subagent).then_some(meta.cwd))
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let mut problems = LineProblems::default();
        let reader = self.read_rollout(&file.path, None, &mut problems, MAX_FORK_DEPTH)?;
        let meta = reader.meta.ok_or(NO_META)?;
        Ok(ImportedConversation {
            id: meta.id,
            cwd: meta.cwd,
            title: None,
            started: meta.started,
            entries: reader.entries,
            notes: problems.notes().into_iter().chain(reader.notes).collect(),
        })
    }
}

impl CodexSessions {
    /// Reads the records of a file before the number `end`, after those of the session that it was forked from.
    fn read_rollout(
        &self,
        path: &Path,
        end: Option<u64>,
        problems: &mut LineProblems,
        forks: usize,
    ) -> Result<CodexReader, String> {
        let mut reader = CodexReader::default();
        for_each_object(path, problems, |record, problems| {
            let number = record.get("ordinal").and_then(Value::as_u64);
            if end.is_some_and(|end| number.is_some_and(|number| number >= end)) {
                return false;
            }
            let is_first = reader.meta.is_none();
            reader.add(record, problems);
            let base = reader.meta.as_ref().filter(|_| is_first).and_then(|meta| meta.base.clone());
            if let Some((id, end)) = base
                && let Err(why) = self.add_base(&mut reader, &id, end, forks)
            {
                reader.notes.push(format!("its beginning is not imported: {why}"));
            }
            true
        })?;
        Ok(reader)
    }

    /// Adds the entries of the session that a fork was forked from.
    fn add_base(
        &self,
        reader: &mut CodexReader,
        id: &str,
        end: u64,
        forks: usize,
    ) -> Result<(), String> {
        let forks = forks.checked_sub(1).ok_or_else(|| {
            format!("its chain of forks is circular or deeper than {MAX_FORK_DEPTH}")
        })?;
        let is_base = |path: &PathBuf| {
            file_stem(path).strip_suffix(id).is_some_and(|rest| rest.ends_with('-'))
        };
        let files = self.files()?;
        let path = files.iter().map(|file| &file.path).find(|path| is_base(path));
        let path =
            path.ok_or_else(|| format!("it was forked from the session {id}, which is missing"))?;
        // Line numbers of another file would only confuse.
        let mut problems = LineProblems::default();
        let base = self.read_rollout(path, Some(end), &mut problems, forks)?;
        if base.meta.as_ref().is_none_or(|meta| meta.id != id) {
            return Err(format!("{} is not the session {id}", path.display()));
        }
        reader.notes.extend(base.notes);
        if !problems.notes().is_empty() {
            reader.notes.push(format!("the session {id}, which it was forked from, is damaged"));
        }
        reader.entries = base.entries;
        reader.replies = base.replies;
        reader.model = base.model;
        Ok(())
    }
}

#[derive(Debug)]
struct SessionMeta {
    /// For a fork, the id of the session that it was forked from, and the number of the first record that they do not share.
    base: Option<(String, u64)>,
    id: String,
    cwd: PathBuf,
    started: Timestamp,
    is_subagent: bool,
    provider: Option<String>,
}

impl SessionMeta {
    /// Reads a header; `None` without an id or a directory.
    fn of(payload: &Map<String, Value>, time: Timestamp) -> Option<Self> {
        let (id, cwd) = (text_at(payload, "id")?, text_at(payload, "cwd")?);
        let source = payload.get("source").and_then(Value::as_object);
        let base = payload.get("history_base").and_then(|base| {
            let id = base.get("thread_id")?.as_str()?.to_owned();
            Some((id, base.get("end_ordinal_exclusive")?.as_u64()?))
        });
        Some(Self {
            base,
            id: id.to_owned(),
            cwd: PathBuf::from(cwd),
            started: time_of(payload.get("timestamp")).unwrap_or(time),
            is_subagent: source.is_some_and(|source| source.contains_key("subagent")),
            provider: text_at(payload, "model_provider").map(str::to_owned),
        })
    }
}

#[derive(Debug, Default)]
struct CodexReader {
    meta: Option<SessionMeta>,
    model: Option<String>,
    entries: Vec<ConversationEntry>,
    notes: Vec<String>,
    /// Number of replies. Items of one reply follow each other, and have no id in common.
    replies: usize,
}

impl CodexReader {
    fn add(&mut self, mut record: Map<String, Value>, problems: &mut LineProblems) {
        let Some(kind) = take_text(&mut record, "type") else {
            return problems.add_unknown("without a type");
        };
        let time = time_of(record.get("timestamp"));
        let Some(Value::Object(payload)) = record.remove("payload") else {
            return problems.add_unknown(&kind);
        };
        let time = time.or_else(|| self.entries.last().map(|entry| entry.time)).unwrap_or_default();
        match kind.as_str() {
            // A copy of a session has the header of the original after its own.
            "session_meta" if self.meta.is_none() => self.meta = SessionMeta::of(&payload, time),
            "turn_context" => {
                if let Some(model) = text_at(&payload, "model") {
                    self.model = Some(model.to_owned());
                }
            }
            "response_item" => self.add_item(payload, time, problems),
            "compacted" => {
                let text = text_at(&payload, "message").unwrap_or_default().to_owned();
                self.push(None, time, EntryContent::Summary { text, first_kept: None });
            }
            "event_msg" if text_at(&payload, "type") == Some("thread_rolled_back") => {
                let turns = payload.get("num_turns").and_then(Value::as_u64).unwrap_or(0);
                self.roll_back(usize::try_from(turns).unwrap_or(usize::MAX));
            }
            "session_meta" | "event_msg" => {}
            other if IGNORED_RECORD_TYPES.contains(&other) => {}
            other => problems.add_unknown(other),
        }
    }

    fn push(&mut self, id: Option<String>, time: Timestamp, content: EntryContent) {
        self.entries.push(ConversationEntry { id, time, content });
    }

    /// Removes the last turns.
    fn roll_back(&mut self, turns: usize) {
        let is_prompt =
            |entry: &ConversationEntry| matches!(entry.content, EntryContent::Prompt(_));
        for _ in 0..turns {
            let Some(last) = self.entries.iter().rposition(is_prompt) else { break };
            self.entries.truncate(last);
        }
    }

    fn add_item(
        &mut self,
        mut item: Map<String, Value>,
        time: Timestamp,
        problems: &mut LineProblems,
    ) {
        let kind = take_text(&mut item, "type").unwrap_or_default();
        let id = take_text(&mut item, "id");
        match kind.as_str() {
            "message" => self.add_message(id, time, item),
            "reasoning" => {
                let parts = ["summary", "content"].map(|key| item.remove(key));
                let texts = parts.into_iter().flatten().flat_map(content_blocks);
                let text = Block::text_of(&texts.collect::<Vec<_>>());
                if !text.is_empty() {
                    self.add_reply_block(id, time, ReplyContent::Thinking { text });
                }
            }
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                let call_id = take_text(&mut item, "call_id").or_else(|| id.clone());
                let Some(call_id) = call_id else { return };
                let arguments = match kind.as_str() {
                    "function_call" => {
                        CallArguments::parse(&take_text(&mut item, "arguments").unwrap_or_default())
                    }
                    "custom_tool_call" => {
                        CallArguments::Json(json!({ "input": item.remove("input") }))
                    }
                    _ => CallArguments::Json(item.remove("action").unwrap_or_default()),
                };
                let name = take_text(&mut item, "name").unwrap_or_else(|| "local_shell".to_owned());
                let call = ToolCall { id: CallId::new(call_id), name, arguments };
                self.add_reply_block(id, time, ReplyContent::Call(call));
            }
            "function_call_output" | "custom_tool_call_output" => {
                let Some(call_id) = take_text(&mut item, "call_id") else { return };
                let (output, images, is_error) = output_of(item.remove("output"));
                let result = EntryResult { call_id, output, images, is_error };
                self.push(None, time, EntryContent::Result(result));
            }
            other if IGNORED_ITEM_TYPES.contains(&other) => {}
            other => problems.add_unknown(other),
        }
    }

    fn add_message(&mut self, id: Option<String>, time: Timestamp, mut item: Map<String, Value>) {
        let blocks = item.remove("content").map(content_blocks).unwrap_or_default();
        match text_at(&item, "role") {
            Some("assistant") => {
                let text = Block::text_of(&blocks);
                if !text.is_empty() {
                    self.add_reply_block(id, time, ReplyContent::Text { text });
                }
            }
            Some("user") => {
                let kinds = item
                    .get("internal_chat_message_metadata_passthrough")
                    .and_then(|metadata| metadata.get("content_item_kinds")?.as_array());
                let kind_of = |position: usize| kinds?.get(position)?.as_str();
                let is_injected =
                    |(position, block): (usize, &Block)| match (kind_of(position), block) {
                        (Some(kind), _) if kind != "unknown" => !kind.starts_with("user."),
                        (_, Block::Text { text }) => INJECTED_PREFIXES
                            .iter()
                            .any(|start| text.trim_start().starts_with(start)),
                        (_, Block::Image(_)) => false,
                    };
                let flags: Vec<bool> = blocks.iter().enumerate().map(is_injected).collect();
                let prompt = blocks.into_iter().zip(flags).filter(|(_, is_injected)| !is_injected);
                let prompt: Vec<Block> = prompt.map(|(block, _)| block).collect();
                if !prompt.is_empty() {
                    self.push(id, time, EntryContent::Prompt(prompt));
                }
            }
            // Instructions of the program to the model.
            _ => {}
        }
    }

    /// Adds a block to the last reply, or begins one: after anything but a block of a reply.
    fn add_reply_block(&mut self, id: Option<String>, time: Timestamp, block: ReplyContent) {
        if let Some(ConversationEntry { content: EntryContent::Reply { blocks, .. }, .. }) =
            self.entries.last_mut()
        {
            return blocks.push(block);
        }
        self.replies += 1;
        let provider = self.meta.as_ref().and_then(|meta| meta.provider.clone());
        let model = ModelRef {
            provider: provider.unwrap_or_else(|| "openai".to_owned()),
            model: self.model.clone().unwrap_or_else(|| "unknown".to_owned()),
        };
        let reply = Some(self.replies.to_string());
        self.push(id, time, EntryContent::Reply { reply, model, blocks: vec![block] });
    }
}

/// Returns the texts and pictures of a list of contents.
fn content_blocks(content: Value) -> Vec<Block> {
    let values = match content {
        Value::Array(values) => values,
        Value::String(text) => return vec![Block::text(text)],
        _ => return Vec::new(),
    };
    let blocks = values.into_iter().filter_map(|value| {
        let Value::Object(mut part) = value else { return None };
        if let Some(url) = text_at(&part, "image_url") {
            return Some(image_of_url(url).unwrap_or_else(missing_image));
        }
        take_text(&mut part, "text").map(Block::text)
    });
    blocks.collect()
}

/// Returns the output of a call, its pictures, and whether it failed. Older versions wrote an object as text.
fn output_of(output: Option<Value>) -> (String, Vec<crow_core::message::Image>, bool) {
    match output {
        Some(Value::String(text)) => {
            let parsed = serde_json::from_str::<Map<String, Value>>(&text).ok();
            let exit =
                parsed.as_ref().and_then(|old| old.get("metadata")?.get("exit_code")?.as_i64());
            match (parsed, exit) {
                (Some(mut old), Some(exit)) => {
                    (take_text(&mut old, "output").unwrap_or_default(), Vec::new(), exit != 0)
                }
                _ => (text, Vec::new(), false),
            }
        }
        Some(Value::Object(mut object)) => {
            let is_error = object.get("success") == Some(&Value::Bool(false));
            let blocks = object.remove("content").map(content_blocks).unwrap_or_default();
            let (text, images) = text_and_images(blocks);
            (text, images, is_error)
        }
        Some(other) => {
            let (text, images) = text_and_images(content_blocks(other));
            (text, images, false)
        }
        None => (String::new(), Vec::new(), false),
    }
}
