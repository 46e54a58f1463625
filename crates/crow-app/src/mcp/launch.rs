//! The start of MCP servers.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use crow_core::{
    capability::{PipedProcess, PipedProcesses, PipedSpec, ProcessError},
    event::NoticeLevel,
    mcp::McpServerConfig,
    redact::Redactor,
    tool::SourceNotice,
};
use crow_mcp::{
    ConnectionContext, DEFAULT_DEFERRAL_THRESHOLD, LoginAccess, McpSettings, McpTools, SchemaCache,
    UserBrowser,
};
use crow_providers::HttpClient;
use crow_runtime::{ChildEnvironment, ProcessRunner};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::logins::CredentialLogins;
use crate::{
    config::{ConfiguredServers, configured_servers},
    environment::ProcessEnvironment,
    error::AppError,
    trust::{self, Project, StartedServer, TrustedState, project_root, user_servers},
};

/// Command by which the user logs in at a server; its name follows.
const LOGIN_COMMAND: &str = "crow-agent mcp login";
/// Folder of the cached tool lists, below the data folder.
const CACHE: &str = "mcp";
/// Folder of the servers' Python bytecode, below the data folder.
const BYTECODE: &str = "bytecode";
/// Variable that tells Python where to keep bytecode; Python then reads none of `__pycache__`.
const BYTECODE_VARIABLE: &str = "PYTHONPYCACHEPREFIX";
/// Variable that keeps Python from searching modules in its working directory.
const SAFE_PATH_VARIABLE: &str = "PYTHONSAFEPATH";

/// Everything needed to start or reach MCP servers.
#[derive(Debug, Clone)]
pub struct McpLaunch {
    environment: ProcessEnvironment,
    http: HttpClient,
    runner: ProcessRunner,
    /// False if only the servers of the client are used.
    uses_configuration: bool,
    /// Browser of the session's user; `None` without a user.
    browser: Option<Arc<dyn UserBrowser>>,
    /// Learns the tokens of logins.
    redactor: Option<Redactor>,
}

impl McpLaunch {
    /// Starts servers with the variables `children`, and reaches those with a URL through `http`.
    pub fn new(
        environment: ProcessEnvironment,
        http: HttpClient,
        children: impl Into<ChildEnvironment>,
    ) -> Self {
        // No sandbox: the user configured these programs.
        let runner = ProcessRunner::new(children);
        Self { environment, http, runner, uses_configuration: true, browser: None, redactor: None }
    }

    /// Redacts the tokens of logins with this redactor as soon as they are known.
    #[must_use]
    pub(crate) fn with_redactor(self, redactor: Redactor) -> Self {
        Self { redactor: Some(redactor), ..self }
    }

    /// Lets servers ask the user, whose browser this is.
    #[must_use]
    pub fn with_browser(self, browser: Arc<dyn UserBrowser>) -> Self {
        Self { browser: Some(browser), ..self }
    }

    /// Ignores the configured servers.
    #[must_use]
    pub(crate) fn without_configuration(self) -> Self {
        Self { uses_configuration: false, ..self }
    }

    /// Returns the access to servers from the directories `roots`. The project's servers start only while its files
    /// are as they were trusted.
    pub fn connection_context(&self, roots: Vec<PathBuf>, project: &Project) -> ConnectionContext {
        let runner = self.runner.clone().with_project_roots(&roots);
        let bytecode = match self.environment.var(BYTECODE_VARIABLE) {
            Some(_) => None,
            None => self.environment.data_dir().ok().map(|folder| folder.join(BYTECODE)),
        };
        let trusted = project.trusted.clone().map(Arc::new);
        let processes =
            Arc::new(ServerProcesses { runner, trusted, bytecode, roots: roots.clone() });
        // Without a home directory there are no logins.
        let logins = CredentialLogins::new(&self.environment).ok().map(|storage| LoginAccess {
            storage: Arc::new(storage.with_redactor(self.redactor.clone())),
            command: LOGIN_COMMAND.to_owned(),
        });
        let (http, browser) = (Arc::new(self.http.clone()), self.browser.clone());
        ConnectionContext { processes, http, roots, logins, browser }
    }

    /// Returns the cache of tool lists; `None` without a data folder.
    pub fn cache(&self) -> Option<SchemaCache> {
        self.environment.data_dir().ok().map(|folder| SchemaCache::new(folder.join(CACHE)))
    }

    /// Creates the tools of a session from the servers of its client and the configured ones. Blocks for small files.
    pub(crate) fn tools(
        &self,
        roots: Vec<PathBuf>,
        project: &Project,
        handed_over: Vec<McpServerConfig>,
    ) -> Result<Arc<McpTools>, AppError> {
        let SessionServers { servers, faults, defer_above } = self.servers(project, handed_over)?;
        let tools = McpTools::new(servers, self.cache(), self.connection_context(roots, project))
            .with_deferral_threshold(defer_above.unwrap_or(DEFAULT_DEFERRAL_THRESHOLD));
        for text in faults {
            tools.push_notice(SourceNotice { level: NoticeLevel::Warning, text });
        }
        Ok(Arc::new(tools))
    }

    /// Returns the files in a session's directories that servers of its client or of the user are started from.
    /// Commands may not change them. Blocks for small files.
    pub(crate) fn started_files(
        &self,
        roots: &[PathBuf],
        project: &Project,
        handed_over: &[McpServerConfig],
    ) -> Vec<PathBuf> {
        let Some(cwd) = roots.first() else { return Vec::new() };
        let own = if self.uses_configuration {
            user_servers(cwd, &self.environment)
        } else {
            Ok(Vec::new())
        };
        let is_allowed =
            |server: &StartedServer| !project.additions.blocked_commands.contains(&server.argv);
        let mut servers: Vec<_> = own.unwrap_or_default().into_iter().filter(is_allowed).collect();
        let to_started = |server: &McpServerConfig| {
            StartedServer::of_session(cwd, &server.transport)
                .map(|server| server.with_search_path(&self.environment))
        };
        servers.extend(handed_over.iter().filter_map(to_started));
        roots.iter().flat_map(|root| trust::started_files(&project_root(root), &servers)).collect()
    }

    /// Returns the servers of a session, and the faults of the configured ones. A server of the client replaces a
    /// configured one of the same name. Blocks for small files.
    pub(crate) fn servers(
        &self,
        project: &Project,
        handed_over: Vec<McpServerConfig>,
    ) -> Result<SessionServers, AppError> {
        let configured = if self.uses_configuration {
            configured_servers(&self.environment, &project.additions)?
        } else {
            ConfiguredServers::default()
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
        let (faults, defer_above) = (configured.faults, configured.defer_above);
        Ok(SessionServers { servers, faults, defer_above })
    }
}

/// The servers of a session.
#[derive(Debug)]
pub(crate) struct SessionServers {
    pub(crate) servers: Vec<McpSettings>,
    /// Messages for the user: which configured servers are left out, and why.
    pub(crate) faults: Vec<String>,
    /// Length of the tools' definitions in tokens above which they are found by a search; `None` for the default.
    defer_above: Option<u64>,
}

/// Starts servers. A server that runs files of the project starts only while the project is as it was when it was
/// trusted: the files may have changed since the session began, and a server that ended is started again.
///
/// Python runs the bytecode in `__pycache__` instead of a source with the recorded size and time. Commands may write
/// there, as every test run does, so servers must not load code from there: their bytecode is kept in a folder of
/// Crow's.
#[derive(Debug, Clone)]
struct ServerProcesses {
    runner: ProcessRunner,
    trusted: Option<Arc<TrustedState>>,
    /// Folder for Python's bytecode; `None` if the user's environment sets one.
    bytecode: Option<PathBuf>,
    /// Directories of the session.
    roots: Vec<PathBuf>,
}

impl ServerProcesses {
    /// Keeps a Python that runs a module (`python3 -m NAME`) in a directory of the session from loading modules of
    /// that directory: `argparse.py` of a clone would be loaded in place of Python's own. Servers that are started
    /// from files of the project need these. Blocks for small files.
    fn restrict_module_search(&self, spec: &mut PipedSpec) {
        let is_inside = self.roots.iter().any(|root| spec.cwd.starts_with(root));
        if !is_inside || spec.env.contains_key(SAFE_PATH_VARIABLE) || !runs_module(&spec.argv) {
            return;
        }
        let server = StartedServer::new(spec.argv.clone(), spec.env.clone(), spec.cwd.clone());
        let servers = [server];
        let is_of_project =
            self.trusted.as_ref().is_some_and(|trusted| trusted.is_of_project(&spec.argv));
        let uses_files =
            |root: &PathBuf| !trust::started_files(&project_root(root), &servers).is_empty();
        if !is_of_project && !self.roots.iter().any(uses_files) {
            spec.env.insert(SAFE_PATH_VARIABLE.to_owned(), "1".to_owned());
        }
    }

    /// Directs Python's bytecode of a server to Crow's folder, unless the user's settings of the server name another.
    fn redirect_bytecode(&self, spec: &mut PipedSpec) {
        let is_of_project =
            self.trusted.as_ref().is_some_and(|trusted| trusted.is_of_project(&spec.argv));
        if is_of_project {
            // A project could set a folder within itself.
            spec.env.remove(BYTECODE_VARIABLE);
        }
        let Some(folder) = self.bytecode.as_deref().and_then(Path::to_str) else { return };
        if spec.env.contains_key(BYTECODE_VARIABLE) {
            return;
        }
        spec.env.insert(BYTECODE_VARIABLE.to_owned(), folder.to_owned());
        if ignores_variables(&spec.argv) {
            let option = ["-X".to_owned(), format!("pycache_prefix={folder}")];
            spec.argv.splice(1..1, option);
        }
    }
}

/// Returns true if a command line starts, also by a shell or `env`, a Python that runs a module or a text (`-m`, `-c`).
fn runs_module(argv: &[String]) -> bool {
    let is_end = |char: char| char.is_whitespace() || "'\"`;|&()".contains(char);
    let mut words = argv.iter().flat_map(|word| word.split(is_end)).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        if !word.rsplit('/').next().is_some_and(|name| name.starts_with("python")) {
            continue;
        }
        // The options of this Python, up to its script.
        while let Some(letters) = words.next().and_then(|word| word.strip_prefix('-')) {
            let takes_value = letters.find(['W', 'X']);
            let own = takes_value.map_or(letters, |at| &letters[..at]);
            if !letters.starts_with('-') && own.contains(['m', 'c']) {
                return true;
            }
            if takes_value == Some(letters.len() - 1) || letters == "-check-hash-based-pycs" {
                words.next();
            }
        }
    }
    false
}

/// Returns true if a command line starts a Python that ignores variables (`-I`, `-E`).
fn ignores_variables(argv: &[String]) -> bool {
    let Some((program, rest)) = argv.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut options = rest.iter().take_while(|word| word.starts_with('-'));
    name.starts_with("python")
        && options.any(|word| !word.starts_with("--") && word.contains(['I', 'E']))
}

#[async_trait]
impl PipedProcesses for ServerProcesses {
    async fn start(
        &self,
        mut spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError> {
        if let Some(trusted) = self.trusted.as_ref().filter(|trusted| trusted.starts(&spec.argv)) {
            let trusted = Arc::clone(trusted);
            let checked = spawn_blocking(move || trusted.check()).await.map_err(io::Error::other);
            if let Err(source) = checked.and_then(|checked| checked.map_err(io::Error::other)) {
                let program = spec.argv.first().cloned().unwrap_or_default();
                return Err(ProcessError::Start { program, source });
            }
        }
        self.redirect_bytecode(&mut spec);
        let (processes, program) = (self.clone(), spec.argv.first().cloned().unwrap_or_default());
        let prepared = spawn_blocking(move || {
            processes.restrict_module_search(&mut spec);
            spec
        });
        let spec = prepared
            .await
            .map_err(|error| ProcessError::Start { program, source: io::Error::other(error) })?;
        self.runner.start(spec, cancellation).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crow_core::capability::OutputTail;

    use super::*;

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
        let environment = ProcessEnvironment::with([("HOME", base.to_str().unwrap())]);
        let trust::TrustStatus::Untrusted(untrusted) =
            trust::trust_status(&project, &environment).unwrap()
        else {
            panic!("it was never trusted")
        };
        trust::trust_store(&environment).unwrap().add(&project, untrusted.fingerprint).unwrap();
        let trusted = trust::project_of(&project, &environment).unwrap().trusted.unwrap();
        let variables =
            std::collections::BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let processes = ServerProcesses {
            runner: ProcessRunner::new(variables),
            trusted: Some(Arc::new(trusted)),
            bytecode: None,
            roots: vec![project.clone()],
        };
        let start = || {
            let argv = ["sh", "tools/server.sh"].map(str::to_owned).to_vec();
            let stderr_tail = OutputTail::new(64);
            let spec = PipedSpec {
                argv,
                cwd: project.clone(),
                env: std::collections::BTreeMap::default(),
                stderr_tail,
            };
            processes.start(spec, CancellationToken::new())
        };
        assert!(start().await.is_ok());
        fs::write(project.join("tools/server.sh"), "touch pwned; exec cat").unwrap();
        let refused = start().await.err().unwrap().to_string();
        assert!(refused.contains("changed since you trusted it: tools/server.sh"), "{refused}");
        assert!(!project.join("pwned").exists());
    }

    #[test]
    fn a_python_module_is_not_started_with_the_modules_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap();
        fs::write(project.join("argparse.py"), "").unwrap();
        fs::create_dir(project.join("tools")).unwrap();
        fs::write(project.join("tools/server.py"), "").unwrap();
        let processes = ServerProcesses {
            runner: ProcessRunner::new(std::collections::BTreeMap::new()),
            trusted: None,
            bytecode: None,
            roots: vec![project.clone()],
        };
        for (argv, cwd, expected) in [
            (&["python3", "-m", "json.tool"][..], &project, Some("1")),
            (&["/usr/bin/python3.12", "-Bm", "json.tool"], &project, Some("1")),
            (&["python3", "-W", "ignore", "-mjson.tool"], &project, Some("1")),
            (&["sh", "-c", "exec python3 -m json.tool"], &project, Some("1")),
            (&["env", "A=b", "python3", "-c", "import json"], &project, Some("1")),
            (&["python3", "-m", "tools.server"], &project, None),
            (&["python3", "/srv/server.py", "-m"], &project, None),
            (&["python3", "-Wignore::m", "/srv/server.py"], &project, None),
            (&["uv", "run", "server"], &project, None),
            (&["python3", "-m", "json.tool"], &PathBuf::from("/srv"), None),
        ] {
            let mut spec = PipedSpec {
                argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                cwd: cwd.clone(),
                env: std::collections::BTreeMap::new(),
                stderr_tail: OutputTail::new(64),
            };
            processes.restrict_module_search(&mut spec);
            assert_eq!(spec.env.get(SAFE_PATH_VARIABLE).map(String::as_str), expected, "{argv:?}");
        }
        let mut spec = PipedSpec {
            argv: ["python3", "-m", "json.tool"].map(str::to_owned).to_vec(),
            cwd: project,
            env: [(SAFE_PATH_VARIABLE.to_owned(), String::new())].into(),
            stderr_tail: OutputTail::new(64),
        };
        processes.restrict_module_search(&mut spec);
        assert_eq!(spec.env[SAFE_PATH_VARIABLE], "", "what the user said holds");
    }

    #[test]
    fn no_server_reads_bytecode_of_the_project() {
        let processes = ServerProcesses {
            runner: ProcessRunner::new(std::collections::BTreeMap::new()),
            trusted: None,
            bytecode: Some("/data/bytecode".into()),
            roots: Vec::new(),
        };
        let prepared = |argv: &[&str], own: Option<&str>| {
            let env = own.map(|value| (BYTECODE_VARIABLE.to_owned(), value.to_owned()));
            let mut spec = PipedSpec {
                argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                cwd: "/".into(),
                env: env.into_iter().collect(),
                stderr_tail: OutputTail::new(64),
            };
            processes.redirect_bytecode(&mut spec);
            (spec.argv.join(" "), spec.env[BYTECODE_VARIABLE].clone())
        };
        let bytecode_dir = "/data/bytecode".to_owned();
        assert_eq!(
            prepared(&["uv", "run", "x"], None),
            ("uv run x".to_owned(), bytecode_dir.clone())
        );
        assert_eq!(
            prepared(&["python3", "x", "-I"], None),
            ("python3 x -I".to_owned(), bytecode_dir.clone())
        );
        let line = "/usr/bin/python3 -X pycache_prefix=/data/bytecode -sI x".to_owned();
        assert_eq!(prepared(&["/usr/bin/python3", "-sI", "x"], None), (line, bytecode_dir));
        assert_eq!(prepared(&["python3", "x"], Some("/own")).1, "/own", "what the user said holds");
    }

    #[tokio::test]
    async fn a_server_of_the_user_is_started_from_files_of_the_project_only_as_they_were_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let project = base.join("project");
        fs::create_dir_all(project.join("tools")).unwrap();
        fs::create_dir_all(base.join(".config/crow-agent")).unwrap();
        fs::write(project.join("tools/server.sh"), "exec cat").unwrap();
        let elsewhere = base.join("elsewhere.sh");
        fs::write(&elsewhere, "exec cat").unwrap();
        let servers = serde_json::json!({"mcpServers": {
            "relative": {"command": "sh", "args": ["tools/server.sh"]},
            "absolute": {"command": "sh", "args": ["${HOME}/project/tools/server.sh"]},
            "other": {"command": "sh", "args": [elsewhere]},
        }});
        fs::write(base.join(".config/crow-agent/mcp.json"), servers.to_string()).unwrap();
        let environment = ProcessEnvironment::with([("HOME", base.to_str().unwrap())]);
        let names = |project: &Project| {
            let found = configured_servers(&environment, &project.additions).unwrap();
            let names = found.servers.iter().map(|(server, _)| server.server.name.clone());
            (names.collect::<Vec<_>>(), found.faults.join("\n"))
        };
        let standing = trust::trust_status(&project, &environment).unwrap();
        let before = trust::project_of(&project, &environment).unwrap();
        let notice = before.notice.clone().unwrap_or_default();
        assert!(notice.contains("tools/server.sh"), "{notice}");
        let (used, faults) = names(&before);
        assert_eq!(used, ["other"], "{faults}");
        assert!(faults.contains("absolute is left out: it is started from files"), "{faults}");
        let trust::TrustStatus::Untrusted(untrusted) = standing else {
            panic!("it was never trusted")
        };
        trust::trust_store(&environment).unwrap().add(&project, untrusted.fingerprint).unwrap();

        let trusted = trust::project_of(&project, &environment).unwrap();
        assert_eq!(names(&trusted).0, ["absolute", "other", "relative"]);
        let state = trusted.trusted.clone().unwrap();
        assert_eq!(state.protected, [project.join("tools/server.sh")]);
        let argv = ["sh", "tools/server.sh"].map(str::to_owned);
        assert!(state.starts(&argv) && !state.is_of_project(&argv) && state.check().is_ok());
        assert!(!trusted.additions.rules.rules().is_empty(), "file tools ask");

        fs::write(project.join("tools/server.sh"), "touch pwned").unwrap();
        assert!(state.check().is_err());
        let changed = trust::project_of(&project, &environment).unwrap();
        assert!(changed.notice.as_ref().is_some_and(|text| text.contains("changed since")));
        assert_eq!(names(&changed).0, ["other"]);
        // Without servers started from the project there is nothing to trust.
        fs::write(project.join("tools/server.sh"), "exec cat").unwrap();
        fs::write(base.join(".config/crow-agent/mcp.json"), "{}").unwrap();
        assert!(trust::project_of(&project, &environment).unwrap().notice.is_none());
    }
}
