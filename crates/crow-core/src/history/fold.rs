//! The fold of a session's log into its history.
//!
//! [`History::apply`] takes one [`Envelope`] at a time and appends to two parallel lists: `items`, the timeline for
//! people (`seqs` has the event number of each item), and `messages`, the conversation for the model. While a reply
//! has calls without a result it is in `open`: its results are collected in the reply's item, user messages queue in
//! `waiting`, and [`History::messages`] refuses. The last result closes the reply and appends one message of all
//! results and then the queued ones.
//!
//! A compaction replaces `messages` and is an item itself. A rewind truncates `items` by event number and rebuilds
//! `messages` from what remains, compactions included. An event that cannot follow is refused before anything is
//! changed.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    HistoryEntry, SystemEvent,
    compaction::{CompactionItem, INSTRUCTIONS_ID, REMINDER_ID},
    reply::{CallAnswer, ReplyItem},
    timeline::{push_reply_entries, system_event, text_of},
};
use crate::{
    event::{AgentEvent, Envelope, InputSource, InstructionFile, NoticeAudience, RequestPrefix},
    ids::{CallId, MessageId, ReplyId, SnapshotId, UndoId},
    message::{AssistantMessage, Block, Message, ToolCall, UserMessage, calls_of, wrap_in_tag},
    settings::SessionSettings,
    tool_types::{ToolMetadata, ToolStatus},
    usage::TokenUsage,
};

/// A session's history.
///
/// Invariant: [`messages`](Self::messages) are only returned when every call has exactly one result, and are only
/// appended to, except by a rewind and a compaction. A result is stored with its call, so the two cannot be separated.
#[derive(Debug, Default)]
pub struct History {
    items: Vec<HistoryItem>,
    /// For each item, the number of the event that made it. Ascending.
    seqs: Vec<u64>,
    messages: Vec<Arc<Message>>,
    open: Option<UnansweredReply>,
    /// User messages that arrived while calls were open: they follow the results.
    waiting: Vec<Arc<Message>>,
    usage: TokenUsage,
    last_usage: Option<TokenUsage>,
    turns: u32,
    last_seq: u64,
    /// The files before the first call that could change them, and after the last one.
    snapshots: (Option<SnapshotId>, Option<SnapshotId>),
    /// Undos recorded in the log, each with the number of its event.
    undos: BTreeMap<UndoId, u64>,
    /// Events that rewinds removed from the conversation, as pairs (last event kept, event of the rewind): those
    /// between.
    gaps: Vec<(u64, u64)>,
    /// Number of the event with the last input.
    last_input: u64,
    /// Settings that the session continues with, if the log has them.
    settings: Option<Box<SessionSettings>>,
    /// Files whose instructions the model was given, in order.
    instructions: Vec<GivenInstructions>,
    /// System prompt and tools of the last request.
    request_prefix: Option<Box<RequestPrefix>>,
    /// Number of items at the beginning that [`History::release_outputs`] need not look at again.
    released: usize,
    /// True once outputs were dropped.
    has_released: bool,
}

/// An entry of the history. Most are replies; larger ones, of which there are few, are boxed.
#[derive(Debug)]
enum HistoryItem {
    User { at: Timestamp, message: Arc<Message> },
    Reply(ReplyItem),
    Handoff(Box<HandoffItem>),
    Compaction(Box<CompactionItem>),
    System { at: Timestamp, event: SystemEvent },
}

/// A task that an agent gave to another.
#[derive(Debug)]
struct HandoffItem {
    at: Timestamp,
    from: String,
    to: String,
    prompt: String,
}

/// Instructions of a file, and where the conversation got them.
#[derive(Debug)]
struct GivenInstructions {
    /// Number of the event.
    seq: u64,
    message: MessageId,
    file: InstructionFile,
}

/// The latest instructions of a file that the model was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownInstructions<'a> {
    /// The file, as it was then.
    pub file: &'a InstructionFile,
    /// False if a compaction left them out of the conversation.
    pub in_conversation: bool,
}

/// The last reply, while some of its calls have no result.
#[derive(Debug)]
struct UnansweredReply {
    /// Index of the reply in [`History::items`].
    item: usize,
    reply_id: ReplyId,
    calls: Vec<OpenCall>,
    /// Number of calls without a result.
    missing: usize,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub call_id: CallId,
    /// The name that the model called.
    pub tool: String,
    /// True if its start is in the log, so it may have had effects.
    pub started: bool,
    /// The state of the files before it, if it was captured.
    pub snapshot: Option<SnapshotId>,
}

/// Error for a log line that cannot follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A new reply arrived although calls are open.
    #[error("reply {reply_id} came while calls of the reply before it had no result")]
    CallsOpen {
        /// The new reply.
        reply_id: ReplyId,
    },
    /// A result arrived for an unknown call, or a second one.
    #[error("a result came for call {call_id}, which is not open")]
    NotOpen {
        /// The call.
        call_id: CallId,
    },
    /// Two calls of one reply have the same id.
    #[error("two calls of reply {reply_id} have the id {call_id}")]
    SameId {
        /// The reply.
        reply_id: ReplyId,
        /// The id.
        call_id: CallId,
    },
    /// A rewind arrived while calls are open.
    #[error("a rewind came while calls had no result")]
    RewindWithOpenCalls,
    /// A compaction arrived while calls are open.
    #[error("a compaction came while calls had no result")]
    CompactionWithOpenCalls,
    /// A rewind arrived after outputs were released.
    #[error("a rewind came to a history without its old outputs; its log must be read again")]
    OutputsReleased,
    /// The first message that a compaction keeps is not in the conversation, or is a result without its call.
    #[error("a compaction keeps the conversation from message {message_id}, which is none of it")]
    UnknownFirstKept {
        /// The message.
        message_id: MessageId,
    },
}

impl History {
    /// Makes an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds the lines of a log.
    pub fn from_log<'a>(
        lines: impl IntoIterator<Item = &'a Envelope>,
    ) -> Result<Self, HistoryError> {
        let mut history = Self::new();
        for line in lines {
            history.apply(line)?;
        }
        Ok(history)
    }

    /// Applies one event. Events that are not durable change nothing.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events leave the messages alone")]
    pub fn apply(&mut self, envelope: &Envelope) -> Result<(), HistoryError> {
        self.last_seq = self.last_seq.max(envelope.seq.unwrap_or(0));
        let at = envelope.time;
        match &envelope.event {
            AgentEvent::SessionStart { settings: Some(settings), .. }
            | AgentEvent::RunStart { settings: Some(settings), .. } => {
                self.settings = Some(settings.clone());
            }
            AgentEvent::UserInput { message_id, source, context, content } => {
                self.last_input = self.last_seq;
                // The context of the loop comes before the input itself.
                let blocks_of_input = content.iter().map(|block| marked_content(*source, block));
                let blocks = context
                    .iter()
                    .map(|text| Block::text(text.clone()))
                    .chain(blocks_of_input)
                    .collect();
                self.push_user(at, message_id.clone(), blocks);
            }
            AgentEvent::Instructions { files, text } => {
                let message = MessageId::new(format!("{INSTRUCTIONS_ID}{}", self.number(envelope)));
                self.instructions.extend(files.iter().map(|file| GivenInstructions {
                    seq: self.last_seq,
                    message: message.clone(),
                    file: file.clone(),
                }));
                self.push_user(at, message, vec![Block::text(text.clone())]);
            }
            AgentEvent::Notice { audience: NoticeAudience::Model, text, .. } => {
                self.push_reminder(envelope, text);
            }
            AgentEvent::FilesRestored { undo_id, text } => {
                self.undos.insert(undo_id.clone(), self.last_seq);
                self.push_reminder(envelope, text);
            }
            AgentEvent::Rewind { undo_id, last_kept } => {
                self.rewind(*last_kept)?;
                self.undos.insert(undo_id.clone(), self.last_seq);
            }
            AgentEvent::Reply { reply_id, blocks, origin, .. } => {
                let message = AssistantMessage {
                    id: MessageId::new(reply_id.as_str()),
                    reply_id: reply_id.clone(),
                    origin: origin.clone(),
                    blocks: blocks.clone(),
                };
                self.push_reply(at, reply_id, message)?;
            }
            AgentEvent::CallStart { call_id, snapshot, .. } => {
                let open = self
                    .open
                    .iter_mut()
                    .flat_map(|open| &mut open.calls)
                    .find(|call| call.call_id == *call_id);
                // A start without an open call is ignored: it changes no message.
                if let Some(call) = open {
                    call.started = true;
                    call.snapshot.clone_from(snapshot);
                }
            }
            // A result also moves the window of file states: the first `before` and the last `after` count.
            AgentEvent::CallEnd { call_id, tool, result, .. } => {
                self.answer(call_id, CallAnswer::new(at, tool, result))?;
                let ToolMetadata { snapshot_before, snapshot_after, .. } = &result.metadata;
                let (initial, current) = &mut self.snapshots;
                *initial = initial.take().or_else(|| snapshot_before.clone());
                *current = snapshot_after.clone().or_else(|| current.take());
            }
            AgentEvent::Compaction { .. } => {
                if let Some(compaction) = self.compaction_item(&envelope.event, at) {
                    self.messages = self.compacted(&compaction)?;
                    self.items.push(HistoryItem::Compaction(Box::new(compaction)));
                }
            }
            AgentEvent::Usage { usage, prefix, .. } => {
                if let Some(prefix) = prefix {
                    self.request_prefix = Some(prefix.clone());
                }
                self.usage += *usage;
                self.last_usage = Some(*usage);
            }
            AgentEvent::TurnStart { turn } => self.turns = self.turns.max(*turn),
            AgentEvent::Handoff { from, to, prompt } => {
                let (from, to, prompt) = (from.clone(), to.clone(), prompt.clone());
                let handoff = HandoffItem { at, from, to, prompt };
                self.items.push(HistoryItem::Handoff(Box::new(handoff)));
            }
            other => {
                if let Some(event) = system_event(other) {
                    self.items.push(HistoryItem::System { at, event });
                }
            }
        }
        // Items that this event made get its number.
        self.seqs.resize(self.items.len(), self.last_seq);
        Ok(())
    }

    /// Checks that an event can follow those before it, so that no line is appended to a log that cannot be read back.
    pub fn check_next(&self, event: &AgentEvent) -> Result<(), HistoryError> {
        if let AgentEvent::Reply { reply_id, blocks, .. } = event {
            self.open_calls_of(reply_id, calls_of(blocks)).map(drop)
        } else if let AgentEvent::CallEnd { call_id, .. } = event {
            self.open_slot(call_id).map(drop)
        } else if matches!(event, AgentEvent::Rewind { .. }) && self.open.is_some() {
            Err(HistoryError::RewindWithOpenCalls)
        } else if let Some(compaction) = self.compaction_item(event, Timestamp::default()) {
            self.compacted(&compaction).map(drop)
        } else {
            Ok(())
        }
    }

    /// Returns the compaction of an event, if it is one.
    fn compaction_item(&self, event: &AgentEvent, at: Timestamp) -> Option<CompactionItem> {
        let AgentEvent::Compaction { summary, first_kept, kept, masked, .. } = event else {
            return None;
        };
        Some(CompactionItem {
            at,
            seq: self.last_seq,
            summary: summary.clone(),
            first_kept: first_kept.clone(),
            kept: kept.clone(),
            masked: masked.clone(),
        })
    }

    /// Returns the conversation after a compaction.
    fn compacted(&self, compaction: &CompactionItem) -> Result<Vec<Arc<Message>>, HistoryError> {
        if self.open.is_some() {
            return Err(HistoryError::CompactionWithOpenCalls);
        }
        compaction.apply(&self.messages)
    }

    /// Returns the settings that the session continues with, if the log has them: logs of older versions and of
    /// children do not.
    pub fn settings(&self) -> Option<&SessionSettings> {
        self.settings.as_deref()
    }

    /// Returns the state of the files before the first call that could change them, and after the last one.
    pub fn snapshots(&self) -> (Option<&SnapshotId>, Option<&SnapshotId>) {
        (self.snapshots.0.as_ref(), self.snapshots.1.as_ref())
    }

    /// Returns true if the log records an undo, in a part that the conversation still has.
    pub fn contains_undo(&self, id: &UndoId) -> bool {
        self.undos.contains_key(id)
    }

    /// Returns true if a rewind removed the event with this number from the conversation.
    pub fn is_rewound(&self, seq: u64) -> bool {
        self.gaps.iter().any(|(kept, rewind)| (kept + 1..*rewind).contains(&seq))
    }

    /// Returns true if a compaction left something out of the conversation.
    pub fn is_compacted(&self) -> bool {
        self.items.iter().any(|item| matches!(item, HistoryItem::Compaction(_)))
    }

    /// Frees the memory of outputs and replies that a compaction left out of the conversation: [`entries`](Self::entries)
    /// has the outputs empty from now on. Such a history cannot be rewound; fold its log again instead.
    pub fn release_outputs(&mut self) {
        let is_compaction = |item: &HistoryItem| matches!(item, HistoryItem::Compaction(_));
        let Some(last) = self.items.iter().rposition(is_compaction) else { return };
        let sent: HashSet<*const Message> = self.messages.iter().map(Arc::as_ptr).collect();
        for item in &mut self.items[self.released..last] {
            if let HistoryItem::Reply(reply) = item {
                reply.release(&sent);
            }
        }
        // What is still sent may be left out by the next compaction.
        let is_sent = |item: &HistoryItem| match item {
            HistoryItem::Reply(reply) => {
                reply.messages().any(|message| sent.contains(&Arc::as_ptr(message)))
            }
            HistoryItem::User { .. }
            | HistoryItem::Handoff(_)
            | HistoryItem::Compaction(_)
            | HistoryItem::System { .. } => false,
        };
        self.released = self.items[..last].iter().position(is_sent).unwrap_or(last);
        self.has_released = true;
    }

    /// Returns true if outputs were [released](Self::release_outputs), so that a rewind needs the log.
    pub fn has_released_outputs(&self) -> bool {
        self.has_released
    }

    /// Returns the number of the event with the last input.
    pub fn last_input(&self) -> u64 {
        self.last_input
    }

    /// Returns true if a call has no result yet.
    pub fn is_open(&self, call_id: &CallId) -> bool {
        self.open_slot(call_id).is_ok()
    }

    /// Returns the messages for the next request, or the calls that must be answered first.
    pub fn messages(&self) -> Result<&[Arc<Message>], Vec<OpenCall>> {
        match &self.open {
            None => Ok(&self.messages),
            Some(_) => Err(self.open_calls()),
        }
    }

    /// Returns the calls without a result, in order.
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let Some(open) = &self.open else { return Vec::new() };
        let Some(HistoryItem::Reply(reply)) = self.items.get(open.item) else { return Vec::new() };
        let pairs = open.calls.iter().zip(&reply.answers);
        pairs.filter(|(_, answer)| answer.is_none()).map(|(call, _)| call.clone()).collect()
    }

    /// Returns the reply whose calls are open.
    pub fn open_reply(&self) -> Option<&ReplyId> {
        self.open.as_ref().map(|open| &open.reply_id)
    }

    /// Returns true if there are no messages yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.waiting.is_empty()
    }

    /// Returns the usage of all model calls.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Returns the usage of the last model call.
    pub fn last_usage(&self) -> Option<TokenUsage> {
        self.last_usage
    }

    /// Returns the latest instructions of each file that the model was given, in the order in which the files came
    /// first. Files whose instructions count no longer are not among them.
    pub fn instructions(&self) -> Vec<KnownInstructions<'_>> {
        let mut latest: Vec<&GivenInstructions> = Vec::new();
        for given in &self.instructions {
            match latest.iter_mut().find(|known| known.file.path == given.file.path) {
                Some(known) => *known = given,
                None => latest.push(given),
            }
        }
        let messages = || self.messages.iter().chain(&self.waiting);
        latest
            .into_iter()
            .filter(|given| given.file.hash.is_some())
            .map(|given| KnownInstructions {
                file: &given.file,
                in_conversation: messages().any(|message| *message.id() == given.message),
            })
            .collect()
    }

    /// Describes system prompt and tools of the last request, if the log has that.
    pub fn request_prefix(&self) -> Option<&RequestPrefix> {
        self.request_prefix.as_deref()
    }

    /// Returns the number of turns started.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns the highest `seq` seen.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns status and metadata of all answered calls, in the order of the calls. Their outputs are in the messages.
    pub fn results(&self) -> impl Iterator<Item = (ToolStatus, ToolMetadata)> {
        self.answers().map(|answer| (answer.status, answer.metadata.read()))
    }

    /// Returns the metadata of those answered calls that have `key` in [`ToolMetadata::extra`]. Fast if few have it:
    /// the others are not parsed.
    pub fn results_with_extra(&self, key: &str) -> impl Iterator<Item = ToolMetadata> {
        let answers = self.answers().filter(move |answer| answer.metadata.may_hold(key));
        answers
            .map(|answer| answer.metadata.read())
            .filter(move |metadata| metadata.extra.get(key).is_some())
    }

    fn answers(&self) -> impl Iterator<Item = &CallAnswer> {
        let replies = self.items.iter().filter_map(|item| match item {
            HistoryItem::Reply(reply) => Some(reply),
            HistoryItem::User { .. }
            | HistoryItem::Handoff(_)
            | HistoryItem::Compaction(_)
            | HistoryItem::System { .. } => None,
        });
        replies.flat_map(|reply| &reply.answers).flatten()
    }

    /// Returns the timeline, each result directly after its call.
    pub fn entries(&self) -> Vec<HistoryEntry> {
        let mut entries = Vec::new();
        for item in &self.items {
            match item {
                HistoryItem::User { at, message } => {
                    entries.push(HistoryEntry::User { content: text_of(message), timestamp: *at });
                }
                HistoryItem::Reply(reply) => push_reply_entries(reply, &mut entries),
                HistoryItem::Handoff(handoff) => {
                    entries.push(HistoryEntry::Handoff {
                        from_agent: handoff.from.clone(),
                        to_agent: handoff.to.clone(),
                        prompt: handoff.prompt.clone(),
                        timestamp: handoff.at,
                    });
                }
                HistoryItem::Compaction(compaction) => {
                    let event = SystemEvent::Compacted { summary: compaction.summary.clone() };
                    entries.push(HistoryEntry::System { event, timestamp: compaction.at });
                }
                HistoryItem::System { at, event } => {
                    entries.push(HistoryEntry::System { event: event.clone(), timestamp: *at });
                }
            }
        }
        entries
    }

    /// Returns what tells the message of an event from others. An event that is not yet in a log has no number; its
    /// position identifies the message as well.
    fn number(&self, envelope: &Envelope) -> String {
        envelope.seq.map_or_else(|| format!("at-{}", self.items.len()), |seq| seq.to_string())
    }

    fn push_reminder(&mut self, envelope: &Envelope, text: &str) {
        let id = MessageId::new(format!("{REMINDER_ID}{}", self.number(envelope)));
        let text = format!("<system-reminder>\n{text}\n</system-reminder>");
        self.push_user(envelope.time, id, vec![Block::text(text)]);
    }

    /// Removes what came after the event `last_kept`. Counts of turns and tokens stay: they were spent.
    fn rewind(&mut self, last_kept: u64) -> Result<(), HistoryError> {
        if self.open.is_some() {
            return Err(HistoryError::RewindWithOpenCalls);
        }
        if self.has_released {
            return Err(HistoryError::OutputsReleased);
        }
        self.gaps.push((last_kept, self.last_seq));
        // Undos in the removed part are reported again when they are replayed, but a rewind is never replayed:
        // rewinds stay, recognized by their gaps.
        self.undos.retain(|_, seq| *seq <= last_kept || self.gaps.iter().any(|(_, at)| at == seq));
        self.instructions.retain(|given| given.seq <= last_kept);
        let count = self.seqs.partition_point(|seq| *seq <= last_kept);
        self.items.truncate(count);
        self.messages.clear();
        self.waiting.clear();
        // Rebuild the messages of the remaining items.
        for item in &self.items {
            match item {
                HistoryItem::User { message, .. } => self.messages.push(Arc::clone(message)),
                HistoryItem::Reply(reply) => {
                    self.messages.extend(reply.messages().cloned());
                }
                HistoryItem::Compaction(compaction) => {
                    self.messages = compaction
                        .apply(&self.messages)
                        .expect("invariant: what a compaction keeps comes before it, and a rewind removes the compaction first");
                }
                HistoryItem::Handoff(_) | HistoryItem::System { .. } => {}
            }
        }
        Ok(())
    }

    fn push_user(&mut self, at: Timestamp, id: MessageId, content: Vec<Block>) {
        let message = Arc::new(Message::User(UserMessage { id, content }));
        self.items.push(HistoryItem::User { at, message: Arc::clone(&message) });
        if self.open.is_some() {
            self.waiting.push(message);
        } else {
            self.messages.push(message);
        }
    }

    fn push_reply(
        &mut self,
        at: Timestamp,
        reply_id: &ReplyId,
        message: AssistantMessage,
    ) -> Result<(), HistoryError> {
        let calls = self.open_calls_of(reply_id, message.calls())?;
        let message = Arc::new(Message::Assistant(message));
        self.messages.push(Arc::clone(&message));
        self.items.push(HistoryItem::Reply(ReplyItem::new(at, message, calls.len())));
        if !calls.is_empty() {
            let missing = calls.len();
            self.open = Some(UnansweredReply {
                item: self.items.len() - 1,
                reply_id: reply_id.clone(),
                calls,
                missing,
            });
        }
        Ok(())
    }

    /// Returns the calls of a new reply as open calls. Fails if the reply may not follow now, or has the same id twice.
    fn open_calls_of<'a>(
        &self,
        reply_id: &ReplyId,
        reply_calls: impl Iterator<Item = &'a ToolCall>,
    ) -> Result<Vec<OpenCall>, HistoryError> {
        if self.open.is_some() {
            return Err(HistoryError::CallsOpen { reply_id: reply_id.clone() });
        }
        let mut calls: Vec<OpenCall> = Vec::new();
        for call in reply_calls {
            if calls.iter().any(|other| other.call_id == call.id) {
                let (reply_id, call_id) = (reply_id.clone(), call.id.clone());
                return Err(HistoryError::SameId { reply_id, call_id });
            }
            let (call_id, tool) = (call.id.clone(), call.name.clone());
            calls.push(OpenCall { call_id, tool, started: false, snapshot: None });
        }
        Ok(calls)
    }

    /// Returns the position of an open call: the index of its reply's item, and its index among the reply's calls.
    fn open_slot(&self, call_id: &CallId) -> Result<(usize, usize), HistoryError> {
        let not_open = || HistoryError::NotOpen { call_id: call_id.clone() };
        let open = self.open.as_ref().ok_or_else(not_open)?;
        let position =
            open.calls.iter().position(|call| call.call_id == *call_id).ok_or_else(not_open)?;
        match self.items.get(open.item) {
            Some(HistoryItem::Reply(reply))
                if matches!(reply.answers.get(position), Some(None)) =>
            {
                Ok((open.item, position))
            }
            _ => Err(not_open()),
        }
    }

    fn answer(&mut self, call_id: &CallId, answer: CallAnswer) -> Result<(), HistoryError> {
        let not_open = || HistoryError::NotOpen { call_id: call_id.clone() };
        let (item, position) = self.open_slot(call_id)?;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let Some(HistoryItem::Reply(reply)) = self.items.get_mut(item) else {
            return Err(not_open());
        };
        *reply.answers.get_mut(position).ok_or_else(not_open)? = Some(answer);
        open.missing -= 1;
        // The last result closes the reply: results first, then the user messages that waited for them.
        if open.missing == 0 {
            self.messages.extend(reply.close());
            self.open = None;
            self.messages.append(&mut self.waiting);
        }
        Ok(())
    }
}

/// Marks a reviewer's text, so that the model never takes it for the user's.
fn marked_content(source: InputSource, block: &Block) -> Block {
    match (source, block) {
        (InputSource::Reviewer, Block::Text { text }) => {
            Block::text(wrap_in_tag("review", "the reviewer, not the user", text))
        }
        (
            InputSource::Prompt
            | InputSource::Steering
            | InputSource::ControlFlow
            | InputSource::Generator,
            _,
        )
        | (InputSource::Reviewer, Block::Image(_)) => block.clone(),
    }
}
