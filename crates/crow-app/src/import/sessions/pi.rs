//! Sessions of pi: `sessions/FOLDER/TIME_ID.jsonl`, a header and a tree of entries with an `id` and a `parentId`.

use std::{collections::HashMap, path::PathBuf};

use crow_core::{
    ids::CallId,
    message::{Block, CallArguments, ReplyContent, ToolCall},
    model::ModelRef,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    conversation::{
        ConversationEntry, EntryContent, EntryResult, ImportedConversation, first_message,
    },
    format::{SessionFile, SessionFormat, single_files},
    json_lines::{
        LineProblems, find_in_objects, for_each_object, image, missing_image, take_text,
        text_and_images, text_at, time_of,
    },
    tree::{TreeRecord, path_from_root},
};
use crate::import::files::files_below;

/// The newest version of the format that is known.
const VERSION: u64 = 3;
/// Types of entries that are metadata and not messages.
const IGNORED_ENTRY_TYPES: [&str; 5] =
    ["custom", "label", "model_change", "session_info", "thinking_level_change"];

const EMPTY: &str = "it contains no JSON records";

/// The sessions of pi in its folder.
#[derive(Debug)]
pub(in crate::import) struct PiSessions {
    pub(in crate::import) folder: PathBuf,
}

impl SessionFormat for PiSessions {
    fn files(&self) -> Result<Vec<SessionFile>, String> {
        Ok(single_files(files_below(&self.folder.join("sessions"), ".jsonl")))
    }

    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String> {
        let header = find_in_objects(&file.path, |record| Some(PiHeader::new(&record)))?;
        header.ok_or(EMPTY)?.map(|header| Some(header.cwd))
    }

    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String> {
        let mut problems = LineProblems::default();
        let (mut header, mut reader) = (None, PiReader::default());
        for_each_object(&file.path, &mut problems, |record, problems| {
            match &header {
                None => header = Some(PiHeader::new(&record)),
                Some(Ok(_)) => reader.add(record, problems),
                Some(Err(_)) => return false,
            }
            true
        })?;
        Ok(reader.conversation(header.ok_or(EMPTY)??, &problems))
    }
}

struct PiHeader {
    id: String,
    cwd: PathBuf,
    started: Timestamp,
}

impl PiHeader {
    fn new(record: &Map<String, Value>) -> Result<Self, String> {
        if text_at(record, "type") != Some("session") {
            return Err("it does not begin with a record of the type `session`".to_owned());
        }
        let version = record.get("version").and_then(Value::as_u64).unwrap_or(1);
        if version > VERSION {
            return Err(format!(
                "its format has the version {version}; the newest known is {VERSION}"
            ));
        }
        let (Some(id), Some(cwd)) = (text_at(record, "id"), text_at(record, "cwd")) else {
            return Err("its header has no `id` or no `cwd`".to_owned());
        };
        let started = time_of(record.get("timestamp")).unwrap_or_default();
        Ok(Self { id: id.to_owned(), cwd: PathBuf::from(cwd), started })
    }
}

/// An entry with its content, if it is part of the conversation.
type PiRecord = TreeRecord<Option<(Timestamp, EntryContent)>>;

#[derive(Debug, Default)]
struct PiReader {
    records: Vec<PiRecord>,
    title: Option<String>,
    time: Timestamp,
}

impl PiReader {
    fn add(&mut self, mut record: Map<String, Value>, problems: &mut LineProblems) {
        let Some(kind) = take_text(&mut record, "type") else {
            return problems.add_unknown("without a type");
        };
        self.time = time_of(record.get("timestamp")).unwrap_or(self.time);
        let content = match kind.as_str() {
            "message" => match record.remove("message") {
                Some(Value::Object(message)) => message_content(message, problems),
                _ => None,
            },
            "compaction" => Some(EntryContent::Summary {
                text: take_text(&mut record, "summary").unwrap_or_default(),
                first_kept: take_text(&mut record, "firstKeptEntryId"),
            }),
            "branch_summary" => take_text(&mut record, "summary").map(|summary| {
                let text =
                    format!("What was done before, in a part that was rewound:\n\n{summary}");
                EntryContent::Prompt(vec![Block::text(text)])
            }),
            "custom_message" => record.remove("content").and_then(prompt),
            other => {
                if other == "session_info" {
                    self.title = take_text(&mut record, "name").or(self.title.take());
                } else if !IGNORED_ENTRY_TYPES.contains(&other) {
                    problems.add_unknown(other);
                }
                None
            }
        };
        // Files of the first version are no trees.
        let last = self.records.last().map(|record| record.id.clone());
        let (id, parent) = match take_text(&mut record, "id") {
            Some(id) => {
                (id, take_text(&mut record, "parentId").filter(|parent| !parent.is_empty()))
            }
            None => (format!("line-{}", self.records.len()), last),
        };
        let content = content.map(|content| (self.time, content));
        self.records.push(TreeRecord { id, parent, content });
    }

    fn conversation(self, header: PiHeader, problems: &LineProblems) -> ImportedConversation {
        let path = path_from_root(&self.records, self.records.len().checked_sub(1));
        let mut notes = problems.notes();
        let mut left_out = 0;
        let mut entries: Vec<ConversationEntry> = Vec::new();
        // Every id on the branch, and the number of entries before it: a summary may name one without content.
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (position, record) in self.records.into_iter().enumerate() {
            if !path.positions.contains(&position) {
                left_out += usize::from(record.content.is_some());
                continue;
            }
            positions.insert(record.id.clone(), entries.len());
            let Some((time, mut content)) = record.content else { continue };
            if let EntryContent::Summary { first_kept, .. } = &mut content {
                *first_kept = first_kept.take().and_then(|first| {
                    first_message(&entries, *positions.get(&first)?).map(str::to_owned)
                });
            }
            entries.push(ConversationEntry { id: Some(record.id), time, content });
        }
        path.add_notes(left_out, &mut notes);
        let PiHeader { id, cwd, started } = header;
        ImportedConversation { id, cwd, title: self.title, started, entries, notes }
    }
}

fn message_content(
    mut message: Map<String, Value>,
    problems: &mut LineProblems,
) -> Option<EntryContent> {
    match take_text(&mut message, "role")?.as_str() {
        "user" | "custom" => message.remove("content").and_then(prompt),
        "assistant" => {
            let model = ModelRef {
                provider: take_text(&mut message, "provider")
                    .unwrap_or_else(|| "unknown".to_owned()),
                model: take_text(&mut message, "model").unwrap_or_else(|| "unknown".to_owned()),
            };
            let Some(Value::Array(values)) = message.remove("content") else { return None };
            let blocks: Vec<_> =
                values.into_iter().filter_map(|value| reply_block(value, problems)).collect();
            (!blocks.is_empty()).then_some(EntryContent::Reply { reply: None, model, blocks })
        }
        "toolResult" => {
            let (output, images) =
                text_and_images(message.remove("content").map(blocks_of).unwrap_or_default());
            let is_error = message.get("isError") == Some(&Value::Bool(true));
            let call_id = take_text(&mut message, "toolCallId")?;
            Some(EntryContent::Result(EntryResult { call_id, output, images, is_error }))
        }
        "bashExecution" => {
            let command = take_text(&mut message, "command")?;
            let output = take_text(&mut message, "output").unwrap_or_default();
            let text = format!("I ran `{command}`:\n\n{output}");
            Some(EntryContent::Prompt(vec![Block::text(text)]))
        }
        "branchSummary" | "compactionSummary" => {
            let summary = take_text(&mut message, "summary")?;
            Some(EntryContent::Prompt(vec![Block::text(summary)]))
        }
        "system" => None,
        other => {
            problems.add_unknown(other);
            None
        }
    }
}

fn prompt(content: Value) -> Option<EntryContent> {
    let blocks = blocks_of(content);
    (!blocks.is_empty()).then_some(EntryContent::Prompt(blocks))
}

fn blocks_of(content: Value) -> Vec<Block> {
    let values = match content {
        Value::String(text) => return vec![Block::text(text)],
        Value::Array(values) => values,
        _ => return Vec::new(),
    };
    let blocks = values.into_iter().filter_map(|value| {
        let Value::Object(mut block) = value else { return None };
        match text_at(&block, "type")? {
            "text" => take_text(&mut block, "text").map(Block::text),
            "image" => {
                let (kind, data) = (text_at(&block, "mimeType"), text_at(&block, "data"));
                let found = kind.zip(data).and_then(|(kind, data)| image(kind, data));
                Some(found.unwrap_or_else(missing_image))
            }
            _ => None,
        }
    });
    blocks.collect()
}

fn reply_block(value: Value, problems: &mut LineProblems) -> Option<ReplyContent> {
    let Value::Object(mut block) = value else { return None };
    match take_text(&mut block, "type")?.as_str() {
        "text" => take_text(&mut block, "text").map(|text| ReplyContent::Text { text }),
        "thinking" => take_text(&mut block, "thinking").map(|text| ReplyContent::Thinking { text }),
        "toolCall" => Some(ReplyContent::Call(ToolCall {
            id: CallId::new(take_text(&mut block, "id")?),
            name: take_text(&mut block, "name")?,
            arguments: CallArguments::Json(block.remove("arguments").unwrap_or_default()),
        })),
        other => {
            problems.add_unknown(other);
            None
        }
    }
}
