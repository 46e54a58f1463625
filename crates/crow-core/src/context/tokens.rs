//! Estimation of a request's tokens before the provider reports them, by the classes of its characters.
//!
//! Tokenizers join letters to words and cut everything else short: a token is four to five characters of prose, but one
//! and a half of base64. The costs were measured with `o200k_base`; other tokenizers differ mostly by a constant factor.

use std::sync::Arc;

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
        PER_ITEM + estimate(&tool.name) + estimate(&tool.description) + estimate(&parameters)
    }

    /// Estimates a block of a reply, without correction.
    pub fn reply_block(block: &ReplyBlock) -> u64 {
        reply_block_tokens(block)
    }

    /// Estimates a text.
    pub fn text(&self, text: &str) -> u64 {
        self.corrected(estimate(text))
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
    tools.iter().map(TokenEstimator::tool).sum::<u64>() + estimate(system)
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
        Block::Text { text } => estimate(text),
        Block::Image(_) => PER_IMAGE,
    });
    tokens.sum()
}

fn reply_tokens(message: &AssistantMessage) -> u64 {
    message.blocks.iter().map(reply_block_tokens).sum()
}

fn reply_block_tokens(block: &ReplyBlock) -> u64 {
    match &block.content {
        ReplyContent::Text { text } | ReplyContent::Thinking { text } => estimate(text),
        ReplyContent::Call(call) => {
            let arguments = match &call.arguments {
                CallArguments::Json(value) => estimate(&value.to_string()),
                CallArguments::Malformed(text) => estimate(text),
            };
            PER_ITEM + estimate(&call.name) + arguments
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

/// One token, in the unit of the sums below.
const TOKEN: u64 = 1000;

/// Cost of a character by its class, in thousandths of a token.
mod cost {
    use super::TOKEN;

    /// A letter of a word in Latin script.
    pub(super) const LETTER: u64 = TOKEN * 10 / 47;
    /// A capital after a capital.
    pub(super) const CAPITAL: u64 = TOKEN * 10 / 27;
    /// A Cyrillic letter or one with an accent.
    pub(super) const EUROPEAN: u64 = TOKEN * 10 / 33;
    /// A letter of another alphabet.
    pub(super) const FOREIGN: u64 = TOKEN * 10 / 25;
    /// A Chinese, Japanese or Korean character.
    pub(super) const IDEOGRAPH: u64 = TOKEN * 10 / 16;
    pub(super) const DIGIT: u64 = TOKEN * 10 / 23;
    pub(super) const PUNCTUATION: u64 = TOKEN * 10 / 22;
    /// A symbol or picture.
    pub(super) const SYMBOL: u64 = TOKEN * 13 / 10;
    /// A repetition of the same punctuation or symbol, as in a rule or box.
    pub(super) const REPEATED: u64 = TOKEN / 8;
    /// A letter or digit of base64, a hash or a hexadecimal number.
    pub(super) const NOISE: u64 = TOKEN * 100 / 145;
}

/// The class of a character for a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Lower,
    Upper,
    Digit,
    European,
    Foreign,
    Ideograph,
    Punctuation,
    Symbol,
    Blank,
    LineEnd,
}

impl CharClass {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            '\n' | '\r' => Self::LineEnd,
            ' ' | '\t' => Self::Blank,
            '\0'..='\u{7f}' => Self::Punctuation,
            '\u{1100}'..='\u{11ff}'
            | '\u{3000}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => Self::Ideograph,
            '\u{80}'..='\u{24f}' | '\u{400}'..='\u{52f}' if c.is_alphabetic() => Self::European,
            _ if c.is_alphabetic() => Self::Foreign,
            _ if c.is_whitespace() => Self::Blank,
            _ => Self::Symbol,
        }
    }

    fn is_word(self) -> bool {
        matches!(self, Self::Lower | Self::Upper | Self::Digit)
    }
}

/// A run of letters and digits: a word, a name, a number or noise.
#[derive(Debug, Default)]
struct AlphanumericRun {
    letters: u64,
    /// Capitals after capitals.
    capitals: u64,
    digits: u64,
    /// Number of changes between lower case, upper case and digits.
    changes: u64,
}

impl AlphanumericRun {
    fn push(&mut self, class: CharClass, before: CharClass) {
        // Lower case after a capital does not count as a change: words begin so.
        let is_capital = before == CharClass::Upper && class == CharClass::Lower;
        if before.is_word() && before != class && !is_capital {
            self.changes += 1;
        }
        if class == CharClass::Digit {
            self.digits += 1;
        } else if class == CharClass::Upper && before == CharClass::Upper {
            self.capitals += 1;
        } else {
            self.letters += 1;
        }
    }

    fn cost(&self) -> u64 {
        let length = self.letters + self.capitals + self.digits;
        if self.changes * 3 > length {
            // Random characters change their class at nearly every second position, camelCase at every fifth.
            length * cost::NOISE
        } else if self.digits == length {
            self.digits.div_ceil(3) * TOKEN
        } else {
            let letters = self.letters * cost::LETTER + self.capitals * cost::CAPITAL;
            (letters + self.digits * cost::DIGIT).max(TOKEN)
        }
    }
}

/// Estimates the tokens of a text. Linear in its length.
fn estimate(text: &str) -> u64 {
    let mut sum: u64 = 0;
    let mut word = AlphanumericRun::default();
    let (mut last, mut before, mut blanks) = ('\n', CharClass::LineEnd, 0u32);
    for c in text.chars() {
        let class = CharClass::of(c);
        if class.is_word() {
            // A blank belongs to the token of the word after it, but not to that of a number.
            sum += if before == CharClass::Blank && class == CharClass::Digit { TOKEN } else { 0 };
            word.push(class, before);
        } else {
            sum += std::mem::take(&mut word).cost();
        }
        blanks = if class == CharClass::Blank { blanks + 1 } else { 0 };
        sum += match class {
            CharClass::European => cost::EUROPEAN,
            CharClass::Foreign => cost::FOREIGN,
            CharClass::Ideograph => cost::IDEOGRAPH,
            CharClass::Punctuation | CharClass::Symbol if c == last => cost::REPEATED,
            CharClass::Punctuation => cost::PUNCTUATION,
            CharClass::Symbol => cost::SYMBOL,
            // Of any number of blanks, all but the last are one token.
            CharClass::Blank if blanks == 2 => TOKEN,
            CharClass::Lower | CharClass::Upper | CharClass::Digit | CharClass::Blank => 0,
            // A line end belongs to the token of the punctuation and the line ends before it.
            CharClass::LineEnd if matches!(before, CharClass::Punctuation | CharClass::LineEnd) => {
                0
            }
            CharClass::LineEnd => TOKEN,
        };
        (last, before) = (c, class);
    }
    (sum + word.cost()).div_ceil(TOKEN)
}
