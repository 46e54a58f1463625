//! The tools of the servers of a session.

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_core::{
    capability::{PipedProcess, PipedProcesses, PipedSpec, ProcessError},
    event::NoticeLevel,
    mcp::McpServerConfig,
    tool::SourceNews,
};
use crow_mcp::{McpSettings, McpTools, Outside, SchemaCache};
use crow_providers::HttpClient;
use crow_runtime::{ChildEnvironment, ProcessRunner};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{Configured, configured};
use crate::{
    CliError, Environment,
    trust::{Project, TrustedState},
};

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

    /// Returns how servers are reached from a directory, and that those of its project only as they were trusted.
    pub(crate) fn outside(&self, roots: Vec<PathBuf>, project: &Project) -> Outside {
        let runner = self.runner.clone();
        let processes: Arc<dyn PipedProcesses> = match project.trusted.clone() {
            Some(trusted) => Arc::new(TrustedProcesses { runner, trusted: Arc::new(trusted) }),
            None => Arc::new(runner),
        };
        Outside { processes, http: Arc::new(self.http.clone()), roots }
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
        let tools = McpTools::new(servers, self.cache(), self.outside(roots, project));
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

/// Starts servers. One of the project is started only while the project is what was shown when it was trusted: the files
/// may have changed since the session began, and a server that ended is started anew.
#[derive(Debug)]
struct TrustedProcesses {
    runner: ProcessRunner,
    trusted: Arc<TrustedState>,
}

#[async_trait]
impl PipedProcesses for TrustedProcesses {
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        if self.trusted.starts(&spec.argv) {
            let trusted = Arc::clone(&self.trusted);
            let checked = spawn_blocking(move || trusted.check()).await.map_err(io::Error::other);
            if let Err(source) = checked.and_then(|checked| checked.map_err(io::Error::other)) {
                let program = spec.argv.first().cloned().unwrap_or_default();
                return Err(ProcessError::Start { program, source });
            }
        }
        self.runner.start(spec, cancellation).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crow_core::capability::OutputTail;

    use super::*;
    use crate::trust;

    #[tokio::test]
    async fn a_server_of_the_project_is_not_started_after_its_program_changed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let project = base.join("project");
        fs::create_dir_all(project.join("tools")).unwrap();
        fs::write(project.join("tools/server.sh"), "exec cat").unwrap();
        fs::write(
            project.join(".mcp.json"),
            r#"{"mcpServers": {"s": {"command": "sh", "args": ["tools/server.sh"]}}}"#,
        )
        .unwrap();
        let environment = Environment::with([("HOME", base.to_str().unwrap())]);
        let trust::Standing::Untrusted(untrusted) =
            trust::standing(&project, &environment).unwrap()
        else {
            panic!("it was never trusted")
        };
        trust::trust_store(&environment).unwrap().add(&project, untrusted.fingerprint).unwrap();
        let trusted = trust::project_of(&project, &environment).unwrap().trusted.unwrap();
        let variables =
            std::collections::BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let processes =
            TrustedProcesses { runner: ProcessRunner::new(variables), trusted: Arc::new(trusted) };
        let start = || {
            let argv = ["sh", "tools/server.sh"].map(str::to_owned).to_vec();
            let errors = OutputTail::new(64);
            let spec = PipedSpec {
                argv,
                cwd: project.clone(),
                env: std::collections::BTreeMap::default(),
                errors,
            };
            processes.start(spec, CancellationToken::new())
        };
        assert!(start().await.is_ok());
        fs::write(project.join("tools/server.sh"), "touch pwned; exec cat").unwrap();
        let refused = start().await.err().unwrap().to_string();
        assert!(refused.contains("these changed: tools/server.sh"), "{refused}");
        assert!(!project.join("pwned").exists());
    }
}
