//! Converting a conversation into the events of a log.
//!
//! Each prompt begins a run of one turn, and a summary becomes a compaction: the log keeps all, and the model is sent what the
//! other program would have sent it. Logs have rules that files of other programs need not keep: every call has exactly one
//! result, right after its reply, and ids are unique. So the results are collected first, by the ids of their calls, and
//! [`ImportedLog`] buffers a reply until an entry comes that is no part of it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
};

use crow_core::{
    event::{AgentEvent, InputSource, NoticeAudience, NoticeLevel, RunOutcome},
    ids::{CallId, MessageId, ReplyId, RunId, SessionId},
    message::{Block, Origin, ReplyBlock, ReplyContent, ToolCall, calls_of},
    model::{ModelRef, StopReason},
    redact::Redactor,
    tool::ToolResult,
    turn::TurnEnd,
};
use crow_runtime::ImportedSession;
use crow_text::one_line;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::conversation::{ConversationEntry, EntryContent, EntryResult, ImportedConversation};

/// Maximum length of the description of a call, in characters.
const LONGEST_CALL_TITLE: usize = 100;
/// Result of a call for which the other program recorded none.
const NO_RESULT: &str = "The other program recorded no result of this call: it may not have run.";
/// Prompt that is inserted where none follows a summary.
const AFTER_SUMMARY: &str = "The conversation goes on after the summary above.";

/// Converts a conversation of the program `program` (as people call it) into a session.
pub(in crate::import) fn imported_session(
    conversation: ImportedConversation,
    id: SessionId,
    program: &str,
    redactor: &Redactor,
) -> ImportedSession {
    let title = redactor.redact(&conversation.title()).into_owned();
    let updated = conversation.updated();
    // The copy of a session may have a later start than what it was copied with.
    let times = conversation.entries.iter().map(|entry| entry.time);
    let started = times.min().unwrap_or(conversation.started).min(conversation.started);
    let mut builder = ImportedLog::new(&id, started);
    let mut others = Vec::new();
    for entry in conversation.entries {
        match entry.content {
            EntryContent::Result(result) => builder.add_result(entry.time, result),
            EntryContent::Prompt(_) | EntryContent::Reply { .. } | EntryContent::Summary { .. } => {
                others.push(entry);
            }
        }
    }
    for entry in others {
        builder.add(entry);
    }
    let (mut events, model) = builder.finish(updated, program);
    for (_, event) in &mut events {
        redactor.redact_event(event);
    }
    ImportedSession {
        id,
        agent: program.to_owned(),
        model,
        cwd: conversation.cwd,
        title,
        started,
        events,
        values: Map::new(),
    }
}

/// A reply that may get further blocks.
struct BufferedReply {
    id: String,
    /// The id that entries of the same reply share.
    reply: Option<String>,
    time: Timestamp,
    model: ModelRef,
    blocks: Vec<ReplyContent>,
    calls: HashSet<CallId>,
}

impl BufferedReply {
    /// Adds blocks. A call whose id the reply has already is left out.
    fn extend(&mut self, blocks: Vec<ReplyContent>) {
        for block in blocks {
            let is_new = match &block {
                ReplyContent::Call(call) => self.calls.insert(call.id.clone()),
                ReplyContent::Text { .. }
                | ReplyContent::Thinking { .. }
                | ReplyContent::Opaque => true,
            };
            if is_new {
                self.blocks.push(block);
            }
        }
    }
}

struct ImportedLog {
    events: Vec<(Timestamp, AgentEvent)>,
    /// Prefix of the ids of messages, replies and runs.
    prefix: String,
    /// Number of ids that were made.
    ids: usize,
    turn: u32,
    is_in_run: bool,
    buffered: Option<BufferedReply>,
    /// Results by the ids of their calls, in the order in which they came.
    results: HashMap<String, VecDeque<(Timestamp, EntryResult)>>,
    /// A summary that the next message follows.
    summary: Option<String>,
    /// Ids of all prompts and replies.
    used: HashSet<String>,
    /// Their numbers in the log.
    numbers: HashMap<String, usize>,
    /// Number of the first one that the model is still sent: a later summary can keep none before it.
    first_sent: usize,
    /// The model of the last reply.
    model: Option<ModelRef>,
    last: Timestamp,
}

impl ImportedLog {
    fn new(id: &SessionId, started: Timestamp) -> Self {
        Self {
            events: Vec::new(),
            prefix: id.to_string(),
            ids: 0,
            turn: 0,
            is_in_run: false,
            buffered: None,
            results: HashMap::new(),
            summary: None,
            used: HashSet::new(),
            numbers: HashMap::new(),
            first_sent: 0,
            model: None,
            last: started,
        }
    }

    /// Adds the result of a call. Some programs write each result twice.
    fn add_result(&mut self, time: Timestamp, result: EntryResult) {
        let results = self.results.entry(result.call_id.clone()).or_default();
        if results.back().is_none_or(|(_, last)| *last != result) {
            results.push_back((time, result));
        }
    }

    fn add(&mut self, entry: ConversationEntry) {
        let (id, time) = (entry.id, entry.time);
        match entry.content {
            EntryContent::Prompt(content) => {
                self.end_run();
                self.last = time;
                self.begin_run();
                self.push_input(id, InputSource::Prompt, content);
            }
            EntryContent::Reply { reply, model, blocks } => {
                let same = self.buffered.as_mut();
                let same = same.filter(|open| reply.is_some() && open.reply == reply);
                if let Some(open) = same {
                    return open.extend(blocks);
                }
                self.write_reply();
                self.last = time;
                self.begin_run();
                if self.summary.is_some() {
                    let content = vec![Block::text(AFTER_SUMMARY)];
                    self.push_input(None, InputSource::ControlFlow, content);
                }
                let id = self.new_id(id);
                let (calls, no_blocks) = (HashSet::new(), Vec::new());
                let mut open = BufferedReply { id, reply, time, model, blocks: no_blocks, calls };
                open.extend(blocks);
                self.buffered = Some(open);
            }
            EntryContent::Summary { text, first_kept } => {
                self.write_reply();
                // A summary that failed has no text: the conversation stays as it is.
                if text.trim().is_empty() {
                    return;
                }
                self.last = time;
                let first_kept = first_kept.map(|id| self.with_prefix(&id));
                let is_sent = |id: &String| {
                    self.summary.is_none()
                        && self.numbers.get(id).is_some_and(|number| *number >= self.first_sent)
                };
                match first_kept.filter(is_sent) {
                    Some(id) => self.push_compaction(text, &id),
                    None => match &mut self.summary {
                        Some(before) => *before = format!("{before}\n\n{text}"),
                        None => self.summary = Some(text),
                    },
                }
            }
            // They were collected before.
            EntryContent::Result(_) => {}
        }
    }

    /// Writes what is buffered, and ends the log.
    fn finish(
        mut self,
        updated: Timestamp,
        program: &str,
    ) -> (Vec<(Timestamp, AgentEvent)>, ModelRef) {
        self.write_reply();
        if self.summary.is_some() {
            self.begin_run();
            self.push_input(None, InputSource::ControlFlow, vec![Block::text(AFTER_SUMMARY)]);
        }
        self.end_run();
        self.last = self.last.max(updated);
        self.push(AgentEvent::Notice {
            level: NoticeLevel::Info,
            audience: NoticeAudience::Model,
            text: format!(
                "The conversation so far was held in {program} and imported. The tools there had other names and \
                 arguments: use only the tools that you have now. Files may have changed since."
            ),
        });
        let unknown = || ModelRef { provider: "unknown".to_owned(), model: "unknown".to_owned() };
        (self.events, self.model.unwrap_or_else(unknown))
    }

    fn push(&mut self, event: AgentEvent) {
        self.events.push((self.last, event));
    }

    /// Returns the id of a message: that of its entry below that of the session, or a new one.
    fn new_id(&mut self, id: Option<String>) -> String {
        let mut id = id.map(|id| self.with_prefix(&id));
        loop {
            if let Some(id) = id.filter(|id| self.used.insert(id.clone())) {
                return id;
            }
            self.ids += 1;
            id = Some(self.with_prefix(&format!("entry-{}", self.ids)));
        }
    }

    fn with_prefix(&self, id: &str) -> String {
        format!("{}-{id}", self.prefix)
    }

    fn begin_run(&mut self) {
        if self.is_in_run {
            return;
        }
        self.is_in_run = true;
        self.turn += 1;
        let run_id = RunId::new(format!("{}-run-{}", self.prefix, self.turn));
        self.push(AgentEvent::RunStart { run_id, settings: None });
        self.push(AgentEvent::RoundStart);
        self.push(AgentEvent::TurnStart { turn: self.turn });
    }

    fn end_run(&mut self) {
        self.write_reply();
        if !mem::take(&mut self.is_in_run) {
            return;
        }
        let run_id = RunId::new(format!("{}-run-{}", self.prefix, self.turn));
        self.push(AgentEvent::TurnComplete { turn: self.turn, end: TurnEnd::Text });
        self.push(AgentEvent::RoundEnd);
        let result = RunOutcome::NeedsInput;
        self.push(AgentEvent::RunEnd { run_id, result, assessment: None });
    }

    fn push_input(&mut self, id: Option<String>, source: InputSource, content: Vec<Block>) {
        let id = self.new_id(id);
        let message_id = MessageId::new(id.as_str());
        self.push(AgentEvent::UserInput { message_id, source, context: None, content });
        self.add_number(id.clone());
        if let Some(text) = self.summary.take() {
            self.push_compaction(text, &id);
        }
    }

    fn push_compaction(&mut self, summary: String, first_kept: &str) {
        let number = self.numbers.get(first_kept);
        self.first_sent = *number.expect("invariant: a message that is kept has been written");
        self.push(AgentEvent::Compaction {
            summary,
            first_kept: MessageId::new(first_kept),
            kept: Vec::new(),
            masked: Vec::new(),
            report: None,
        });
    }

    fn add_number(&mut self, id: String) {
        let number = self.numbers.len();
        self.numbers.insert(id, number);
    }

    /// Writes the buffered reply, with a result for each of its calls.
    fn write_reply(&mut self) {
        let Some(open) = self.buffered.take().filter(|open| !open.blocks.is_empty()) else {
            return;
        };
        let blocks: Vec<ReplyBlock> =
            open.blocks.into_iter().map(ReplyBlock::without_native_item).collect();
        let calls: Vec<ToolCall> = calls_of(&blocks).cloned().collect();
        let reply_id = ReplyId::new(open.id.as_str());
        self.last = open.time;
        self.push(AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks,
            stop: if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse },
            origin: Origin {
                dialect: "imported".to_owned(),
                provider: open.model.provider.clone(),
                base_url: String::new(),
                model: open.model.model.clone(),
            },
            response_id: None,
        });
        self.add_number(open.id);
        self.model = Some(open.model);
        for call in calls {
            self.push(call_start(&call, &reply_id));
            let answer = self.results.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
            let result = match answer {
                Some((time, result)) => {
                    self.last = self.last.max(time);
                    tool_result(result)
                }
                None => ToolResult::failure(NO_RESULT),
            };
            let (call_id, tool, reply_id) = (call.id, call.name, reply_id.clone());
            self.push(AgentEvent::CallEnd { call_id, reply_id, tool, result, denial: None });
        }
    }
}

fn tool_result(result: EntryResult) -> ToolResult {
    let mut converted = if result.is_error {
        ToolResult::failure(result.output)
    } else {
        ToolResult::success(result.output)
    };
    converted.images = result.images;
    converted
}

/// Returns the start of a call, described by its name and the first text among its arguments.
fn call_start(call: &ToolCall, reply_id: &ReplyId) -> AgentEvent {
    let arguments = call.arguments.to_object();
    let text = arguments.as_object().and_then(|object| object.values().find_map(Value::as_str));
    let title = match text {
        Some(text) => format!("{}: {}", call.name, one_line(text)),
        None => call.name.clone(),
    };
    AgentEvent::CallStart {
        call_id: CallId::new(call.id.as_str()),
        reply_id: reply_id.clone(),
        tool: call.name.clone(),
        title: title.chars().take(LONGEST_CALL_TITLE).collect(),
        arguments,
        snapshot: None,
    }
}
