//! Summaries of a part of a conversation.

use async_trait::async_trait;

/// Writes summaries, with a model or without one.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Returns a summary of a transcript, at most about `max_tokens` long.
    ///
    /// # Errors
    /// Fails with the reason if there is none.
    async fn summarize(&self, transcript: &str, max_tokens: u64) -> Result<String, String>;
}
