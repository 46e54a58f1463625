//! Servers of the Model Context Protocol, as somebody configures them.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use crate::capability::McpLink;

/// A server whose tools an agent may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// Its name: a part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that is started and spoken to over its standard streams.
    Stdio {
        /// The program: a path, or a name that is looked up.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those that every command sees.
        env: BTreeMap<String, String>,
        /// The folder that it is started in; none for the session's.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
    /// A server that the client of the session serves itself, over the connection that the session is shown on. Nobody can
    /// configure one, and it is kept nowhere: it is gone with the connection.
    Client(ClientServer),
}

/// The way to a server of the client's. Two are the same if they are the same link.
#[derive(Clone)]
pub struct ClientServer(Arc<dyn McpLink>);

impl ClientServer {
    /// Makes it of the link.
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

/// Values of variables and headers are often secrets: they are left out.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_of_what_is_printed() {
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
