//! The wire formats of providers, and their families, from which a route chooses.

use reqwest::header::{AUTHORIZATION, HeaderName};

use crate::{
    anthropic::AnthropicCodec,
    codec::{Codec, ConversationRoute},
    gemini::GeminiCodec,
    openai::{ChatCodec, ChatVariant, ResponsesCodec},
};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic Messages, which llama.cpp and several vendors implement as well.
    AnthropicMessages,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// `OpenAI` Responses.
    OpenAiResponses,
    /// `OpenAI` Chat Completions, which most servers implement, each with variations.
    OpenAiChat(ChatVariant),
}

impl Dialect {
    /// Returns the name in configuration and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat(_) => "openai-chat",
        }
    }

    /// Finds a format by its name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the names of all formats.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.into_iter().map(Self::name)
    }

    /// The format of each name. Chat servers that are not known by name get the variant that all understand.
    const NAMED: [Self; 4] = [
        Self::AnthropicMessages,
        Self::OpenAiResponses,
        Self::OpenAiChat(ChatVariant::COMPATIBLE),
        Self::Gemini,
    ];

    /// Creates the codec of a conversation.
    pub(crate) fn codec(self, route: ConversationRoute) -> Box<dyn Codec> {
        match self {
            Self::AnthropicMessages => Box::new(AnthropicCodec::new(route)),
            Self::Gemini => Box::new(GeminiCodec::new(route)),
            Self::OpenAiResponses => Box::new(ResponsesCodec::new(route)),
            Self::OpenAiChat(variant) => Box::new(ChatCodec::new(route, variant)),
        }
    }

    /// Returns the header that carries the key, with its value.
    pub(crate) fn credential(self, key: &str) -> (HeaderName, String) {
        match self {
            // Tokens of a subscription log-in are bearer tokens, unlike keys.
            Self::AnthropicMessages if key.starts_with("sk-ant-oat") => bearer(key),
            Self::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Self::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Self::OpenAiResponses | Self::OpenAiChat(_) => bearer(key),
        }
    }
}

fn bearer(key: &str) -> (HeaderName, String) {
    (AUTHORIZATION, format!("Bearer {key}"))
}

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
