//! MCP servers that are reached over a connection of someone else, such as an editor's own servers.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::{Map, Value};

/// A request to a server behind a link.
#[derive(Debug, Clone, PartialEq)]
pub struct McpLinkRequest {
    /// The method of the Model Context Protocol.
    pub method: String,
    /// Its parameters. `_meta` contains all state that a stateless server needs.
    pub params: Option<Map<String, Value>>,
}

/// A message about a request.
#[derive(Debug, Clone, PartialEq)]
pub enum McpLinkMessage {
    /// A notification of the server while it works on the request, such as progress.
    Notification {
        /// The method of the notification.
        method: String,
        /// Its parameters.
        params: Option<Map<String, Value>>,
    },
    /// The final result. Nothing follows.
    Ended(Result<Value, McpLinkError>),
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpLinkError {
    /// The server returned an error of the Model Context Protocol.
    #[error("{message} ({code})")]
    Refused {
        /// The error code.
        code: i32,
        /// The error message.
        message: String,
        /// Further data, for programs.
        data: Option<Value>,
    },
    /// The owner of the connection could not deliver the request or the answer.
    #[error("{0}")]
    Broken(String),
    /// The connection behind the link is closed.
    #[error("the client that provides it has disconnected")]
    Closed,
}

/// The messages about a request, in order. Dropping it cancels the request.
pub type McpLinkMessages = Pin<Box<dyn Stream<Item = McpLinkMessage> + Send>>;

/// A link to an MCP server over another connection. The server keeps no state between requests.
///
/// A link is valid as long as the connection behind it, and only in this process.
#[async_trait]
pub trait McpLink: Send + Sync + fmt::Debug {
    /// Returns the server's id behind the link. On another connection the same id may refer to another server.
    fn id(&self) -> &str;

    /// Sends a request. The queue of notifications is bounded and drops those that do not fit, but never the result.
    fn request(&self, request: McpLinkRequest) -> McpLinkMessages;

    /// Waits until the link is closed.
    async fn closed(&self);
}
