//! [`ProductHost`]: the implementation of [`AgentHost`] that every adapter of the program uses.
//!
//! An open session is listed twice: in the runtime as a running task, and in `open` with what its agent was assembled from.
//! `opening` serialises opening, switching, renaming and deleting, so that two requests for one session do not start two
//! agents. Work that blocks on files runs in [`blocking`].

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_agent::SamplingChoice;
use crow_core::{
    capability::{Answerer, Http},
    ids::SessionId,
    model::{ModelRef, ModelRefError, Models},
    network::Network,
    permission::{PermissionMode, PermissionPolicy, SandboxPaths},
};
use crow_providers::{HttpClient, ProviderModels};
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, CommandOutcome, HostCommand, HostError,
    LinkSearchConfig, NewSession, ProviderChange, ProviderRoute, RuntimeConfig, SandboxConfig,
    SessionFilter, SessionMetadata, SessionOption, SessionSetup, SessionStore, SessionUsage,
    ShutdownReport, SnapshotStores, StoredRules, UndoError,
};
use crow_telemetry::otel::OtelReport;
use tokio::task::spawn_blocking;

use super::{
    choices::{ChoiceStore, OptionChoiceRecord},
    default_model::{DefaultModel, LocalServerConsent},
    directory_configs::DirectoryConfigs,
    front_end_commands::{CommandSession, SessionCommands, SessionRecord, read_record},
    opened::{OpenSessions, SessionState},
    options::{self, AGENT, MODE, MODEL, PERMISSIONS},
    providers,
};
use crate::{
    config::{AgentLimits, Configuration, TerminalSettings},
    credentials,
    dialog::{Audience, UserDialog},
    environment::ProcessEnvironment,
    error::AppError,
    known_secrets::redactor,
    mcp::{McpLaunch, SystemBrowser},
    model_lists::ModelLists,
    product,
    sandbox::sandbox_folder,
    skills::UserSkillReader,
    telemetry::HostTelemetry,
    trust::{Project, project_root},
    web::{WebTools, search_service},
};

/// Time an agent may take to end when its session is closed or deleted.
const CLOSE: Duration = Duration::from_secs(3);
/// Maximum length of a session title, in characters.
const TITLE: usize = 200;

/// Everything that [`ProductHost`] is built from.
pub struct HostParts {
    pub environment: ProcessEnvironment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, to list models and to find one where none is named.
    pub providers: Option<Arc<ProviderModels>>,
    /// Default model of sessions for which neither user nor session names one; overrides the configuration.
    pub fallback: Option<ModelRef>,
    pub answerer: Arc<dyn Answerer>,
    /// Audience of questions before the first session: a person at the terminal, or nobody.
    pub audience: Audience,
    /// Shows messages before the first session, and asks the person.
    pub dialog: Arc<dyn UserDialog>,
    /// Agent from the command line, for sessions that name none.
    pub agent: Option<String>,
    /// Model from the command line, for sessions that name none.
    pub model: Option<ModelRef>,
    /// Permission mode from the command line, for calls that no rule matches.
    pub permissions: Option<PermissionMode>,
    /// Sandbox of commands; `None` if commands run with all rights of the user.
    pub sandbox: Option<SandboxConfig>,
    /// Path restrictions of file tools; they apply also without a sandbox.
    pub sandbox_paths: SandboxPaths,
    /// Hosts that commands and web tools may reach; it applies to web tools also without a sandbox.
    pub network: Network,
    /// Search for links that lead away from hidden paths; `None` searches for none. It also restricts file tools.
    pub links: Option<LinkSearchConfig>,
    pub rules: StoredRules,
    /// Commands of the front end; `None` if sessions have only those of the host.
    pub session_commands: Option<Arc<dyn SessionCommands>>,
    /// Configuration already read for the directory in which the program was started. Providers of a project exist
    /// only there.
    pub start: Option<StartPlace>,
    /// The user's skills, if they are being read already.
    pub user_skills: Option<UserSkillReader>,
    /// Source of the configuration of other directories.
    pub configuration_source: ConfigurationSource,
    pub snapshots: Arc<SnapshotStores>,
    /// Bounds of agents from the command line.
    pub limits: AgentLimits,
    /// How the models of all agents sample.
    pub sampling: SamplingChoice,
    /// Model of reviewers from the command line.
    pub reviewer_model: Option<ModelRef>,
    /// Source of the initial options of new sessions.
    pub choice_memory: ChoiceMemory,
}

/// Makes the web tools. If the search service is configured wrongly, returns the message, and there is no search.
fn web_tools(parts: &HostParts) -> (WebTools, Option<String>) {
    let http: Arc<dyn Http> = match &parts.providers {
        Some(providers) => Arc::new(providers.client()),
        None => Arc::new(HttpClient::default()),
    };
    let settings = parts.start.as_ref().map(|start| &start.configuration.settings);
    let search = settings.map(|settings| search_service(&settings.web_search, &parts.environment));
    let (search, fault) = match search.transpose() {
        Ok(search) => (search.flatten(), None),
        Err(error) => (None, Some(error.to_string())),
    };
    (WebTools::new(http, parts.network.clone(), search), fault)
}

impl fmt::Debug for HostParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostParts").field("environment", &self.environment).finish_non_exhaustive()
    }
}

/// Configuration of the directory in which the program was started.
#[derive(Debug, Clone)]
pub struct StartPlace {
    pub cwd: PathBuf,
    /// Project configuration there, as far as the user trusts it.
    pub project: Project,
    pub configuration: Configuration,
}

/// Source of the configuration of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigurationSource {
    /// The user's files, and those of a trusted project.
    InFiles,
    /// Only what is built into the program.
    Shipped,
}

/// Source of the initial options of new sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceMemory {
    /// Choices are remembered: the chat in a terminal.
    Persistent,
    /// Nothing is remembered: a script must do the same every time, and an editor has several sessions and its own
    /// defaults.
    Disabled,
}

/// Host of all sessions of one process.
pub struct ProductHost {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) environment: ProcessEnvironment,
    pub(super) directory_configs: Arc<DirectoryConfigs>,
    snapshots: Arc<SnapshotStores>,
    models: Arc<dyn Models>,
    providers: Option<Arc<ProviderModels>>,
    pub(super) default_model: DefaultModel,
    /// Agent named on the command line, for sessions that name none. The next three fields are defaults of the same
    /// kind.
    pub(super) agent: Option<String>,
    pub(super) model: Option<ModelRef>,
    pub(super) reviewer_model: Option<ModelRef>,
    pub(super) permissions: Option<PermissionMode>,
    /// File of the last choices per project; `None` if choices are not remembered.
    pub(super) choices: Option<ChoiceStore>,
    /// Commands of the front end.
    pub(super) session_commands: Option<Arc<dyn SessionCommands>>,
    runtime: AgentRuntime,
    /// Starts the MCP servers whose tools agents use.
    pub(super) mcp: McpLaunch,
    pub(super) telemetry: HostTelemetry,
    /// Error of the telemetry configuration; part of the warnings of each session.
    /// Mistakes in the configuration of telemetry and web search.
    faults: Vec<String>,
    terminal: TerminalSettings,
    pub(super) open: OpenSessions,
    /// Locked while a session is opened, switched, renamed or deleted: a concurrent request gets the same session.
    pub(super) opening: tokio::sync::Mutex<()>,
}

impl ProductHost {
    /// Creates a host. Blocks: it reads the configuration of the directory in which the program was started.
    pub fn new(parts: HostParts) -> Self {
        let start = parts.start.as_ref().map(|start| &start.configuration.settings);
        let terminal = start.map(|settings| settings.terminal.clone()).unwrap_or_default();
        let own = start.map(|settings| &settings.telemetry);
        let (telemetry, telemetry_fault) = match (&parts.providers, own) {
            (Some(providers), Some(table)) => {
                let (http, models) = (Arc::new(providers.client()), Arc::clone(&parts.models));
                HostTelemetry::new(table, &parts.environment, http, models)
            }
            (None, _) | (_, None) => (HostTelemetry::off(), None),
        };
        let (web, search_fault) = web_tools(&parts);
        // 1) Configuration of the runtime: policy, environment of children, sandbox, snapshots.
        let keys = parts.providers.as_ref().map(|providers| providers.key_variables());
        let config = RuntimeConfig {
            store: Arc::clone(&parts.store),
            models: Arc::clone(&parts.models),
            policy: PermissionPolicy::new(parts.permissions.unwrap_or_default())
                .with_rules(web.rules())
                .with_rules(parts.rules.managed)
                .with_rules(parts.rules.user)
                .with_places(parts.sandbox_paths)
                .with_network(parts.network),
            answerer: parts.answerer,
            redactor: redactor(&parts.environment, parts.providers.as_deref()),
            // Commands must not see keys.
            child_env: parts.environment.child_environment(&keys.unwrap_or_default()),
            snapshots: Some(Arc::clone(&parts.snapshots)),
            sandbox: parts.sandbox,
            sandbox_folder: sandbox_folder(&parts.environment).ok(),
            links: parts.links,
            trace_sampling: telemetry.sampling(),
            ..RuntimeConfig::default()
        };
        let (environment, models) = (parts.environment, parts.models);
        // 2) What the host itself needs: configurations of directories, MCP servers, last choices, consent to local
        // servers.
        let places = DirectoryConfigs::new(
            environment.clone(),
            parts.configuration_source,
            (parts.limits, parts.sampling),
            Arc::clone(&models),
            web,
            config.answerer.is_attended(),
            parts.user_skills,
        );
        let (own, children) = (environment.clone(), config.child_env.clone());
        let mcp = if let Some(providers) = &parts.providers {
            McpLaunch::new(own, providers.client(), children)
        } else {
            // Without providers the caller brings its own model (demo, tests): no servers of the configuration are
            // started.
            McpLaunch::new(own, HttpClient::default(), children).without_configuration()
        };
        let mcp = mcp.with_redactor(config.redactor.clone());
        let mcp = if config.answerer.is_attended() {
            mcp.with_browser(Arc::new(SystemBrowser::new(&environment)))
        } else {
            mcp
        };
        let places = match parts.start {
            Some(start) => places.with_start(start),
            None => places,
        };
        let choices = match parts.choice_memory {
            ChoiceMemory::Persistent => ChoiceStore::open(&environment),
            ChoiceMemory::Disabled => None,
        };
        let local_servers = LocalServerConsent::new(&environment, parts.audience, parts.dialog);
        Self {
            mcp,
            telemetry,
            terminal,
            faults: telemetry_fault.into_iter().chain(search_fault).collect(),
            store: parts.store,
            environment,
            directory_configs: Arc::new(places),
            snapshots: parts.snapshots,
            models,
            default_model: DefaultModel {
                chosen: parts.fallback,
                providers: parts.providers.clone(),
                local_servers,
            },
            providers: parts.providers,
            agent: parts.agent,
            model: parts.model,
            reviewer_model: parts.reviewer_model,
            permissions: parts.permissions,
            choices,
            session_commands: parts.session_commands,
            runtime: AgentRuntime::new(config),
            open: OpenSessions::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Stops asking at the terminal about discovered model servers.
    pub fn disable_questions(&self) {
        self.default_model.local_servers.disable_questions();
    }

    /// Returns the runtime that all agents run on.
    pub fn runtime(&self) -> &AgentRuntime {
        &self.runtime
    }

    /// Returns the settings of the interactive terminal.
    pub fn terminal_settings(&self) -> &TerminalSettings {
        &self.terminal
    }

    /// Returns warnings about the agent of a session: unknown price or context window of its model, no tools. The
    /// warning about the model is left out if the model is `warned_of`.
    pub fn warnings(&self, id: &SessionId, warned_of: Option<&ModelRef>) -> Vec<String> {
        let mut warnings = self.open.warnings(id, warned_of);
        warnings.extend(self.faults.iter().cloned());
        warnings
    }

    /// Ends all agents, and sends the rest of their telemetry. Agents that miss the deadline are aborted. Returns a message
    /// for the user if some telemetry could not be sent.
    pub async fn shut_down(&self, deadline: Duration) -> Option<String> {
        self.runtime.shutdown_all(deadline).await;
        let report = self.telemetry.shut_down().await?;
        let OtelReport { sent, dropped } = report;
        (dropped > 0).then(|| {
            format!(
                "{dropped} of {} parts of the telemetry were not sent",
                sent.saturating_add(dropped)
            )
        })
    }

    /// Registers secrets that a client passed, so that they are redacted in output and logs.
    pub(super) fn keep_secret(&self, secrets: Vec<String>) {
        self.environment.late_secrets.learn(secrets.clone());
        self.runtime.config().redactor.learn(secrets);
    }

    /// Returns today's date in the user's time zone.
    pub(super) fn today(&self) -> String {
        self.environment.today().to_string()
    }

    /// Reads the record of a session, redacted.
    pub(super) async fn record(&self, id: &SessionId) -> Result<SessionRecord, HostError> {
        let store = Arc::clone(&self.store);
        read_record(store, &self.environment, self.providers.as_deref(), id).await
    }

    /// Returns a session as the commands of the front end use it.
    pub(super) fn command_session(&self, current: &SessionState) -> CommandSession {
        CommandSession {
            handle: current.handle.clone(),
            servers: current.servers(),
            store: Arc::clone(&self.store),
            models: Arc::clone(&self.models),
            environment: self.environment.clone(),
            providers: self.providers.clone(),
        }
    }

    /// Returns context size, window and cost of a session. Uses only prices that are loaded already; the cost is
    /// `None` if one is missing.
    pub(super) async fn usage_of(&self, current: &SessionState) -> SessionUsage {
        let mut cost = Some(0.0);
        for (model, usage) in current.handle.spent() {
            let price = self.models.price(&model).await;
            cost = cost.zip(price).map(|(sum, price)| sum + price.cost(&usage));
        }
        SessionUsage {
            context_tokens: current.handle.context_tokens(),
            context_window: current.model.context_window,
            cost_usd: cost,
        }
    }

    fn configured_providers(&self) -> Result<&ProviderModels, HostError> {
        let providers = self.providers.as_deref();
        providers.ok_or(HostError::Unsupported { what: "choosing where providers are called" })
    }

    /// Stores a changed option as the default of later sessions in the project.
    async fn remember(
        &self,
        current: &SessionState,
        name: &str,
        value: &str,
    ) -> Result<(), HostError> {
        let Some(store) = self.choices.clone() else { return Ok(()) };
        let now = self.open.current(current.handle.session_id())?;
        let (name, value) = (name.to_owned(), value.to_owned());
        blocking(move || {
            let cwd = now.handle.metadata().crow().cwd;
            store.change(&project_root(&cwd), |choices| match name.as_str() {
                AGENT => {
                    let default = now.config.agents.default_name().to_owned();
                    choices.agent = Some(OptionChoiceRecord::new(value, Some(default)));
                    choices.mode = None;
                }
                MODE => choices.mode = now.opened_with.mode,
                MODEL => {
                    let instead_of = now.config.model.clone();
                    choices.model = now
                        .opened_with
                        .model
                        .map(|model| OptionChoiceRecord::new(model, instead_of));
                }
                PERMISSIONS => {
                    let mode = options::parse_mode(&value).ok();
                    choices.permissions = mode.filter(|mode| *mode != PermissionMode::FullAuto);
                }
                _ => {}
            });
        })
        .await
    }
}

#[async_trait]
impl AgentHost for ProductHost {
    async fn create(&self, session: NewSession) -> Result<AgentHandle, HostError> {
        self.make(session).await
    }

    async fn create_like(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        let SessionState { handle, opened_with: with, .. } = self.open.current(id)?;
        let crow = handle.metadata().crow();
        let setup = SessionSetup {
            agent: Some(with.agent.clone()),
            permissions: Some(handle.permissions().policy().mode()),
            additional_directories: Some(crow.additional_directories),
            system_prompt: with.system_prompt.clone(),
            ..SessionSetup::default()
        };
        let new = NewSession { cwd: crow.cwd, setup, ..NewSession::default() };
        let created = self.make(new).await?;
        let current = self.open.current(created.session_id())?;
        if current.opened_with != with {
            self.switch(&current, with).await?;
        }
        Ok(created)
    }

    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        let setup = with_true_cwd(setup).await?;
        let _opening = self.opening.lock().await;
        match self.runtime.get(id) {
            Some(handle) => {
                self.apply_setup(id, &setup).await?;
                Ok(handle)
            }
            None => self.open_stored(id, setup).await,
        }
    }

    async fn list(&self, mut filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError> {
        let store = Arc::clone(&self.store);
        let list = move || {
            // Sessions store the canonical path of their directory.
            filter.cwd = filter.cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd));
            store.list(&filter)
        };
        Ok(blocking(list).await??)
    }

    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError> {
        if !self.runtime.is_running(id) {
            return Err(HostError::NotOpen { id: id.clone() });
        }
        let report = self.runtime.shutdown(id, CLOSE).await;
        self.open.remove(id);
        Ok(report)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), HostError> {
        let _opening = self.opening.lock().await;
        self.runtime.shutdown(id, CLOSE).await;
        self.open.remove(id);
        let (store, snapshots) = (Arc::clone(&self.store), Arc::clone(&self.snapshots));
        let id = id.clone();
        let removed = blocking(move || remove(store.as_ref(), &snapshots, &id)).await?;
        removed.map_err(|error| match error {
            UndoError::Session(error) => error.into(),
            error => HostError::Refused { message: error.to_string(), hint: String::new() },
        })
    }

    async fn fork(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.copy(id, with_true_cwd(setup).await?).await
    }

    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError> {
        let title = session_title(title);
        let _opening = self.opening.lock().await;
        let (id, config) = (id.clone(), Arc::clone(self.runtime.config()));
        let running = self.runtime.get(&id);
        let renamed = blocking(move || match running {
            Some(handle) => handle.header().set_title(&title),
            None => AgentSession::rename(&config, &id, &title),
        });
        Ok(renamed.await??)
    }

    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError> {
        let (current, providers) = (self.open.current(id)?, self.providers.clone());
        let environment = self.environment.clone();
        let gather = move || {
            let lists = ModelLists::load(&environment);
            options::all(&current, providers.as_deref(), &lists)
        };
        blocking(gather).await
    }

    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError> {
        let _opening = self.opening.lock().await;
        let current = self.open.current(id)?;
        if name == PERMISSIONS {
            let (handle, mode) = (current.handle.clone(), options::parse_mode(value)?);
            blocking(move || handle.permissions().set_mode(mode)).await??;
        } else {
            let with = options::with_option(&current, name, value)?;
            if name == MODEL {
                providers::enabled(self.providers.as_deref(), with.model.as_ref())?;
            }
            self.switch(&current, with).await?;
        }
        self.remember(&current, name, value).await
    }

    async fn commands(&self, id: &SessionId) -> Result<Vec<HostCommand>, HostError> {
        Ok(self.commands_of(&self.open.current(id)?).await)
    }

    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<CommandOutcome, HostError> {
        self.command(self.open.current(id)?, name, argument).await
    }

    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError> {
        Ok(self.usage_of(&self.open.current(id)?).await)
    }

    async fn authenticate(&self) -> Result<(), HostError> {
        self.default_model.find(None).await.map(drop)
    }

    /// Removes the stored key of the credential file if it is the only one. Open sessions stop sending it: each
    /// request reads the stored key anew.
    async fn logout(&self) -> Result<(), HostError> {
        let file = product::credential_file(&self.environment).map_err(refused)?;
        blocking(move || credentials::remove_only_key(&file)).await?.map(drop).map_err(refused)
    }

    fn routes_providers(&self) -> bool {
        self.providers.is_some()
    }

    async fn providers(&self) -> Result<Vec<ProviderRoute>, HostError> {
        Ok(providers::routes(self.configured_providers()?))
    }

    async fn set_provider(&self, change: ProviderChange) -> Result<(), HostError> {
        let configured = self.configured_providers()?;
        // Registered before the first request is sent, because the server may echo these values.
        self.keep_secret(providers::secrets(&change));
        providers::set(configured, change)
    }

    async fn disable_provider(&self, id: &str) -> Result<(), HostError> {
        self.configured_providers()?.disable(id);
        Ok(())
    }
}

impl fmt::Debug for ProductHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProductHost").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// Resolves the directory of a setup: sessions store the canonical path. A path that cannot be resolved is left as it is.
async fn with_true_cwd(setup: SessionSetup) -> Result<SessionSetup, HostError> {
    blocking(move || {
        let cwd = setup.cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd));
        SessionSetup { cwd, ..setup }
    })
    .await
}

pub(super) fn parse_model(text: &str) -> Result<ModelRef, HostError> {
    text.parse().map_err(|error: ModelRefError| HostError::Refused {
        message: error.to_string(),
        hint: "`crow-agent models` shows them".to_owned(),
    })
}

/// Converts an error of the user's files into a refusal.
pub(super) fn refused(error: AppError) -> HostError {
    HostError::Refused { message: error.message, hint: error.hint.unwrap_or_default() }
}

/// Runs blocking work on a thread of the blocking pool. Fails if the work panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HostError> {
    let result = spawn_blocking(work).await;
    result.map_err(|error| HostError::Refused { message: error.to_string(), hint: String::new() })
}

/// Removes a session permanently, and the snapshots that only it refers to. Blocks.
pub fn remove(
    store: &dyn SessionStore,
    snapshots: &SnapshotStores,
    id: &SessionId,
) -> Result<(), UndoError> {
    // The root of an unreadable session is unknown, so its snapshots stay; the session is removed all the same.
    let root = store.header(id).ok().map(|header| header.crow().cwd);
    store.remove(id)?;
    if let Some(root) = root {
        snapshots.forget_session(&root, id)?;
    }
    Ok(())
}

/// Returns a title of a session as it is stored: on one line, and not too long.
pub fn session_title(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(TITLE).collect()
}
