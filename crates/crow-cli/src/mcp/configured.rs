//! The servers that are configured for a directory.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use crow_agent::layers::{LayerKind, Node};
use crow_core::mcp::McpTransport;
use crow_mcp::McpSettings;

use super::{
    expand::{expand, names_variables},
    file::{self, LARGEST, USER_FILE},
    table::ServerTable,
};
use crate::{
    config::{self, SETTINGS, Settings},
    environment::Environment,
    error::CliError,
    trust::{Project, StartedServer},
};

/// Whose configuration a server is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerOrigin {
    /// The user's.
    User,
    /// That of a trusted project.
    Project,
}

/// The servers that are configured for a directory, each name once.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredServers {
    /// Those that are used.
    pub(crate) servers: Vec<(McpSettings, ServerOrigin)>,
    /// Those that are switched off.
    pub(crate) off: Vec<String>,
    /// What the user should know: what is left out, and why.
    pub(crate) faults: Vec<String>,
}

/// Finds the servers: of `config.toml`, of the user's `mcp.json`, and of a project that is trusted. The user's go before
/// the project's. Blocks.
pub(crate) fn configured(
    environment: &Environment,
    project: &Project,
) -> Result<ConfiguredServers, CliError> {
    let mut found = ConfiguredServers::default();
    let layers = config::layers(environment, project)?;
    if let Some(node) = layers.merged(SETTINGS)? {
        let settings = Settings::read(&layers)?;
        for (name, server) in &settings.mcp.servers {
            found.take(name, server, origin(&node, name), environment);
        }
    }
    let path = environment.config_dir()?.join(USER_FILE);
    if let Some(text) = read(&path)? {
        let read = file::parse(&path, &text)?;
        found.faults.extend(read.faults);
        for (name, server) in &read.servers {
            found.take(name, server, ServerOrigin::User, environment);
        }
    }
    for (name, server) in &project.mcp_servers {
        found.take(name, server, ServerOrigin::Project, environment);
    }
    // A server of the project is started where its paths begin, wherever in the project the session works.
    if let Some(trusted) = &project.trusted {
        for (settings, _) in
            found.servers.iter_mut().filter(|server| server.1 == ServerOrigin::Project)
        {
            if let McpTransport::Stdio { cwd, .. } = &mut settings.server.transport {
                *cwd = Some(trusted.root.join(cwd.take().unwrap_or_default()));
            }
        }
    }
    found.withhold(&project.withheld);
    found.servers.sort_by(|one, other| one.0.server.name.cmp(&other.0.server.name));
    Ok(found)
}

/// Returns the programs of the user's own servers, as a session in a folder starts them. Blocks.
pub(crate) fn user_servers(
    cwd: &Path,
    environment: &Environment,
) -> Result<Vec<StartedServer>, CliError> {
    let configured = configured(environment, &Project::default())?;
    let servers = configured.servers.iter();
    Ok(servers
        .filter_map(|(server, _)| StartedServer::of_session(cwd, &server.server.transport))
        .collect())
}

impl ConfiguredServers {
    /// Leaves out what is started from files that the user did not trust.
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

    fn take(
        &mut self,
        name: &str,
        server: &ServerTable,
        origin: ServerOrigin,
        environment: &Environment,
    ) {
        let is_taken = self.servers.iter().any(|(known, _)| known.server.name == name)
            || self.off.iter().any(|known| known == name);
        if is_taken {
            self.faults.push(format!("there are two MCP servers named {name}; the first is used"));
            return;
        }
        if !server.is_enabled() {
            self.off.push(name.to_owned());
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
                "the MCP server {name} of the project is left out: a project gets no variables of yours; configure the server yourself to give it some"
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

/// A server is a project's if anything of it is.
fn origin(node: &Node, name: &str) -> ServerOrigin {
    let found = node.find(&["mcp", "servers", name]);
    let leaves = found.map(Node::leaves).unwrap_or_default();
    let of_project = leaves.iter().any(|(_, leaf)| leaf.origin.layer() == LayerKind::Project);
    if of_project { ServerOrigin::Project } else { ServerOrigin::User }
}

/// Reads a small file of the user, if there is one.
fn read(path: &Path) -> Result<Option<String>, CliError> {
    let wrong =
        |error: io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > LARGEST {
        return Err(CliError::usage(format!("{} is larger than 1 MiB", path.display())));
    }
    Ok(Some(text))
}
