//! Errors that end a connection, and the HTTP answers for them.

use std::io;

use crow_core::capability::{HostRefusal, RefusedHost};

use super::request::{MalformedRequest, ProxyTarget};

/// Reason why a connection was refused or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error("the request is refused: {0}")]
    Malformed(#[from] MalformedRequest),
    #[error("the head of the request is too long")]
    TooLong,
    #[error("the head of the request did not come in time")]
    TooSlow,
    #[error("{}", refusal_message(.0))]
    Host(RefusedHost),
    #[error("{target} cannot be reached: {source}")]
    Unreachable { target: ProxyTarget, source: io::Error },
    #[error("{0} could not be reached in time")]
    TimedOut(ProxyTarget),
    /// The connection broke, so no answer is possible.
    #[error("the connection broke off: {0}")]
    Gone(#[from] io::Error),
}

fn refusal_message(refused: &RefusedHost) -> String {
    match refused.reason {
        HostRefusal::NotAllowed => format!(
            "the sandbox does not let commands reach {refused}; the user can allow it with --allow-host {}",
            refused.pattern()
        ),
        HostRefusal::NotPublic => format!(
            "the sandbox does not let commands reach {refused}: the name resolves to an address of this machine or of a \
             local network; the user can allow such an address by --allow-host ADDRESS:PORT, not by a name"
        ),
    }
}

impl ProxyError {
    pub(super) fn host(target: &ProxyTarget, reason: HostRefusal) -> Self {
        let ProxyTarget { host, port } = target.clone();
        Self::Host(RefusedHost { host, port, reason })
    }

    /// Returns the HTTP answer for the command, if one can be sent.
    pub(super) fn answer(&self) -> Option<String> {
        let status = match self {
            Self::Malformed(_) => "400 Bad Request",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::TooSlow => "408 Request Timeout",
            // Some programs show only the first line.
            Self::Host(_) => "403 Host not allowed by the sandbox",
            Self::Unreachable { .. } => "502 Bad Gateway",
            Self::TimedOut(_) => "504 Gateway Timeout",
            Self::Gone(_) => return None,
        };
        let text = format!("crow-agent: {self}\n");
        Some(format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        ))
    }
}
