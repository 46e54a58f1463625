//! A server as it is started: what of it may name files of the project.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::mcp::McpTransport;

use crate::mcp::ServerTable;

/// A program that is started as a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartedServer {
    /// The program with its arguments.
    pub(crate) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// Where its relative paths may begin.
    pub(super) folders: Vec<PathBuf>,
}

impl StartedServer {
    /// Returns a server of a project's configuration. None if it is switched off or no program.
    pub(in crate::trust) fn of_project(root: &Path, server: &ServerTable) -> Option<Self> {
        let command = server.command.as_ref().filter(|_| server.is_enabled())?;
        let argv = std::iter::once(command).chain(&server.args).cloned().collect();
        let own = server.cwd.as_ref().map(|cwd| root.join(cwd));
        let folders = own.into_iter().chain([root.to_path_buf()]).collect();
        Some(Self { argv, env: server.env.clone(), folders })
    }

    /// Returns a server that a session in a folder starts, whoever configured it. None if it is no program.
    pub(crate) fn of_session(cwd: &Path, transport: &McpTransport) -> Option<Self> {
        let McpTransport::Stdio { command, args, env, cwd: own } = transport else { return None };
        let argv = std::iter::once(command).chain(args).cloned().collect();
        let folder = own.as_ref().map_or_else(|| cwd.to_path_buf(), |own| cwd.join(own));
        Some(Self { argv, env: env.clone(), folders: vec![folder] })
    }
}
