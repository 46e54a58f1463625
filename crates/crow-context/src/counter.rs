//! Counting of tokens.

use std::{fmt, sync::Arc};

use crow_core::{
    context::TokenEstimator,
    message::{Block, Message, ReplyContent, ResultMessage},
};

/// Tokens of a picture. Providers count between 85 and 1,600 by its size, which is not known here.
const PER_IMAGE: u64 = 1500;

/// Tokens of a message in addition to its content.
const PER_MESSAGE: u64 = 4;

/// Counts the tokens of what a model is sent: exactly or by an estimate.
pub trait TokenCounter: Send + Sync {
    /// Returns the tokens of a text.
    fn text(&self, text: &str) -> u64;

    /// Returns the tokens of a message: by default those of its texts and some for its form.
    fn message(&self, message: &Message) -> u64 {
        let block = |block: &Block| match block {
            Block::Text { text } => self.text(text),
            Block::Image(_) => PER_IMAGE,
        };
        let content = match message {
            Message::User(user) => user.content.iter().map(block).sum::<u64>(),
            Message::Assistant(reply) => reply
                .blocks
                .iter()
                .map(|block| match &block.content {
                    ReplyContent::Text { text } | ReplyContent::Thinking { text } => {
                        self.text(text)
                    }
                    ReplyContent::Call(call) => {
                        self.text(&call.name) + self.text(&call.arguments.to_object().to_string())
                    }
                    ReplyContent::Opaque => {
                        block.native_item().map_or(0, |item| self.text(&item.to_string()))
                    }
                })
                .sum(),
            Message::Results(results) => {
                results.results.iter().map(|result| self.result(result)).sum()
            }
        };
        content + PER_MESSAGE
    }

    /// Returns the tokens of the content of one result.
    fn result(&self, result: &ResultMessage) -> u64 {
        let tokens = result.content.iter().map(|block| match block {
            Block::Text { text } => self.text(text),
            Block::Image(_) => PER_IMAGE,
        });
        tokens.sum()
    }
}

impl TokenCounter for TokenEstimator {
    fn text(&self, text: &str) -> u64 {
        Self::text(self, text)
    }

    fn message(&self, message: &Message) -> u64 {
        Self::message(self, message)
    }
}

/// Counts tokens by a function of the text.
#[derive(Clone)]
pub struct TextCounter(Arc<dyn Fn(&str) -> u64 + Send + Sync>);

impl TextCounter {
    /// Makes a counter of a function.
    pub fn new(count: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }
}

impl TokenCounter for TextCounter {
    fn text(&self, text: &str) -> u64 {
        (self.0)(text)
    }
}

impl fmt::Debug for TextCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextCounter").finish_non_exhaustive()
    }
}
