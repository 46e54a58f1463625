//! The providers that need no configuration file.

use crate::{catalogue::Vendor, dialect::Dialect, openai::ChatVariant};

/// A provider that is known by name and needs no configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) address: Address,
    pub(crate) key: KeyRule,
    /// Model used if the user names none.
    pub(crate) default_model: Option<&'static str>,
    pub(crate) vendor: Vendor,
}

/// Location of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// A vendor's service; the environment variable overrides the base URL.
    Cloud { url: &'static str, variable: &'static str },
    /// A server on this machine; the environment variable overrides the host.
    Local { port: u16, variable: &'static str },
    /// A recording in a file.
    File,
}

/// Need of a key, with the environment variable that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRule {
    Required(&'static str),
    /// Sent if it is set.
    Optional(&'static str),
    None,
}

/// The built-in providers, in the order of preference if the user names none.
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

/// Defines a server on this machine: its key is optional, and only the server knows its models.
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
