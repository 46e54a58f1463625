//! The division of a request among its owners.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use crow_core::{
    context::TokenEstimator,
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
}

/// Collects shares in the order of the request.
struct ShareBuilder<'a> {
    counter: &'a dyn TokenCounter,
    last: LastRequest,
    /// Factor of the estimates, as a fraction.
    scale: (u64, u64),
    /// Tokens so far.
    tokens: u64,
    shares: BTreeMap<ContextOwner, ContextShare>,
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
        // 1) The factor between the estimates and what the provider counted.
        let sent = &messages[..last.messages.min(messages.len())];
        let fixed = prefix.map_or(0, RequestPrefix::tokens);
        let estimated = fixed + sent.iter().map(|message| counter.message(message)).sum::<u64>();
        let is_counted = last.input_tokens > 0 && estimated > 0;
        let scale = if is_counted { (last.input_tokens, estimated) } else { (1, 1) };
        // 2) The parts, in the order of the request.
        let shares = BTreeMap::new();
        let mut builder = ShareBuilder { counter, last, scale, tokens: 0, shares };
        if let Some(prefix) = prefix {
            let tools = prefix.tools.values().map(|tool| tool.tokens).sum();
            builder.add(ContextOwner::ToolDefinitions, prefix.tools.len(), tools);
            builder.add(ContextOwner::SystemPrompt, 1, prefix.system.tokens);
        }
        let mut largest = Vec::new();
        for message in messages {
            builder.add_message(message, prefaced, &mut largest);
        }
        largest.sort_by_key(|output: &LargeOutput| Reverse(output.tokens));
        largest.truncate(LARGEST);
        let window = prefix.and_then(|prefix| prefix.window);
        Self {
            window,
            compaction_at: window.map(|window| WindowLimits::new(window, None).trigger),
            tokens: builder.tokens,
            shares: builder.shares.into_values().collect(),
            largest,
        }
    }

    /// Returns the tokens of the next request that the provider is likely to have in its cache.
    pub fn cached(&self) -> u64 {
        self.shares.iter().map(|share| share.cached).sum()
    }
}

impl ShareBuilder<'_> {
    /// Adds an estimate to an owner, and returns its scaled tokens.
    fn add(&mut self, owner: ContextOwner, count: usize, estimate: u64) -> u64 {
        let (of, estimated) = self.scale;
        let tokens = estimate.saturating_mul(of).div_ceil(estimated);
        let cached = self.last.cached.saturating_sub(self.tokens).min(tokens);
        self.tokens += tokens;
        let share = self.shares.entry(owner.clone()).or_insert(ContextShare {
            owner,
            count: 0,
            tokens: 0,
            cached: 0,
        });
        share.count += count;
        share.tokens += tokens;
        share.cached += cached;
        tokens
    }

    fn add_message(
        &mut self,
        message: &Message,
        prefaced: &HashSet<MessageId>,
        largest: &mut Vec<LargeOutput>,
    ) {
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
                let preface = preface.map_or(0, |block| self.of_block(&user.id, block)).min(whole);
                if preface > 0 {
                    self.add(ContextOwner::Preface, 1, preface);
                }
                self.add(owner, 1, whole - preface);
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
                    self.add(owner, 1, estimate);
                }
            }
            Message::Results(results) => {
                for result in &results.results {
                    let estimate = self.counter.result(result);
                    let tool = result.tool.clone();
                    let tokens = self.add(ContextOwner::Outputs(tool.clone()), 1, estimate);
                    largest.push(LargeOutput { call_id: result.call_id.clone(), tool, tokens });
                }
            }
        }
    }

    fn of_block(&self, id: &MessageId, block: &Block) -> u64 {
        let message = UserMessage { id: id.clone(), content: vec![block.clone()] };
        self.counter.message(&Message::User(message))
    }
}
