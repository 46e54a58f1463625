//! Counting of tokens.

use crow_core::{
    context::TokenEstimator,
    message::{Block, Message, ResultMessage},
};

/// Tokens of a picture. Providers count between 85 and 1,600 by its size, which is not known here.
const PER_IMAGE: u64 = 1500;

/// Counts the tokens of what a model is sent: exactly or by an estimate.
pub trait TokenCounter {
    /// Returns the tokens of a text.
    fn text(&self, text: &str) -> u64;

    /// Returns the tokens of a message.
    fn message(&self, message: &Message) -> u64;

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
