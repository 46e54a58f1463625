//! The product behind every adapter.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::{
    ids::SessionId,
    model::{ModelRef, ModelRefError, Models},
    permission::{PermissionMode, PermissionPolicy},
};
use crow_providers::{HttpClient, ProviderModels};
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, CommandOutcome, HostCommand, HostError,
    NewSession, ProviderChange, ProviderRoute, RuntimeConfig, SessionFilter, SessionMetadata,
    SessionOption, SessionSetup, SessionStore, SessionUsage, ShutdownReport, SnapshotStores,
};
use tokio::task::spawn_blocking;

use super::{
    changes::{self, ChangesRequest},
    choices::{ChoiceStore, OptionChoiceRecord},
    commands,
    default_model::DefaultModel,
    local_servers::LocalServerConsent,
    opened::{OpenSessions, SessionState},
    options::{self, AGENT, MODE, MODEL, PERMISSIONS},
    parts::{HostParts, Remembers},
    places::DirectoryConfigs,
    providers,
};
use crate::{
    credentials, environment::Environment, error::CliError, export::to_markdown,
    known_secrets::redactor, mcp::McpLaunch, product, render::ConsoleStyle, run::console_style,
    session_record::SessionRecord, trust::project_root, undo::remove,
};

/// How long an agent may take to end when its session is closed.
const CLOSE: Duration = Duration::from_secs(3);
/// The most characters of a title.
const TITLE: usize = 200;

/// The product behind every adapter.
pub(crate) struct ProductHost {
    pub(super) store: Arc<dyn SessionStore>,
    environment: Environment,
    pub(super) places: Arc<DirectoryConfigs>,
    snapshots: Arc<SnapshotStores>,
    models: Arc<dyn Models>,
    providers: Option<Arc<ProviderModels>>,
    pub(super) default_model: DefaultModel,
    /// What the command line says of sessions that do not say it themselves.
    pub(super) agent: Option<String>,
    pub(super) model: Option<ModelRef>,
    pub(super) reviewer_model: Option<ModelRef>,
    pub(super) permissions: Option<PermissionMode>,
    /// Where it is kept what the user chose last; none where nothing is remembered.
    pub(super) choices: Option<ChoiceStore>,
    runtime: AgentRuntime,
    /// Starts the servers whose tools agents have.
    pub(super) mcp: McpLaunch,
    pub(super) open: OpenSessions,
    /// Held while a session is opened or switched: whoever asks for it meanwhile gets the same one.
    opening: tokio::sync::Mutex<()>,
}

impl ProductHost {
    /// Makes a host. Blocks while it reads what the place is like in which the program was started.
    pub(crate) fn new(parts: HostParts) -> Self {
        let keys = parts.providers.as_ref().map(|providers| providers.key_variables());
        let config = RuntimeConfig {
            store: Arc::clone(&parts.store),
            models: Arc::clone(&parts.models),
            policy: PermissionPolicy::new(parts.permissions.unwrap_or_default())
                .with_rules(parts.rules.managed)
                .with_rules(parts.rules.user)
                .with_places(parts.places),
            answerer: parts.answerer,
            redactor: redactor(&parts.environment, parts.providers.as_deref()),
            // Commands must not see keys.
            child_env: parts.environment.for_children(&keys.unwrap_or_default()),
            snapshots: Some(Arc::clone(&parts.snapshots)),
            sandbox: parts.sandbox,
            ..RuntimeConfig::default()
        };
        let (environment, models) = (parts.environment, parts.models);
        let places = DirectoryConfigs::new(
            environment.clone(),
            parts.configured,
            parts.limits,
            Arc::clone(&models),
        );
        let (own, children) = (environment.clone(), config.child_env.clone());
        let mcp = if let Some(providers) = &parts.providers {
            McpLaunch::new(own, providers.client(), children)
        } else {
            // Whoever brings a model is on its own.
            McpLaunch::new(own, HttpClient::default(), children).without_configuration()
        };
        let places = match parts.start {
            Some(start) => places.with_start(start),
            None => places,
        };
        let choices = match parts.remembers {
            Remembers::Choices => ChoiceStore::of(&environment),
            Remembers::Nothing => None,
        };
        let local_servers = LocalServerConsent::new(&environment, parts.audience);
        Self {
            mcp,
            store: parts.store,
            environment,
            places: Arc::new(places),
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
            runtime: AgentRuntime::new(config),
            open: OpenSessions::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Asks nobody at the terminal from now on about model servers that are found.
    pub(crate) fn ask_no_more(&self) {
        self.default_model.local_servers.ask_no_more();
    }

    /// Returns the runtime that all agents run on.
    pub(crate) fn runtime(&self) -> &AgentRuntime {
        &self.runtime
    }

    /// Returns what the user should be told of the agent of a session: that price and window of its model are unknown, that
    /// it works without a tool. What is unknown of a model is left out if it is `warned_of`.
    pub(crate) fn warnings(&self, id: &SessionId, warned_of: Option<&ModelRef>) -> Vec<String> {
        self.open.warnings(id, warned_of)
    }

    /// Makes a session that works with what another one works with that is open.
    pub(crate) async fn create_like(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        let SessionState { handle, with, .. } = self.open.current(id)?;
        let crow = handle.metadata().crow();
        let setup = SessionSetup {
            agent: Some(with.agent.clone()),
            permissions: Some(handle.policy().mode()),
            additional_directories: Some(crow.additional_directories),
            system_prompt: with.system_prompt.clone(),
            ..SessionSetup::default()
        };
        let new = NewSession { cwd: crow.cwd, setup, ..NewSession::default() };
        let made = self.make(new).await?;
        let current = self.open.current(made.session_id())?;
        if current.with != with {
            self.switch(&current, with).await?;
        }
        Ok(made)
    }

    /// Keeps what a client handed over out of whatever is shown and logged.
    pub(super) fn keep_secret(&self, secrets: Vec<String>) {
        self.environment.given_later.learn(secrets.clone());
        self.runtime.config().redactor.learn(secrets);
    }

    /// Returns today's date where the user is.
    pub(super) fn today(&self) -> String {
        self.environment.today().to_string()
    }

    /// Returns a session as Markdown.
    pub(super) async fn markdown(&self, id: &SessionId) -> Result<String, HostError> {
        let record = self.record(id).await?;
        Ok(to_markdown(&record, &record.prices(&*self.models).await))
    }

    /// Reads all that is recorded of a session.
    pub(super) async fn record(&self, id: &SessionId) -> Result<SessionRecord, HostError> {
        let redactor = redactor(&self.environment, self.providers.as_deref());
        let (store, id) = (Arc::clone(&self.store), id.clone());
        let read = blocking(move || SessionRecord::read(store.as_ref(), &id, &redactor));
        Ok(read.await??)
    }

    /// Does what a command says of the changes of a session.
    pub(super) async fn changes(
        &self,
        handle: AgentHandle,
        asked: ChangesRequest,
        argument: String,
    ) -> Result<String, HostError> {
        if asked.changes_files() {
            changes::idle(&handle).await?;
        }
        // What is returned is text for any adapter.
        let style = ConsoleStyle { colour: false, live: false, ..console_style(&self.environment) };
        let open = changes::OpenSessionView { handle, store: Arc::clone(&self.store), style };
        blocking(move || asked.answer(&open, &argument)).await?
    }

    /// Returns what a session uses. Prices are looked up in what is there already.
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

    /// Keeps what the user chose for later sessions in the project.
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
                    let default = now.place.agents.default_name().to_owned();
                    choices.agent = Some(OptionChoiceRecord::new(value, Some(default)));
                    choices.mode = None;
                }
                MODE => choices.mode = now.with.mode,
                MODEL => {
                    let instead_of = now.place.model.clone();
                    choices.model =
                        now.with.model.map(|model| OptionChoiceRecord::new(model, instead_of));
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

    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        let setup = with_true_cwd(setup).await?;
        let _opening = self.opening.lock().await;
        match self.runtime.get(id) {
            Some(handle) => {
                self.set_up(id, &setup).await?;
                Ok(handle)
            }
            None => self.go_on(id, setup).await,
        }
    }

    async fn list(&self, mut filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError> {
        let store = Arc::clone(&self.store);
        let list = move || {
            // Sessions know their directory by its real name.
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
        removed.map_err(changes::refused)
    }

    async fn fork(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.copy(id, with_true_cwd(setup).await?).await
    }

    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError> {
        let words = title.split(|c: char| c.is_whitespace() || c.is_control());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let title: String = words.join(" ").chars().take(TITLE).collect();
        let _opening = self.opening.lock().await;
        let (id, config) = (id.clone(), Arc::clone(self.runtime.config()));
        let running = self.runtime.get(&id);
        let done = blocking(move || match running {
            Some(handle) => handle.set_title(&title),
            None => AgentSession::rename(&config, &id, &title),
        });
        Ok(done.await??)
    }

    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError> {
        let (current, providers) = (self.open.current(id)?, self.providers.clone());
        blocking(move || options::all(&current, providers.as_deref())).await
    }

    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError> {
        let _opening = self.opening.lock().await;
        let current = self.open.current(id)?;
        if name == PERMISSIONS {
            let (handle, mode) = (current.handle.clone(), options::parse_mode(value)?);
            blocking(move || handle.set_permission_mode(mode)).await??;
        } else {
            let with = options::chosen(&current, name, value)?;
            if name == MODEL {
                providers::enabled(self.providers.as_deref(), with.model.as_ref())?;
            }
            self.switch(&current, with).await?;
        }
        self.remember(&current, name, value).await
    }

    async fn commands(&self, id: &SessionId) -> Result<Vec<HostCommand>, HostError> {
        Ok(commands::list(&self.open.current(id)?))
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

    /// Forgets the key that the user's own command stored, if it is the only one. Sessions that are open send it no
    /// more: the next request of each asks for the key that is kept.
    async fn logout(&self) -> Result<(), HostError> {
        let file = product::credential_file(&self.environment).map_err(refused)?;
        blocking(move || credentials::forget_the_only(&file)).await?.map(drop).map_err(refused)
    }

    fn routes_providers(&self) -> bool {
        self.providers.is_some()
    }

    async fn providers(&self) -> Result<Vec<ProviderRoute>, HostError> {
        Ok(providers::routes(self.configured_providers()?))
    }

    async fn set_provider(&self, change: ProviderChange) -> Result<(), HostError> {
        let known = self.configured_providers()?;
        // Before anything is sent there, and said again by whoever is there.
        self.keep_secret(providers::secrets(&change));
        providers::set(known, change)
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

/// Sessions know their directory by its real name.
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

/// What a file of the user's says is wrong.
pub(super) fn refused(error: CliError) -> HostError {
    HostError::Refused { message: error.message, hint: error.hint.unwrap_or_default() }
}

/// Does what blocks on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HostError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| HostError::Refused { message: error.to_string(), hint: String::new() })
}
