//! How many tokens a request takes, before the provider says so.

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

/// What a message costs beside its content.
const PER_MESSAGE: u64 = 4;
/// What a call, a result or a tool costs beside its content.
const PER_ITEM: u64 = 8;
/// What a picture costs. Providers count between 85 and 1,600 tokens by its size, which is not known here.
const PER_IMAGE: u64 = 1500;
/// How many characters of an encrypted item are a token: it is paid by what it holds, not by its text.
const ENCRYPTED_CHARACTERS: u64 = 5;

/// One, in the unit of the correction.
const ONE: u64 = 1000;
/// The part of a new measurement in the moving average: one in this many.
const MEMORY: u64 = 4;
/// Requests below this many tokens do not tell how the tokenizer differs: what the provider adds weighs too much.
const TELLING: u64 = 500;
/// A provider that reports less than the estimate divided by this, or more than it times this, does not report all.
const PLAUSIBLE: u64 = 4;

/// Estimates the tokens of a session's requests and learns from what the provider reports.
///
/// What a reported request held is known; only what came after it is estimated. Each message is looked at once, so an
/// estimate costs as much as what is new.
#[derive(Debug, Clone)]
pub struct TokenEstimator {
    /// How many tokens the model counts where the estimate says [`ONE`].
    correction: u64,
    has_learned: bool,
    /// The uncorrected estimate of the system prompt and the tools.
    fixed: u64,
    /// The uncorrected estimate of the first messages, by their number less one.
    sums: Vec<u64>,
    last: Option<MessageId>,
    reported: Option<ProviderTokenCount>,
}

/// A request that the provider counted.
#[derive(Debug, Clone, Copy)]
struct ProviderTokenCount {
    input_tokens: u64,
    estimated: u64,
}

impl TokenEstimator {
    /// Makes an estimator for requests with that system prompt and those tools.
    pub fn new(system: &str, tools: &[ToolDefinition]) -> Self {
        Self {
            correction: ONE,
            has_learned: false,
            fixed: fixed(system, tools),
            sums: Vec::new(),
            last: None,
            reported: None,
        }
    }

    /// Begins anew after messages, system prompt or tools changed. What was learned about the tokenizer stays.
    pub fn restart(&mut self, system: &str, tools: &[ToolDefinition]) {
        self.fixed = fixed(system, tools);
        self.forget_messages();
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

    /// Estimates the input of a request with these messages, which are those of the last one and more.
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

    /// The provider counted a request that held the first `sent` of the messages that were last estimated.
    pub fn on_usage(&mut self, sent: usize, usage: &TokenUsage) {
        let messages = match sent.checked_sub(1) {
            Some(last) => self.sums.get(last).copied(),
            None => Some(0),
        };
        let Some(messages) = messages else { return };
        let (estimated, input_tokens) = (self.fixed.saturating_add(messages), usage.input_tokens);
        let is_plausible = input_tokens >= estimated / PLAUSIBLE
            && input_tokens <= estimated.saturating_mul(PLAUSIBLE)
            && input_tokens > 0;
        if !is_plausible {
            return;
        }
        self.reported = Some(ProviderTokenCount { input_tokens, estimated });
        if estimated < TELLING {
            return;
        }
        let measured = input_tokens.saturating_mul(ONE) / estimated;
        self.correction = if self.has_learned {
            (self.correction * (MEMORY - 1) + measured) / MEMORY
        } else {
            measured
        };
        self.has_learned = true;
    }

    /// Returns the uncorrected estimate of a request.
    fn count(&mut self, messages: &[Arc<Message>]) -> u64 {
        let counted = self.sums.len();
        let known = counted.checked_sub(1).and_then(|index| messages.get(index));
        if counted > 0 && known.map(|message| message.id()) != self.last.as_ref() {
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
        tokens.saturating_mul(self.correction).div_ceil(ONE)
    }
}

fn fixed(system: &str, tools: &[ToolDefinition]) -> u64 {
    let tools = tools.iter().map(|tool| {
        let parameters = tool.parameters.to_string();
        PER_ITEM
            + char_classes::estimate(&tool.name)
            + char_classes::estimate(&tool.description)
            + char_classes::estimate(&parameters)
    });
    tools.sum::<u64>() + char_classes::estimate(system)
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
