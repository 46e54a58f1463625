//! Families of wire formats, from which a route chooses.

use crate::{dialect::Dialect, openai::ChatVariant};

/// A family of wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses or Chat Completions.
    OpenAi,
    /// The format of Gemini.
    Gemini,
}

impl Protocol {
    /// Returns the family of a wire format.
    pub(crate) fn of_dialect(dialect: Dialect) -> Self {
        match dialect {
            Dialect::AnthropicMessages => Self::Anthropic,
            Dialect::OpenAiResponses | Dialect::OpenAiChat(_) => Self::OpenAi,
            Dialect::Gemini => Self::Gemini,
        }
    }

    /// Returns the protocols that a provider supports: its own first, then those that gateways offer for any model.
    pub(crate) fn supported(own: Dialect) -> Vec<Self> {
        let own = Self::of_dialect(own);
        let others = [Self::Anthropic, Self::OpenAi].into_iter().filter(|other| *other != own);
        std::iter::once(own).chain(others).collect()
    }

    /// Returns the wire format for a provider: its own if that belongs to the family, otherwise the one that most
    /// services of the family understand.
    pub(crate) fn dialect(self, own: Dialect) -> Dialect {
        if Self::of_dialect(own) == self {
            return own;
        }
        match self {
            Self::Anthropic => Dialect::AnthropicMessages,
            Self::OpenAi => Dialect::OpenAiChat(ChatVariant::COMPATIBLE),
            Self::Gemini => Dialect::Gemini,
        }
    }
}
