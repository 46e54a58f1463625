//! The parts of a server's command that can name project files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::mcp::McpTransport;

use crate::{
    config::{ProjectAdditions, ServerTable, configured_servers},
    environment::ProcessEnvironment,
    error::AppError,
};

/// A program that is started as an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedServer {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// Folders from which its relative paths are resolved.
    pub(super) folders: Vec<PathBuf>,
    /// Value of `PATH` with which it is started, unless its own variables set another.
    search_path: Option<String>,
}

impl StartedServer {
    /// Creates the program of a server that is started in a folder.
    pub(crate) fn new(argv: Vec<String>, env: BTreeMap<String, String>, folder: PathBuf) -> Self {
        Self { argv, env, folders: vec![folder], search_path: None }
    }

    /// Sets the `PATH` with which servers are started.
    #[must_use]
    pub(crate) fn with_search_path(self, environment: &ProcessEnvironment) -> Self {
        Self { search_path: environment.var("PATH"), ..self }
    }

    /// Returns the absolute folders in which programs without a slash in their name are looked for.
    pub(super) fn program_folders(&self) -> Vec<PathBuf> {
        let value = self.env.get("PATH").or(self.search_path.as_ref());
        let folders = value.map(|value| std::env::split_paths(value).collect::<Vec<_>>());
        let folders = folders.unwrap_or_default().into_iter();
        folders.filter(|folder| folder.is_absolute()).collect()
    }

    /// Returns the program of a server in a project's configuration. Returns `None` if it is disabled or not started
    /// as a program.
    pub(in crate::trust) fn of_project(root: &Path, server: &ServerTable) -> Option<Self> {
        let command = server.command.as_ref().filter(|_| server.is_enabled())?;
        let argv = std::iter::once(command).chain(&server.args).cloned().collect();
        let own = server.cwd.as_ref().map(|cwd| root.join(cwd));
        let folders = own.into_iter().chain([root.to_path_buf()]).collect();
        Some(Self { argv, env: server.env.clone(), folders, search_path: None })
    }

    /// Returns the program of a server that a session in `cwd` starts, regardless of its source. Returns `None` if it
    /// is not started as a program.
    pub(crate) fn of_session(cwd: &Path, transport: &McpTransport) -> Option<Self> {
        let McpTransport::Stdio { command, args, env, cwd: own } = transport else { return None };
        let argv = std::iter::once(command).chain(args).cloned().collect();
        let folder = own.as_ref().map_or_else(|| cwd.to_path_buf(), |own| cwd.join(own));
        Some(Self::new(argv, env.clone(), folder))
    }
}

/// Returns the programs of the user's own servers as a session in `cwd` would start them. Blocks.
pub(crate) fn user_servers(
    cwd: &Path,
    environment: &ProcessEnvironment,
) -> Result<Vec<StartedServer>, AppError> {
    let configured = configured_servers(environment, &ProjectAdditions::default())?;
    let servers = configured.servers.iter();
    Ok(servers
        .filter_map(|(server, _)| StartedServer::of_session(cwd, &server.server.transport))
        .map(|server| server.with_search_path(environment))
        .collect())
}
