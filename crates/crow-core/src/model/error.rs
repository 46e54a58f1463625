//! Errors of providers.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong, by what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// The key is missing or wrong.
    Auth,
    /// The key may not do this.
    Permission,
    /// No such model or address.
    NotFound,
    /// The request itself is refused.
    InvalidRequest,
    /// The request does not fit into the model's window.
    ContextLength,
    /// Too many requests at the moment.
    RateLimited,
    /// The account's quota or credit is used up.
    Quota,
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed.
    Server,
    /// The provider could not be reached, or the connection broke.
    Network,
    /// The provider did not answer, or stopped sending.
    Timeout,
    /// The reply ended without its end mark.
    Truncated,
    /// The provider refused to answer for reasons of content.
    Refusal,
    /// The reply could not be understood.
    Decode,
    /// The provider is disabled for this process; nothing was sent.
    Disabled,
}

impl ProviderErrorKind {
    /// Returns the name of the kind, as in the log of a session.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
            Self::ContextLength => "context_length",
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Truncated => "truncated",
            Self::Refusal => "refusal",
            Self::Decode => "decode",
            Self::Disabled => "disabled",
        }
    }

    /// Returns true if the same request may succeed when it is sent again.
    pub fn is_transient(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::Timeout
            | Self::Truncated => true,
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::InvalidRequest
            | Self::ContextLength
            | Self::Quota
            | Self::Refusal
            | Self::Decode
            | Self::Disabled => false,
        }
    }

    /// Returns true if another model may answer instead: the request itself is not the cause.
    pub fn allows_fallback(self) -> bool {
        match self {
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::RateLimited
            | Self::Quota
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::Timeout
            | Self::Truncated
            | Self::Decode
            | Self::Disabled => true,
            Self::InvalidRequest | Self::ContextLength | Self::Refusal => false,
        }
    }
}

/// A provider could not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderError {
    /// What went wrong.
    pub kind: ProviderErrorKind,
    /// The provider's name.
    pub provider: String,
    /// The address that was asked, without any secret.
    pub url: String,
    /// What the provider or the network said, in one line.
    pub message: String,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long the provider asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The id under which the provider's support finds the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether part of the reply had already come.
    pub mid_stream: bool,
}

impl ProviderError {
    /// Makes an error of which only kind and message are known.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            provider: String::new(),
            url: String::new(),
            message: message.into(),
            status: None,
            code: None,
            retry_after: None,
            request_id: None,
            mid_stream: false,
        }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = match self.kind {
            ProviderErrorKind::Auth => "the credentials were rejected",
            ProviderErrorKind::Permission => "the credentials do not permit this",
            ProviderErrorKind::NotFound => "no such model or address",
            ProviderErrorKind::InvalidRequest => "the request was refused",
            ProviderErrorKind::ContextLength => {
                "the conversation does not fit into the model's window"
            }
            ProviderErrorKind::RateLimited => "the rate limit is reached",
            ProviderErrorKind::Quota => "the quota or credit is used up",
            ProviderErrorKind::Overloaded => "the provider is overloaded",
            ProviderErrorKind::Server => "the provider failed",
            ProviderErrorKind::Network => "the connection to the provider failed",
            ProviderErrorKind::Timeout if self.mid_stream => "the provider stopped sending",
            ProviderErrorKind::Timeout => "the provider did not answer",
            ProviderErrorKind::Truncated => "the reply broke off",
            ProviderErrorKind::Refusal => "the model refused",
            ProviderErrorKind::Decode => "the reply could not be understood",
            ProviderErrorKind::Disabled => "the provider is disabled",
        };
        if self.provider.is_empty() {
            write!(f, "{summary}")?;
        } else {
            write!(f, "{}: {summary}", self.provider)?;
        }
        if let Some(status) = self.status {
            write!(f, " (HTTP {status})")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if !self.url.is_empty() {
            write!(f, " [{}]", self.url)?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " [request {id}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProviderError {}
