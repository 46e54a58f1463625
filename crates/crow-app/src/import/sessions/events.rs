//! Converting a conversation into the events of a log.
//!
//! Each prompt begins a run of one turn, and a summary becomes a compaction: the log keeps all, and the model is sent what the
//! other program would have sent it. Logs have rules that files of other programs need not keep: every call has exactly one
//! result, right after its reply, and ids are unique within a reply. [`LogBuilder`] holds the last reply back until its results
//! are known, and then writes both.

use std::{collections::BTreeSet, mem};

use crow_core::{
    event::{AgentEvent, InputSource, NoticeAudience, NoticeLevel, RunOutcome},
    ids::{CallId, MessageId, ReplyId, RunId, SessionId},
    message::{Block, Origin, ReplyBlock, ReplyContent, ToolCall},
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
/// What stands in the place of a prompt where a summary is followed by none.
const AFTER_SUMMARY: &str = "The conversation goes on after the summary above.";

/// Converts a conversation of the program `program` (as people call it) into a session.
pub(in crate::import) fn imported_session(
    conversation: ImportedConversation,
    id: SessionId,
    program: &str,
    values: Map<String, Value>,
    redactor: &Redactor,
) -> ImportedSession {
    let title = redactor.redact(&conversation.title()).into_owned();
    let updated = conversation.updated();
    let mut builder = LogBuilder::new(&id, conversation.started);
    for entry in conversation.entries {
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
        started: conversation.started,
        events,
        values,
    }
}

/// A reply whose results are not complete.
struct UnwrittenReply {
    id: String,
    /// The id that entries of the same reply share.
    reply: Option<String>,
    time: Timestamp,
    model: ModelRef,
    blocks: Vec<ReplyContent>,
    results: Vec<(Timestamp, EntryResult)>,
}

impl UnwrittenReply {
    fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            ReplyContent::Call(call) => Some(call),
            ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => {
                None
            }
        })
    }

    /// Adds blocks. A call whose id the reply has already is left out.
    fn extend(&mut self, blocks: Vec<ReplyContent>) {
        for block in blocks {
            let is_known =
                matches!(&block, ReplyContent::Call(call) if self.has_call(call.id.as_str()));
            if !is_known {
                self.blocks.push(block);
            }
        }
    }

    fn has_call(&self, id: &str) -> bool {
        self.calls().any(|call| call.id.as_str() == id)
    }
}

struct LogBuilder {
    events: Vec<(Timestamp, AgentEvent)>,
    /// Prefix of the ids of messages, replies and runs.
    prefix: String,
    /// Number of ids that were made.
    ids: usize,
    turn: u32,
    is_in_run: bool,
    unwritten: Option<UnwrittenReply>,
    /// A summary that the next message follows.
    summary: Option<(Timestamp, String)>,
    /// Ids of prompts and replies that were written since the last summary.
    written: BTreeSet<String>,
    /// The model of the last reply.
    model: Option<ModelRef>,
    last: Timestamp,
}

impl LogBuilder {
    fn new(id: &SessionId, started: Timestamp) -> Self {
        Self {
            events: Vec::new(),
            prefix: id.to_string(),
            ids: 0,
            turn: 0,
            is_in_run: false,
            unwritten: None,
            summary: None,
            written: BTreeSet::new(),
            model: None,
            last: started,
        }
    }

    fn add(&mut self, entry: ConversationEntry) {
        // Times never go back: clocks of other programs may.
        self.last = self.last.max(entry.time);
        let (id, time) = (entry.id, self.last);
        match entry.content {
            EntryContent::Prompt(content) => {
                self.end_run();
                self.begin_run();
                self.push_input(id, InputSource::Prompt, content);
            }
            EntryContent::Reply { reply, model, blocks } => {
                let same = self.unwritten.as_mut();
                let same = same.filter(|open| reply.is_some() && open.reply == reply);
                if let Some(open) = same {
                    return open.extend(blocks);
                }
                self.write_reply();
                self.begin_run();
                if self.summary.is_some() {
                    let content = vec![Block::text(AFTER_SUMMARY)];
                    self.push_input(None, InputSource::ControlFlow, content);
                }
                let id = self.new_id(id);
                let mut open = UnwrittenReply {
                    id,
                    reply,
                    time,
                    model,
                    blocks: Vec::new(),
                    results: Vec::new(),
                };
                open.extend(blocks);
                self.unwritten = Some(open);
            }
            EntryContent::Result(result) => {
                // A result without its call says nothing.
                let open = self.unwritten.as_mut();
                if let Some(open) = open.filter(|open| open.has_call(&result.call_id)) {
                    open.results.push((time, result));
                }
            }
            EntryContent::Summary { text, first_kept } => {
                self.write_reply();
                let first_kept = first_kept.map(|id| self.with_prefix(&id));
                match first_kept.filter(|id| self.written.contains(id)) {
                    Some(id) => self.push_compaction(time, text, id),
                    None => self.summary = Some((time, text)),
                }
            }
        }
    }

    /// Writes what is held back, and ends the log.
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

    /// Returns the id of a message: that of its entry, which is unique in its file, below that of the session.
    fn new_id(&mut self, id: Option<String>) -> String {
        self.ids += 1;
        let id = id.map(|id| self.with_prefix(&id)).filter(|id| !self.written.contains(id));
        id.unwrap_or_else(|| self.with_prefix(&format!("entry-{}", self.ids)))
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
        self.written.insert(id.clone());
        if let Some((time, text)) = self.summary.take() {
            self.push_compaction(time, text, id);
        }
    }

    fn push_compaction(&mut self, time: Timestamp, summary: String, first_kept: String) {
        self.last = self.last.max(time);
        self.push(AgentEvent::Compaction {
            summary,
            first_kept: MessageId::new(first_kept.as_str()),
            kept: Vec::new(),
            masked: Vec::new(),
            report: None,
        });
        // What the summary replaced can be kept by no later one. Which of the others are before `first_kept` is not known
        // here, so a later summary may keep only what follows from here on.
        self.written = BTreeSet::from([first_kept]);
    }

    /// Writes the reply that is held back, with a result for each of its calls.
    fn write_reply(&mut self) {
        let Some(open) = self.unwritten.take() else { return };
        let calls: Vec<ToolCall> = open.calls().cloned().collect();
        if open.blocks.is_empty() {
            return;
        }
        let reply_id = ReplyId::new(open.id.as_str());
        self.events.push((
            open.time,
            AgentEvent::Reply {
                reply_id: reply_id.clone(),
                blocks: open.blocks.into_iter().map(ReplyBlock::without_native_item).collect(),
                stop: if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse },
                origin: Origin {
                    dialect: "imported".to_owned(),
                    provider: open.model.provider.clone(),
                    base_url: String::new(),
                    model: open.model.model.clone(),
                },
                response_id: None,
            },
        ));
        self.written.insert(open.id);
        self.model = Some(open.model);
        let mut results = open.results;
        for call in calls {
            let answer = results.iter().position(|(_, result)| result.call_id == call.id.as_str());
            let answer = answer.map(|at| results.swap_remove(at));
            let (time, result) = match answer {
                Some((time, result)) => (time, tool_result(result)),
                None => (open.time, ToolResult::failure(NO_RESULT)),
            };
            self.events.push((open.time, call_start(&call, &reply_id)));
            let (call_id, tool) = (call.id, call.name);
            let reply_id = reply_id.clone();
            let end = AgentEvent::CallEnd { call_id, reply_id, tool, result, denial: None };
            self.events.push((time, end));
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
