//! Servers of the Model Context Protocol, as somebody configures them.

use std::{collections::BTreeMap, fmt, path::PathBuf};

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
