//! Families of wire formats, as those choose among them who route providers.

use crate::{dialect::Dialect, openai::ChatVariant};

/// A family of wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses or Chat Completions.
    OpenAi,
    /// Gemini's own.
    Gemini,
}

impl Protocol {
    /// Returns the family of a wire format.
    pub(crate) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::AnthropicMessages => Self::Anthropic,
            Dialect::OpenAiResponses | Dialect::OpenAiChat(_) => Self::OpenAi,
            Dialect::Gemini => Self::Gemini,
        }
    }

    /// Returns what can be spoken with a provider: its own first, then what gateways speak for any model.
    pub(crate) fn supported(own: Dialect) -> Vec<Self> {
        let own = Self::of(own);
        let others = [Self::Anthropic, Self::OpenAi].into_iter().filter(|other| *other != own);
        std::iter::once(own).chain(others).collect()
    }

    /// Returns the format to speak with a provider: its own if that is of the family, else the one that most services of
    /// the family understand.
    pub(crate) fn dialect(self, own: Dialect) -> Dialect {
        if Self::of(own) == self {
            return own;
        }
        match self {
            Self::Anthropic => Dialect::AnthropicMessages,
            Self::OpenAi => Dialect::OpenAiChat(ChatVariant::COMPATIBLE),
            Self::Gemini => Dialect::Gemini,
        }
    }
}
