//! The division of a request among its owners.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use crow_core::{
    context::{TokenEstimator, blocks_bytes, reply_block_bytes},
    event::RequestPrefix,
    history::{has_instructions, is_summary, is_user_input},
    ids::{CallId, MessageId},
    message::{Block, Message, ReplyContent, ToolCall, UserMessage},
};

use crate::{TokenCounter, compaction::WindowLimits};

/// Number of outputs that [`ContextUsage::largest`] lists.
const LARGEST: usize = 5;

/// The owner of a part of a request. Ordered as the parts come in a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContextOwner {
    /// The system prompt.
    SystemPrompt,
    /// The definitions of the tools.
    ToolDefinitions,
    /// What the loop put before the user's words: instructions of the project, facts about the environment.
    Preface,
    /// Summaries of what compactions left out.
    Summary,
    /// What the user, or another agent in the user's place, wrote.
    UserMessages,
    /// Notices of the program to the model.
    Notices,
    /// The texts of the model.
    Replies,
    /// The reasoning of the model that is sent back to it.
    Reasoning,
    /// Calls of this tool.
    Calls(String),
    /// Outputs of this tool.
    Outputs(String),
}

impl ContextOwner {
    /// Returns a word for the kind of owner, the same for all tools: `calls`, for example.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SystemPrompt => "system_prompt",
            Self::ToolDefinitions => "tool_definitions",
            Self::Preface => "preface",
            Self::Summary => "summary",
            Self::UserMessages => "user_messages",
            Self::Notices => "notices",
            Self::Replies => "replies",
            Self::Reasoning => "reasoning",
            Self::Calls(_) => "calls",
            Self::Outputs(_) => "outputs",
        }
    }

    /// Returns the tool, of calls and outputs.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Calls(tool) | Self::Outputs(tool) => Some(tool),
            Self::SystemPrompt
            | Self::ToolDefinitions
            | Self::Preface
            | Self::Summary
            | Self::UserMessages
            | Self::Notices
            | Self::Replies
            | Self::Reasoning => None,
        }
    }
}

impl fmt::Display for ContextOwner {
    /// Writes a few words for people, such as `outputs of bash`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SystemPrompt => f.write_str("system prompt"),
            Self::ToolDefinitions => f.write_str("tool definitions"),
            Self::Preface => f.write_str("instructions, environment"),
            Self::Summary => f.write_str("summary of earlier work"),
            Self::UserMessages => f.write_str("messages to the agent"),
            Self::Notices => f.write_str("notices to the model"),
            Self::Replies => f.write_str("texts of the model"),
            Self::Reasoning => f.write_str("reasoning of the model"),
            Self::Calls(tool) => write!(f, "calls of {tool}"),
            Self::Outputs(tool) => write!(f, "outputs of {tool}"),
        }
    }
}

/// The part of a request that belongs to one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextShare {
    /// The owner.
    pub owner: ContextOwner,
    /// Number of messages, calls or tools.
    pub count: usize,
    /// Its tokens.
    pub tokens: u64,
    /// Those of its tokens that the provider had in its cache after the last request, or has since.
    pub cached: u64,
    /// Its bytes in the body of the request, without the JSON around its contents.
    pub bytes: u64,
}

/// An output that takes much of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeOutput {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Its tokens.
    pub tokens: u64,
}

/// What fills the window of a session: the next request, divided among its owners.
///
/// Token numbers are estimates, scaled so that those of the last request add up to what the provider counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextUsage {
    /// The window of the model in tokens, if it is known.
    pub window: Option<u64>,
    /// The length at which a request is compacted first, if the window is known.
    pub compaction_at: Option<u64>,
    /// Tokens of the next request.
    pub tokens: u64,
    /// The owners with their shares, in the order of [`ContextOwner`].
    pub shares: Vec<ContextShare>,
    /// The largest outputs, the largest first.
    pub largest: Vec<LargeOutput>,
    /// Bytes of the body of a request that belong to no owner: the JSON around the contents, ids, and the parameters of
    /// the request. None of a request whose length the log does not tell.
    pub format_bytes: Option<u64>,
}

/// The last request as the provider counted it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastRequest {
    /// Number of its messages.
    pub(super) messages: usize,
    /// Its tokens as the provider counted them; 0 if it did not.
    pub(super) input_tokens: u64,
    /// Its first tokens that the provider had in its cache afterwards.
    pub(super) cached: u64,
    /// The length of its body.
    pub(super) bytes: Option<u64>,
}

/// A part of a request, in the order in which it is sent.
#[derive(Debug)]
struct RequestPart {
    owner: ContextOwner,
    /// Number of messages, calls or tools.
    count: usize,
    /// Its tokens, estimated.
    estimate: u64,
    /// Bytes of its contents.
    bytes: u64,
    /// The call, of an output.
    output_of: Option<CallId>,
}

/// Collects the parts of a request.
struct RequestParts<'a> {
    counter: &'a dyn TokenCounter,
    parts: Vec<RequestPart>,
}

impl ContextUsage {
    /// Divides a request among its owners. `prefaced` are the messages whose first block is a preface.
    pub(super) fn new(
        prefix: Option<&RequestPrefix>,
        messages: &[Arc<Message>],
        prefaced: &HashSet<MessageId>,
        counter: &dyn TokenCounter,
        last: LastRequest,
    ) -> Self {
        // 1) The parts, in the order of the request.
        let mut request = RequestParts { counter, parts: Vec::new() };
        if let Some(prefix) = prefix {
            let (tokens, bytes) = prefix.tools.values().fold((0, 0), |(tokens, bytes), tool| {
                (tokens + tool.tokens, bytes + tool.bytes.unwrap_or_default())
            });
            request.add(ContextOwner::ToolDefinitions, prefix.tools.len(), tokens, bytes);
            let system = &prefix.system;
            let bytes = system.bytes.unwrap_or_default();
            request.add(ContextOwner::SystemPrompt, 1, system.tokens, bytes);
        }
        let (sent, later) = messages.split_at(last.messages.min(messages.len()));
        for message in sent {
            request.add_message(message, prefaced);
        }
        // 2) The factor between the estimates and what the provider counted.
        let estimated: u64 = request.parts.iter().map(|part| part.estimate).sum();
        let is_counted = last.input_tokens > 0 && estimated > 0;
        let scale = if is_counted { (last.input_tokens, estimated) } else { (1, 1) };
        for message in later {
            request.add_message(message, prefaced);
        }
        // 3) The same for bytes. Contents take less than the body, unless the service is sent some in another form, such
        //    as no pictures; then they are scaled, too.
        let content_bytes: u64 = request.parts.iter().map(|part| part.bytes).sum();
        let body_bytes = last.bytes.filter(|_| later.is_empty() && has_prefix_bytes(prefix));
        let format_bytes = body_bytes.map(|body| body.saturating_sub(content_bytes));
        let byte_scale = match body_bytes {
            Some(body) if body < content_bytes => (body, content_bytes),
            Some(_) | None => (1, 1),
        };
        // 4) The shares. Ends are rounded, not lengths: so they add up to what was counted.
        let mut shares: BTreeMap<ContextOwner, ContextShare> = BTreeMap::new();
        let mut largest = Vec::new();
        let (mut position, mut begin) = (0_u64, 0_u64);
        let (mut byte_position, mut byte_begin) = (0_u64, 0_u64);
        for RequestPart { owner, count, estimate, bytes, output_of } in request.parts {
            position = position.saturating_add(estimate);
            let end = scaled(position, scale);
            let (tokens, cached) = (end - begin, end.min(last.cached) - begin.min(last.cached));
            begin = end;
            byte_position += bytes;
            let byte_end = scaled(byte_position, byte_scale);
            let bytes = byte_end - byte_begin;
            byte_begin = byte_end;
            if let (Some(call_id), Some(tool)) = (output_of, owner.tool()) {
                largest.push(LargeOutput { call_id, tool: tool.to_owned(), tokens });
            }
            let share = shares.entry(owner.clone()).or_insert(ContextShare {
                owner,
                count: 0,
                tokens: 0,
                cached: 0,
                bytes: 0,
            });
            share.count += count;
            share.tokens += tokens;
            share.cached += cached;
            share.bytes += bytes;
        }
        largest.sort_by_key(|output: &LargeOutput| Reverse(output.tokens));
        largest.truncate(LARGEST);
        let window = prefix.and_then(|prefix| prefix.window);
        Self {
            window,
            compaction_at: window.map(|window| WindowLimits::new(window, None).trigger),
            tokens: begin,
            shares: shares.into_values().collect(),
            largest,
            format_bytes,
        }
    }

    /// Returns the tokens of the next request that the provider is likely to have in its cache.
    pub fn cached(&self) -> u64 {
        self.shares.iter().map(|share| share.cached).sum()
    }
}

/// Returns true if the log tells the bytes of system prompt and tools.
fn has_prefix_bytes(prefix: Option<&RequestPrefix>) -> bool {
    prefix.is_some_and(|prefix| prefix.system.bytes.is_some())
}

/// Returns an estimate times a factor, which is a fraction.
fn scaled(estimate: u64, (of, estimated): (u64, u64)) -> u64 {
    let product = u128::from(estimate) * u128::from(of) / u128::from(estimated);
    u64::try_from(product).unwrap_or(u64::MAX)
}

impl RequestParts<'_> {
    fn add(&mut self, owner: ContextOwner, count: usize, estimate: u64, bytes: u64) {
        self.parts.push(RequestPart { owner, count, estimate, bytes, output_of: None });
    }

    fn add_message(&mut self, message: &Message, prefaced: &HashSet<MessageId>) {
        match message {
            Message::User(user) => {
                let owner = if is_summary(message) {
                    ContextOwner::Summary
                } else if has_instructions(message) {
                    ContextOwner::Preface
                } else if is_user_input(message) {
                    ContextOwner::UserMessages
                } else {
                    ContextOwner::Notices
                };
                let whole = self.counter.message(message);
                let preface = user.content.first().filter(|_| prefaced.contains(&user.id));
                let preface = preface.map(|block| {
                    let tokens = self.of_block(&user.id, block).min(whole);
                    (tokens, blocks_bytes(std::slice::from_ref(block)))
                });
                if let Some((tokens, bytes)) = preface {
                    self.add(ContextOwner::Preface, 1, tokens, bytes);
                }
                let (tokens, bytes) = preface.unwrap_or_default();
                self.add(owner, 1, whole - tokens, blocks_bytes(&user.content) - bytes);
            }
            Message::Assistant(reply) => {
                for block in &reply.blocks {
                    let estimate = TokenEstimator::reply_block(block);
                    let owner = match &block.content {
                        ReplyContent::Text { .. } => ContextOwner::Replies,
                        ReplyContent::Thinking { .. } | ReplyContent::Opaque => {
                            ContextOwner::Reasoning
                        }
                        ReplyContent::Call(ToolCall { name, .. }) => {
                            ContextOwner::Calls(name.clone())
                        }
                    };
                    self.add(owner, 1, estimate, reply_block_bytes(block));
                }
            }
            Message::Results(results) => {
                for result in &results.results {
                    let estimate = self.counter.result(result);
                    self.parts.push(RequestPart {
                        owner: ContextOwner::Outputs(result.tool.clone()),
                        count: 1,
                        estimate,
                        bytes: blocks_bytes(&result.content),
                        output_of: Some(result.call_id.clone()),
                    });
                }
            }
        }
    }

    fn of_block(&self, id: &MessageId, block: &Block) -> u64 {
        let message = UserMessage { id: id.clone(), content: vec![block.clone()] };
        self.counter.message(&Message::User(message))
    }
}
