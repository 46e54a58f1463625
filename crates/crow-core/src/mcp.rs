//! Servers of the Model Context Protocol: their configuration, and links to servers that are reached over a connection
//! of someone else, such as an editor's own servers.

use std::{collections::BTreeMap, fmt, path::PathBuf, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::{Map, Value};

/// Configuration of a server whose tools an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// Its name: a part of the names of its tools.
    pub name: String,
    /// The transport to it.
    pub transport: McpTransport,
}

/// The transport to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A child process that is spoken to over its standard streams.
    Stdio {
        /// The program: a path, or a name that is looked up.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables in addition to those that every command gets.
        env: BTreeMap<String, String>,
        /// The directory that it is started in; none for the session's.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks streamable HTTP.
    Http {
        /// Its URL.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
    /// A server that the session's client serves itself, over the connection that shows the session. It cannot be
    /// configured and is not saved: it ends with the connection.
    Client(ClientServer),
}

/// The link to a server of the client. Two are equal if they are the same link.
#[derive(Clone)]
pub struct ClientServer(Arc<dyn McpLink>);

impl ClientServer {
    /// Wraps the link.
    pub fn new(link: Arc<dyn McpLink>) -> Self {
        Self(link)
    }

    /// Returns the link.
    pub fn link(&self) -> &Arc<dyn McpLink> {
        &self.0
    }
}

impl PartialEq for ClientServer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientServer {}

impl fmt::Debug for ClientServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientServer").field(&self.0.id()).finish()
    }
}

/// Omits the values of variables and headers, which are often secrets.
impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", url)
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .finish(),
            Self::Client(server) => f.debug_tuple("Client").field(server).finish(),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_of_debug_output() {
        let secret = || BTreeMap::from([("KEY".to_owned(), "hunter2".to_owned())]);
        let stdio = McpTransport::Stdio {
            command: "x".to_owned(),
            args: Vec::new(),
            env: secret(),
            cwd: None,
        };
        let http = McpTransport::Http { url: "http://x".to_owned(), headers: secret() };
        for transport in [stdio, http] {
            let text = format!("{transport:?}");
            assert!(text.contains("KEY") && !text.contains("hunter2"), "{text}");
        }
    }
}
