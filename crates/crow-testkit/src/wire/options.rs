//! What a rendering depends on besides the reply.

use super::Pieces;

/// How the stream is rendered; the server derives most of it from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireOptions {
    /// The model's name, as it stands in the stream.
    pub model: String,
    /// A number that makes the ids of this reply distinct.
    pub serial: usize,
    /// How texts and arguments are cut.
    pub pieces: Pieces,
    /// Which speaker of the Chat dialect is imitated.
    pub chat: ChatFlavour,
    /// Whether a Chat stream ends with a usage chunk (`stream_options.include_usage`).
    pub usage: UsageChunk,
    /// Whether a Responses stream carries encrypted reasoning (`include: ["reasoning.encrypted_content"]`).
    pub encrypted: EncryptedReasoning,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            model: "test-model".to_owned(),
            serial: 0,
            pieces: Pieces::default(),
            chat: ChatFlavour::default(),
            usage: UsageChunk::Sent,
            encrypted: EncryptedReasoning::Sent,
        }
    }
}

/// A speaker of the Chat Completions dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChatFlavour {
    /// `OpenAI` itself: reasoning is counted and never shown.
    #[default]
    OpenAi,
    /// `DeepSeek`, llama.cpp, `vLLM`: `reasoning_content`, no signature.
    ReasoningContent,
    /// `OpenRouter`: `reasoning` and `reasoning_details`, comments while waiting, `native_finish_reason`.
    OpenRouter,
}

/// Whether a Chat stream ends with a usage chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// It was asked for.
    Sent,
    /// It was not.
    Omitted,
}

/// Whether reasoning items carry their encrypted content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptedReasoning {
    /// It was asked for.
    Sent,
    /// It was not.
    Omitted,
}
