//! Collection of the servers configured for a directory.
//!
//! Sources, in order of precedence: `[mcp.servers]` of the merged `config.toml`, the user's `mcp.json`, and
//! `.mcp.json` of a trusted project. A name that occurs again is reported and ignored.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use crow_agent::layers::{LayerKind, Node};
use crow_core::mcp::McpTransport;
use crow_mcp::McpSettings;

use super::super::{ProjectAdditions, SETTINGS, Settings, layers as config_layers};
use super::{
    expand::{expand, names_variables},
    file::{self, LARGEST, USER_FILE},
    table::ServerTable,
};
use crate::{environment::ProcessEnvironment, error::AppError};

/// Whose configuration defines a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrigin {
    /// The user's configuration.
    User,
    /// A trusted project's configuration.
    Project,
}

/// The servers configured for a directory; names are unique.
#[derive(Debug, Default)]
pub struct ConfiguredServers {
    /// Enabled servers, sorted by name.
    pub servers: Vec<(McpSettings, ServerOrigin)>,
    /// Names of disabled servers.
    pub disabled: Vec<String>,
    /// Messages for the user: which servers are left out, and why.
    pub faults: Vec<String>,
}

/// Collects the servers of `config.toml`, of the user's `mcp.json`, and of a trusted project, in this order. Blocks.
pub fn configured_servers(
    environment: &ProcessEnvironment,
    project: &ProjectAdditions,
) -> Result<ConfiguredServers, AppError> {
    let mut found = ConfiguredServers::default();
    let layers = config_layers(environment, project)?;
    if let Some(node) = layers.merged(SETTINGS)? {
        let settings = Settings::read(&layers)?;
        for (name, server) in &settings.mcp.servers {
            found.add(name, server, origin(&node, name), environment);
        }
    }
    let path = environment.config_dir()?.join(USER_FILE);
    if let Some(text) = read(&path)? {
        let contents = file::parse(&path, &text)?;
        found.faults.extend(contents.faults);
        for (name, server) in &contents.servers {
            found.add(name, server, ServerOrigin::User, environment);
        }
    }
    for (name, server) in &project.mcp_servers {
        found.add(name, server, ServerOrigin::Project, environment);
    }
    // A project's server starts in the project's root, to which its paths are relative, wherever in the project the
    // session works.
    if let Some(root) = &project.root {
        for (settings, _) in
            found.servers.iter_mut().filter(|server| server.1 == ServerOrigin::Project)
        {
            if let McpTransport::Stdio { cwd, .. } = &mut settings.server.transport {
                *cwd = Some(root.join(cwd.take().unwrap_or_default()));
            }
        }
    }
    found.withhold(&project.blocked_commands);
    found.servers.sort_by(|one, other| one.0.server.name.cmp(&other.0.server.name));
    Ok(found)
}

impl ConfiguredServers {
    /// Removes the servers whose command line is in `withheld`, since the user did not trust the files they start from.
    fn withhold(&mut self, withheld: &[Vec<String>]) {
        let is_withheld = |transport: &McpTransport| match transport {
            McpTransport::Stdio { command, args, .. } => {
                let argv = std::iter::once(command).chain(args);
                withheld.iter().any(|line| line.iter().eq(argv.clone()))
            }
            McpTransport::Http { .. } | McpTransport::Client(_) => false,
        };
        let (left_out, servers) = std::mem::take(&mut self.servers)
            .into_iter()
            .partition(|(server, _)| is_withheld(&server.server.transport));
        self.servers = servers;
        self.faults.extend(left_out.into_iter().map(|(server, _): (McpSettings, _)| {
            format!(
                "the MCP server {} is left out: it is started from files of the project that you did not trust, or that changed since; `crow-agent trust` shows them and asks",
                server.server.name
            )
        }));
    }

    /// Adds a server, unless its name is taken, it is disabled, or its settings are invalid. Variables are expanded
    /// for the user's servers only; a project's server that names one is left out.
    fn add(
        &mut self,
        name: &str,
        server: &ServerTable,
        origin: ServerOrigin,
        environment: &ProcessEnvironment,
    ) {
        let is_duplicate = self.servers.iter().any(|(known, _)| known.server.name == name)
            || self.disabled.iter().any(|known| known == name);
        if is_duplicate {
            self.faults.push(format!("there are two MCP servers named {name}; the first is used"));
            return;
        }
        if !server.is_enabled() {
            self.disabled.push(name.to_owned());
            return;
        }
        let mut settings = match server.to_settings(name) {
            Ok(settings) => settings,
            Err((_, why)) => {
                self.faults.push(format!("the MCP server {name} is left out: {why}"));
                return;
            }
        };
        if origin == ServerOrigin::Project && names_variables(&settings.server.transport) {
            self.faults.push(format!(
                "the MCP server {name} of the project is left out: a project cannot use your variables; configure the server yourself to pass some"
            ));
            return;
        }
        if origin == ServerOrigin::User {
            let lookup = |name: &str| environment.var(name);
            match expand(settings.server.transport, &lookup) {
                Ok(transport) => settings.server.transport = transport,
                Err(why) => {
                    self.faults.push(format!("the MCP server {name} is left out: {why}"));
                    return;
                }
            }
        }
        self.servers.push((settings, origin));
    }
}

/// Returns [`ServerOrigin::Project`] if any value of the server comes from the project.
fn origin(node: &Node, name: &str) -> ServerOrigin {
    let table = node.find(&["mcp", "servers", name]);
    let leaves = table.map(Node::leaves).unwrap_or_default();
    let has_project_value =
        leaves.iter().any(|(_, leaf)| leaf.origin.layer() == LayerKind::Project);
    if has_project_value { ServerOrigin::Project } else { ServerOrigin::User }
}

/// Reads a file of up to [`LARGEST`] bytes. Returns `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, AppError> {
    let wrong =
        |error: io::Error| AppError::usage(format!("cannot read {}: {error}", path.display()));
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > LARGEST {
        return Err(AppError::usage(format!("{} is larger than 1 MiB", path.display())));
    }
    Ok(Some(text))
}
