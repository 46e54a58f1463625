//! Estimation of a request's tokens before the provider reports them.

use std::sync::Arc;

use super::char_classes;
use crate::{
    ids::MessageId,
    message::{
        AssistantMessage, Block, CallArguments, Message, ReplyBlock, ReplyContent, ResultsMessage,
    },
    model::ToolDefinition,
    usage::TokenUsage,
};

/// Tokens of a message in addition to its content.
const PER_MESSAGE: u64 = 4;
/// Tokens of a call, a result or a tool in addition to its content.
const PER_ITEM: u64 = 8;
/// Tokens of a picture. Providers count between 85 and 1,600 by its size, which is not known here.
const PER_IMAGE: u64 = 1500;
/// Number of characters of an encrypted item per token: its decrypted content counts, not its text.
const ENCRYPTED_CHARACTERS: u64 = 5;

/// The factor 1, in the unit of the correction.
const UNIT_FACTOR: u64 = 1000;
/// Weight of the moving average: a new measurement counts one in this many.
const AVERAGE_WEIGHT: u64 = 4;
/// Minimum number of tokens of a request to measure the tokenizer: in smaller ones the provider's additions dominate.
const LEAST_MEASURED: u64 = 500;
/// Reports outside of the estimate divided or multiplied by this are considered incomplete and ignored.
const PLAUSIBLE_FACTOR: u64 = 4;

/// Estimates the tokens of a session's requests and calibrates itself by the provider's reports.
///
/// The tokens of a reported request are known; only messages after it are estimated. Each message is examined once,
/// so an estimate costs only as much as the new messages.
#[derive(Debug, Clone)]
pub struct TokenEstimator {
    /// The model's tokens per estimated token, in units of [`UNIT_FACTOR`].
    correction: u64,
    /// True once a report was used for the correction.
    has_learned: bool,
    /// The uncorrected estimate of the system prompt and the tools.
    fixed: u64,
    /// The uncorrected estimate of the messages up to each index, inclusive.
    sums: Vec<u64>,
    /// The last message counted in `sums`.
    last: Option<MessageId>,
    /// The last request that the provider counted.
    reported: Option<ProviderTokenCount>,
}

/// A request that the provider counted, with its uncorrected estimate.
#[derive(Debug, Clone, Copy)]
struct ProviderTokenCount {
    input_tokens: u64,
    estimated: u64,
}

impl TokenEstimator {
    /// Makes an estimator for requests with that system prompt and those tools.
    pub fn new(system: &str, tools: &[ToolDefinition]) -> Self {
        Self {
            correction: UNIT_FACTOR,
            has_learned: false,
            fixed: fixed(system, tools),
            sums: Vec::new(),
            last: None,
            reported: None,
        }
    }

    /// Restarts after messages, system prompt or tools changed. Retains the correction.
    pub fn restart(&mut self, system: &str, tools: &[ToolDefinition]) {
        self.fixed = fixed(system, tools);
        self.forget_messages();
    }

    /// Starts over with messages that replace those before, as after a compaction. Retains the correction.
    pub fn restart_messages(&mut self) {
        self.forget_messages();
    }

    /// Estimates system prompt and tools.
    pub fn fixed(&self) -> u64 {
        self.corrected(self.fixed)
    }

    /// Estimates the definition of a tool, without correction.
    pub fn tool(tool: &ToolDefinition) -> u64 {
        let parameters = tool.parameters.to_string();
        PER_ITEM
            + char_classes::estimate(&tool.name)
            + char_classes::estimate(&tool.description)
            + char_classes::estimate(&parameters)
    }

    /// Estimates a block of a reply, without correction.
    pub fn reply_block(block: &ReplyBlock) -> u64 {
        reply_block_tokens(block)
    }

    /// Estimates a text.
    pub fn text(&self, text: &str) -> u64 {
        self.corrected(char_classes::estimate(text))
    }

    /// Estimates one message.
    pub fn message(&self, message: &Message) -> u64 {
        self.corrected(message_tokens(message))
    }

    /// Estimates the output of a reply.
    pub fn reply(&self, blocks: &[ReplyBlock]) -> u64 {
        self.corrected(blocks.iter().map(reply_block_tokens).sum())
    }

    /// Estimates the input of a request with these messages: those of the last request, and possibly more.
    pub fn request(&mut self, messages: &[Arc<Message>]) -> u64 {
        let estimated = self.count(messages);
        match self.reported {
            Some(reported) => {
                let more = self.corrected(estimated.saturating_sub(reported.estimated));
                let less = self.corrected(reported.estimated.saturating_sub(estimated));
                reported.input_tokens.saturating_add(more).saturating_sub(less)
            }
            None => self.corrected(estimated),
        }
    }

    /// Records the provider's count of a request that contained the first `sent` of the messages last estimated.
    pub fn on_usage(&mut self, sent: usize, usage: &TokenUsage) {
        let messages = match sent.checked_sub(1) {
            Some(last) => self.sums.get(last).copied(),
            None => Some(0),
        };
        let Some(messages) = messages else { return };
        let (estimated, input_tokens) = (self.fixed.saturating_add(messages), usage.input_tokens);
        let is_plausible = input_tokens >= estimated / PLAUSIBLE_FACTOR
            && input_tokens <= estimated.saturating_mul(PLAUSIBLE_FACTOR)
            && input_tokens > 0;
        if !is_plausible {
            return;
        }
        self.reported = Some(ProviderTokenCount { input_tokens, estimated });
        if estimated < LEAST_MEASURED {
            return;
        }
        let measured = input_tokens.saturating_mul(UNIT_FACTOR) / estimated;
        self.correction = if self.has_learned {
            (self.correction * (AVERAGE_WEIGHT - 1) + measured) / AVERAGE_WEIGHT
        } else {
            measured
        };
        self.has_learned = true;
    }

    /// Returns the uncorrected estimate of a request. Starts over if the messages counted so far were replaced.
    fn count(&mut self, messages: &[Arc<Message>]) -> u64 {
        let counted = self.sums.len();
        let last_counted = counted.checked_sub(1).and_then(|index| messages.get(index));
        if counted > 0 && last_counted.map(|message| message.id()) != self.last.as_ref() {
            self.forget_messages();
        }
        for message in messages.iter().skip(self.sums.len()) {
            let sum = self.sums.last().copied().unwrap_or(0);
            self.sums.push(sum.saturating_add(message_tokens(message)));
            self.last = Some(message.id().clone());
        }
        self.fixed.saturating_add(self.sums.last().copied().unwrap_or(0))
    }

    fn forget_messages(&mut self) {
        self.sums.clear();
        self.last = None;
        self.reported = None;
    }

    fn corrected(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.correction).div_ceil(UNIT_FACTOR)
    }
}

fn fixed(system: &str, tools: &[ToolDefinition]) -> u64 {
    tools.iter().map(TokenEstimator::tool).sum::<u64>() + char_classes::estimate(system)
}

fn message_tokens(message: &Message) -> u64 {
    let content = match message {
        Message::User(message) => blocks_tokens(&message.content),
        Message::Assistant(message) => reply_tokens(message),
        Message::Results(message) => results_tokens(message),
    };
    content + PER_MESSAGE
}

fn blocks_tokens(blocks: &[Block]) -> u64 {
    let tokens = blocks.iter().map(|block| match block {
        Block::Text { text } => char_classes::estimate(text),
        Block::Image(_) => PER_IMAGE,
    });
    tokens.sum()
}

fn reply_tokens(message: &AssistantMessage) -> u64 {
    message.blocks.iter().map(reply_block_tokens).sum()
}

fn reply_block_tokens(block: &ReplyBlock) -> u64 {
    match &block.content {
        ReplyContent::Text { text } | ReplyContent::Thinking { text } => {
            char_classes::estimate(text)
        }
        ReplyContent::Call(call) => {
            let arguments = match &call.arguments {
                CallArguments::Json(value) => char_classes::estimate(&value.to_string()),
                CallArguments::Malformed(text) => char_classes::estimate(text),
            };
            PER_ITEM + char_classes::estimate(&call.name) + arguments
        }
        ReplyContent::Opaque => {
            let characters = block.native_item().map_or(0, |item| item.to_string().len() as u64);
            characters / ENCRYPTED_CHARACTERS
        }
    }
}

fn results_tokens(message: &ResultsMessage) -> u64 {
    message.results.iter().map(|result| PER_ITEM + blocks_tokens(&result.content)).sum()
}
