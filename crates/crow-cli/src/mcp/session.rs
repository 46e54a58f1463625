//! The tools of the servers of a session.

use std::{path::PathBuf, sync::Arc};

use crow_core::{event::NoticeLevel, mcp::McpServerConfig, tool::SourceNews};
use crow_mcp::{McpSettings, McpTools, Outside, SchemaCache};
use crow_providers::HttpClient;
use crow_runtime::{ChildEnvironment, ProcessRunner};

use super::{Configured, configured};
use crate::{CliError, Environment, trust::Project};

/// The folder that keeps what servers listed, below the folder of data.
const CACHE: &str = "mcp";

/// What it takes to start servers.
#[derive(Debug, Clone)]
pub(crate) struct McpLaunch {
    environment: Environment,
    http: HttpClient,
    runner: ProcessRunner,
    /// Whether what is configured counts.
    uses_configuration: bool,
}

impl McpLaunch {
    /// Starts servers with these variables, and asks others with this client.
    pub(crate) fn new(
        environment: Environment,
        http: HttpClient,
        children: impl Into<ChildEnvironment>,
    ) -> Self {
        // Programs that the user configured: no sandbox of commands holds them.
        let runner = ProcessRunner::new(children);
        Self { environment, http, runner, uses_configuration: true }
    }

    /// Leaves out what is configured.
    #[must_use]
    pub(crate) fn without_configuration(self) -> Self {
        Self { uses_configuration: false, ..self }
    }

    /// Returns how servers are reached from a directory.
    pub(crate) fn outside(&self, roots: Vec<PathBuf>) -> Outside {
        Outside {
            processes: Arc::new(self.runner.clone()),
            http: Arc::new(self.http.clone()),
            roots,
        }
    }

    /// Returns what keeps the lists of tools.
    pub(crate) fn cache(&self) -> Option<SchemaCache> {
        self.environment.data_dir().ok().map(|folder| SchemaCache::new(folder.join(CACHE)))
    }

    /// Makes the tools of a session: of the servers that its client hands over, and of those that are configured. Blocks for
    /// small files.
    pub(crate) fn tools(
        &self,
        roots: Vec<PathBuf>,
        project: &Project,
        handed_over: Vec<McpServerConfig>,
    ) -> Result<Arc<McpTools>, CliError> {
        let (servers, faults) = self.servers(project, handed_over)?;
        let tools = McpTools::new(servers, self.cache(), self.outside(roots));
        for text in faults {
            tools.tell(SourceNews { level: NoticeLevel::Warning, text });
        }
        Ok(Arc::new(tools))
    }

    /// Returns the servers of a session, and what is wrong with those that are configured. A server that the client hands over
    /// goes before one of the same name. Blocks for small files.
    pub(crate) fn servers(
        &self,
        project: &Project,
        handed_over: Vec<McpServerConfig>,
    ) -> Result<(Vec<McpSettings>, Vec<String>), CliError> {
        let configured = if self.uses_configuration {
            configured(&self.environment, project)?
        } else {
            Configured::default()
        };
        let mut servers: Vec<McpSettings> = Vec::new();
        for server in handed_over.into_iter().map(McpSettings::from) {
            if servers.iter().all(|known| known.server.name != server.server.name) {
                servers.push(server);
            }
        }
        for (server, _) in configured.servers {
            if servers.iter().all(|known| known.server.name != server.server.name) {
                servers.push(server);
            }
        }
        Ok((servers, configured.faults))
    }
}
