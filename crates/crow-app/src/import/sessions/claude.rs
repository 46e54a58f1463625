//! Sessions of Claude Code: `projects/FOLDER/ID.jsonl`, a tree of records with a `uuid` and a `parentUuid`.
//!
//! A reply is written as one record for each of its blocks; results of calls that ran at once are siblings, of which only one is
//! on the way to the last record. So the records of the conversation are those on the way, the other blocks of a reply on the
//! way, and the results of its calls, in the order of the file.
//!
//! A compaction begins with a record of the subtype `compact_boundary`, which follows no other, and has its summary next. It may
//! name messages that the model is still sent (`preservedMessages`, or `preservedSegment` in older files). These stay where they
//! are in the file, and [`CompactionLinks`] links them.

use std::{collections::HashSet, path::PathBuf};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    claude_compaction::{CompactionLinks, KeptMessages},
    conversation::{
        ConversationEntry, EntryContent, EntryResult, ImportedConversation, first_message,
    },
    format::{SessionFile, SessionFormat, file_stem, single_files},
    json_lines::{
        LineProblems, find_in_objects, for_each_object, image, missing_image, take_text,
        text_and_images, text_at, time_of,
    },
    tree::{TreeRecord, path_from_root},
};
use crate::import::files::files_to_depth;

/// Types of records that are metadata and not messages.
const IGNORED_RECORD_TYPES: [&str; 25] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "summary",
    "tag",
    "tools-used",
    "worktree-state",
];

/// The sessions of Claude Code in its folder.
#[derive(Debug)]
pub(in crate::import) struct ClaudeSessions {
    pub(in crate::import) folder: PathBuf,
}

impl SessionFormat for ClaudeSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        // Files of subagents are deeper, or in older versions named for them.
        let files = files_to_depth(&self.folder.join("projects"), ".jsonl", 1);
        let is_session = |path: &PathBuf| !file_stem(path).starts_with("agent-");
        Ok(single_files(files.into_iter().filter(is_session)))
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        // A file without a prompt has only metadata.
        find_in_objects(&file.path, |record| text_at(&record, "cwd").map(PathBuf::from))
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let mut reader = ClaudeReader::default();
        let mut problems = LineProblems::default();
        for_each_object(&file.path, &mut problems, |record, problems| {
            reader.add(record, problems);
            true
        })?;
        reader.conversation(file_stem(&file.path), &problems)
    }
}

/// A record, which may be part of the conversation.
pub(super) type ClaudeRecord = TreeRecord<ClaudeContent>;

#[derive(Debug)]
pub(super) struct ClaudeContent {
    time: Option<Timestamp>,
    /// Entries of the conversation that the record adds: several results, or none for most kinds of records.
    pub(super) contents: Vec<EntryContent>,
    /// The messages that a compaction keeps, if it is one that keeps some.
    pub(super) kept: Option<KeptMessages>,
}

#[derive(Debug, Default)]
struct ClaudeReader {
    records: Vec<ClaudeRecord>,
    cwd: Option<PathBuf>,
    title: Option<String>,
}

impl ClaudeReader {
    fn add(&mut self, mut record: Map<String, Value>, problems: &mut LineProblems) {
        let Some(kind) = take_text(&mut record, "type") else {
            return problems.add_unknown("without a type");
        };
        // A title that the user gave counts more than one that the program made.
        match kind.as_str() {
            "custom-title" => self.title = take_text(&mut record, "customTitle"),
            "ai-title" if self.title.is_none() => self.title = take_text(&mut record, "aiTitle"),
            _ => {}
        }
        let is_true = |key: &str| record.get(key) == Some(&Value::Bool(true));
        // Newer versions write the messages of subagents to separate files.
        let is_of_subagent = is_true("isSidechain");
        let is_hidden = is_true("isMeta");
        let is_summary = is_true("isCompactSummary");
        if self.cwd.is_none() {
            self.cwd = text_at(&record, "cwd").map(PathBuf::from);
        }
        let time = time_of(record.get("timestamp"));
        let parent = take_text(&mut record, "parentUuid")
            .or_else(|| take_text(&mut record, "logicalParentUuid"));
        let message = record.remove("message").filter(|_| !is_of_subagent);
        let contents = match (kind.as_str(), message) {
            ("attachment", _) if !is_of_subagent => {
                queued_prompt(&mut record).into_iter().collect()
            }
            ("user", Some(Value::Object(message))) if !is_hidden => {
                user_contents(message, is_summary)
            }
            ("assistant", Some(Value::Object(message))) => reply_content(message, problems),
            ("user" | "assistant" | "system", _) => Vec::new(),
            (other, _) if IGNORED_RECORD_TYPES.contains(&other) => Vec::new(),
            (other, _) => {
                problems.add_unknown(other);
                Vec::new()
            }
        };
        let id = match take_text(&mut record, "uuid") {
            Some(id) => id,
            None if contents.is_empty() => return,
            None => format!("record-{}", self.records.len()),
        };
        let kept = if kind == "system" { KeptMessages::of(&record) } else { None };
        let content = ClaudeContent { time, contents, kept };
        self.records.push(TreeRecord { id, parent, content });
    }

    fn conversation(
        mut self,
        id: &str,
        problems: &LineProblems,
    ) -> Result<ImportedConversation, String> {
        let links = CompactionLinks::of(&mut self.records);
        let path = path_from_root(&self.records, links.leaf);
        // Other blocks of replies on the path, and the results of their calls.
        let on_path = self.records.iter().enumerate();
        let on_path = on_path.filter(|(position, _)| path.positions.contains(position));
        let on_path = on_path.flat_map(|(_, record)| &record.content.contents);
        let replies: HashSet<String> = on_path.filter_map(reply_of).map(str::to_owned).collect();
        let is_in_reply =
            |content: &EntryContent| reply_of(content).is_some_and(|reply| replies.contains(reply));
        let all = self.records.iter().flat_map(|record| &record.content.contents);
        let in_replies = all.filter(|content| is_in_reply(content));
        let calls: HashSet<String> =
            in_replies.flat_map(calls_of).map(|call| call.id.to_string()).collect();
        let is_answer = |content: &EntryContent| matches!(content, EntryContent::Result(result) if calls.contains(&result.call_id));
        let mut notes = problems.notes();
        let (mut last, mut left_out) = (None, 0);
        let mut entries: Vec<ConversationEntry> = Vec::new();
        // The position of the record of each entry.
        let mut positions = Vec::new();
        for (position, record) in self.records.into_iter().enumerate() {
            let is_on_path = path.positions.contains(&position);
            let time = record.content.time.or(last).unwrap_or_default();
            let count = record.content.contents.len();
            for (number, mut content) in record.content.contents.into_iter().enumerate() {
                if !is_on_path && !is_in_reply(&content) && !is_answer(&content) {
                    left_out += 1;
                    continue;
                }
                last = Some(time);
                if let EntryContent::Summary { first_kept, .. } = &mut content
                    && let Some(first) = links.first_kept.get(&record.id)
                {
                    let at = positions.partition_point(|position| position < first);
                    *first_kept = first_message(&entries, at).map(str::to_owned);
                }
                let is_last = number + 1 == count;
                let id =
                    if is_last { record.id.clone() } else { format!("{}-{number}", record.id) };
                entries.push(ConversationEntry { id: Some(id), time, content });
                positions.push(position);
            }
        }
        path.add_notes(left_out, &mut notes);
        let started = entries.first().map_or(Timestamp::UNIX_EPOCH, |entry| entry.time);
        Ok(ImportedConversation {
            id: id.to_owned(),
            cwd: self.cwd.ok_or("its working directory is not recorded")?,
            title: self.title,
            started,
            entries,
            notes,
        })
    }
}

fn reply_of(content: &EntryContent) -> Option<&str> {
    match content {
        EntryContent::Reply { reply, .. } => reply.as_deref(),
        EntryContent::Prompt(_) | EntryContent::Result(_) | EntryContent::Summary { .. } => None,
    }
}

fn calls_of(content: &EntryContent) -> impl Iterator<Item = &ToolCall> {
    let blocks = match content {
        EntryContent::Reply { blocks, .. } => blocks.as_slice(),
        EntryContent::Prompt(_) | EntryContent::Result(_) | EntryContent::Summary { .. } => &[],
    };
    blocks.iter().filter_map(|block| match block {
        ReplyContent::Call(call) => Some(call),
        ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => None,
    })
}

/// Returns the results of a message of the user, and then what else it says.
fn user_contents(mut message: Map<String, Value>, is_summary: bool) -> Vec<EntryContent> {
    let (mut contents, mut blocks) = (Vec::new(), Vec::new());
    match message.remove("content") {
        Some(content) if is_summary => {
            let text = summary_text(&content);
            return vec![EntryContent::Summary { text, first_kept: None }];
        }
        Some(Value::String(text)) => blocks.extend(prompt_text(&text).map(Block::text)),
        Some(Value::Array(values)) => {
            for value in values {
                let mut block = match value {
                    Value::Object(block) => block,
                    Value::String(text) => {
                        blocks.extend(prompt_text(&text).map(Block::text));
                        continue;
                    }
                    _ => continue,
                };
                if text_at(&block, "type") == Some("tool_result") {
                    contents.extend(result(&mut block).map(EntryContent::Result));
                } else {
                    blocks.extend(content_block(block));
                }
            }
        }
        _ => {}
    }
    if !blocks.is_empty() {
        contents.push(EntryContent::Prompt(blocks));
    }
    contents
}

/// Returns a prompt that the user typed while the model worked, if an attachment is one.
fn queued_prompt(record: &mut Map<String, Value>) -> Option<EntryContent> {
    let Some(Value::Object(mut attachment)) = record.remove("attachment") else { return None };
    let is_prompt = text_at(&attachment, "type") == Some("queued_command")
        && text_at(&attachment, "commandMode").is_none_or(|mode| mode == "prompt");
    let origin = attachment.get("origin").and_then(|origin| origin.get("kind")?.as_str());
    if !is_prompt || origin.is_some_and(|origin| origin != "human") {
        return None;
    }
    let message = Map::from_iter([("content".to_owned(), attachment.remove("prompt")?)]);
    user_contents(message, false).pop()
}

/// Returns the whole text of a summary.
fn summary_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns what the user wrote; `None` for text that the program injects as a message of the user.
fn prompt_text(text: &str) -> Option<String> {
    const INJECTED_TAGS: [&str; 6] = [
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
        "system-reminder",
        "task-notification",
        "bash-stdout",
    ];
    let start = text.trim();
    let is_injected = |tag: &str| {
        let rest = start.strip_prefix(&format!("<{tag}>"));
        rest.is_some_and(|rest| rest.contains(&format!("</{tag}>")))
    };
    if start.is_empty() || INJECTED_TAGS.iter().any(|tag| is_injected(tag)) {
        return None;
    }
    let inside = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
    };
    // A command of the user, such as `/review` or a line of the shell.
    if start.starts_with("<command-")
        && let Some(name) = inside("command-name")
    {
        let arguments = inside("command-args").unwrap_or_default();
        return Some(format!("{name} {arguments}").trim().to_owned());
    }
    if start.starts_with("<bash-input>")
        && let Some(line) = inside("bash-input")
    {
        return Some(format!("!{line}"));
    }
    Some(text.to_owned())
}

/// Returns a block of text or a picture; `None` for others and for text that the program added.
fn content_block(mut block: Map<String, Value>) -> Option<Block> {
    match text_at(&block, "type")? {
        "text" => prompt_text(text_at(&block, "text")?).map(Block::text),
        "image" => {
            let Some(Value::Object(source)) = block.remove("source") else {
                return Some(missing_image());
            };
            let (media_type, data) = (text_at(&source, "media_type"), text_at(&source, "data"));
            let found = media_type.zip(data).and_then(|(kind, data)| image(kind, data));
            Some(found.unwrap_or_else(missing_image))
        }
        "document" => Some(Block::text("[a document that was not imported]")),
        _ => None,
    }
}

fn result(block: &mut Map<String, Value>) -> Option<EntryResult> {
    let call_id = take_text(block, "tool_use_id")?;
    let is_error = block.get("is_error") == Some(&Value::Bool(true));
    let (output, images) = match block.remove("content") {
        Some(Value::String(text)) => (text, Vec::new()),
        Some(Value::Array(values)) => {
            let blocks = values.into_iter().filter_map(|value| match value {
                Value::Object(block) if text_at(&block, "type") == Some("text") => {
                    text_at(&block, "text").map(Block::text)
                }
                Value::Object(block) => content_block(block),
                _ => None,
            });
            text_and_images(blocks.collect())
        }
        _ => (String::new(), Vec::new()),
    };
    Some(EntryResult { call_id, output, images, is_error })
}

/// Returns the blocks of a record of a reply. Messages that the program writes in the model's name are left out.
fn reply_content(
    mut message: Map<String, Value>,
    problems: &mut LineProblems,
) -> Vec<EntryContent> {
    let model = take_text(&mut message, "model").unwrap_or_default();
    if model == "<synthetic>" {
        return Vec::new();
    }
    let values = match message.remove("content") {
        Some(Value::Array(values)) => values,
        Some(Value::String(text)) => {
            vec![serde_json::json!({ "type": "text", "text": text })]
        }
        _ => Vec::new(),
    };
    let blocks = values.into_iter().filter_map(|value| {
        let Value::Object(mut block) = value else { return None };
        match take_text(&mut block, "type")?.as_str() {
            "text" => take_text(&mut block, "text").map(|text| ReplyContent::Text { text }),
            "thinking" => {
                take_text(&mut block, "thinking").map(|text| ReplyContent::Thinking { text })
            }
            "redacted_thinking" => None,
            "tool_use" => Some(ReplyContent::Call(ToolCall {
                id: CallId::new(take_text(&mut block, "id")?),
                name: take_text(&mut block, "name")?,
                arguments: CallArguments::Json(block.remove("input").unwrap_or_default()),
            })),
            other => {
                problems.add_unknown(other);
                None
            }
        }
    });
    let blocks: Vec<_> = blocks.collect();
    if blocks.is_empty() {
        return Vec::new();
    }
    let model = ModelRef { provider: "anthropic".to_owned(), model };
    vec![EntryContent::Reply { reply: take_text(&mut message, "id"), model, blocks }]
}
