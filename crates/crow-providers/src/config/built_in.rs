//! The providers that need no configuration file.

use crate::{catalogue::Vendor, dialect::Dialect, openai::ChatVariant};

/// A provider that is known by name and needs no configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) address: Address,
    pub(crate) key: KeyRule,
    /// Asked when nobody names a model.
    pub(crate) default_model: Option<&'static str>,
    pub(crate) vendor: Vendor,
}

/// Where a provider is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// At a vendor's, unless the variable names another base URL.
    Cloud { url: &'static str, variable: &'static str },
    /// On this machine, unless the variable names another host.
    Local { port: u16, variable: &'static str },
    /// In a file.
    File,
}

/// Whether a provider wants a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRule {
    Required(&'static str),
    /// Sent if it is there.
    Optional(&'static str),
    None,
}

/// All of them. The order decides which is asked when nobody names a provider.
pub(crate) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "anthropic",
        dialect: Some(Dialect::AnthropicMessages),
        address: Address::Cloud {
            url: "https://api.anthropic.com",
            variable: "ANTHROPIC_BASE_URL",
        },
        key: KeyRule::Required("ANTHROPIC_API_KEY"),
        default_model: Some("claude-sonnet-5-5"),
        vendor: Vendor::Anthropic,
    },
    BuiltIn {
        name: "openai",
        dialect: Some(Dialect::OpenAiResponses),
        address: OPENAI_ADDRESS,
        key: KeyRule::Required("OPENAI_API_KEY"),
        default_model: Some("gpt-6.1-sol"),
        vendor: Vendor::OpenAi,
    },
    BuiltIn {
        name: "openai-chat",
        dialect: Some(Dialect::OpenAiChat(ChatVariant::OPENAI)),
        address: OPENAI_ADDRESS,
        key: KeyRule::Required("OPENAI_API_KEY"),
        default_model: Some("gpt-6.1-sol"),
        vendor: Vendor::OpenAi,
    },
    BuiltIn {
        name: "gemini",
        dialect: Some(Dialect::Gemini),
        address: Address::Cloud {
            url: "https://generativelanguage.googleapis.com",
            variable: "GEMINI_BASE_URL",
        },
        key: KeyRule::Required("GEMINI_API_KEY"),
        default_model: Some("gemini-3.8-flash"),
        vendor: Vendor::Google,
    },
    BuiltIn {
        name: "openrouter",
        dialect: Some(Dialect::OpenAiChat(ChatVariant::OPENROUTER)),
        address: Address::Cloud {
            url: "https://openrouter.ai/api/v1",
            variable: "OPENROUTER_BASE_URL",
        },
        key: KeyRule::Required("OPENROUTER_API_KEY"),
        default_model: Some("anthropic/claude-sonnet-5.5"),
        vendor: Vendor::OpenRouter,
    },
    local("ollama", 11434, "OLLAMA_HOST", "OLLAMA_API_KEY"),
    local("llamacpp", 8080, "LLAMACPP_HOST", "LLAMA_API_KEY"),
    local("lmstudio", 1234, "LMSTUDIO_HOST", "LMSTUDIO_API_KEY"),
    local("vllm", 8000, "VLLM_HOST", "VLLM_API_KEY"),
    BuiltIn {
        name: "replay",
        dialect: None,
        address: Address::File,
        key: KeyRule::None,
        default_model: None,
        vendor: Vendor::Local,
    },
];

const OPENAI_ADDRESS: Address =
    Address::Cloud { url: "https://api.openai.com/v1", variable: "OPENAI_BASE_URL" };

/// A server on this machine: no key needed, and which models it has only it knows.
const fn local(
    name: &'static str,
    port: u16,
    variable: &'static str,
    key: &'static str,
) -> BuiltIn {
    BuiltIn {
        name,
        dialect: Some(Dialect::OpenAiChat(ChatVariant::COMPATIBLE)),
        address: Address::Local { port, variable },
        key: KeyRule::Optional(key),
        default_model: None,
        vendor: Vendor::Local,
    }
}

/// Finds a provider by its name.
pub(crate) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}
