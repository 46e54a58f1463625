//! Servers of tools that are spoken to over a connection that somebody else holds: an editor's own servers, behind the editor.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::{Map, Value};

/// A request to a server behind a link.
#[derive(Debug, Clone, PartialEq)]
pub struct McpLinkRequest {
    /// The method of the Model Context Protocol.
    pub method: String,
    /// Its parameters, with all that a server without memory has to know in `_meta`.
    pub params: Option<Map<String, Value>>,
}

/// What comes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum McpLinkMessage {
    /// The server says something while it works on the request: how far it is, for one.
    Told {
        /// The method of the notification.
        method: String,
        /// Its parameters.
        params: Option<Map<String, Value>>,
    },
    /// The server is through with it. Nothing comes after this.
    Ended(Result<Value, McpLinkError>),
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpLinkError {
    /// The server says no, in words of the Model Context Protocol.
    #[error("{message} ({code})")]
    Refused {
        /// What kind of error it is.
        code: i32,
        /// What happened.
        message: String,
        /// More of it, for programs.
        data: Option<Value>,
    },
    /// Whoever holds the link did not bring the request to the server, or no answer back.
    #[error("{0}")]
    Broken(String),
    /// The connection behind the link is no more.
    #[error("the client that serves it is gone")]
    Closed,
}

/// What comes of a request, in its order. Dropping it cancels the request.
pub type McpLinkMessages = Pin<Box<dyn Stream<Item = McpLinkMessage> + Send>>;

/// The way to a server of tools over somebody's connection. The server has no memory from one request to the next.
///
/// A link holds as long as the connection behind it, and is of no use to another process.
#[async_trait]
pub trait McpLink: Send + Sync + fmt::Debug {
    /// Returns what the server is called behind the link. Another connection may call another server so.
    fn id(&self) -> &str;

    /// Sends a request. Of what is told meanwhile only so much waits for the reader; what has no room is lost, the end never.
    fn request(&self, request: McpLinkRequest) -> McpLinkMessages;

    /// Waits until nothing comes through any more.
    async fn closed(&self);
}
