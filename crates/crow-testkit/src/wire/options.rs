//! Options of the rendering of a reply.

use super::DeltaSize;

/// Options of a rendered stream; the server derives most of them from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireOptions {
    /// Model name in the stream.
    pub model: String,
    /// Number from which the ids of this reply are made unique.
    pub serial: usize,
    /// Size of the deltas of texts and arguments.
    pub pieces: DeltaSize,
    /// Variant of the Chat dialect.
    pub chat: ChatFlavour,
    /// Presence of the usage chunk at the end of a Chat stream (`stream_options.include_usage`).
    pub usage: UsageChunk,
    /// Presence of encrypted reasoning in a Responses stream (`include: ["reasoning.encrypted_content"]`).
    pub encrypted: EncryptedReasoning,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            model: "test-model".to_owned(),
            serial: 0,
            pieces: DeltaSize::default(),
            chat: ChatFlavour::default(),
            usage: UsageChunk::Sent,
            encrypted: EncryptedReasoning::Sent,
        }
    }
}

/// Variants of the Chat Completions dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChatFlavour {
    /// `OpenAI` itself: reasoning is counted but never included.
    #[default]
    OpenAi,
    /// `DeepSeek`, llama.cpp, `vLLM`: `reasoning_content`, no signature.
    ReasoningContent,
    /// `OpenRouter`: `reasoning` and `reasoning_details`, comments while waiting, `native_finish_reason`.
    OpenRouter,
}

/// Presence of the usage chunk at the end of a Chat stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// Sent, as requested.
    Sent,
    /// Omitted, since it was not requested.
    Omitted,
}

/// Presence of encrypted content in reasoning items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptedReasoning {
    /// Sent, as requested.
    Sent,
    /// Omitted, since it was not requested.
    Omitted,
}
