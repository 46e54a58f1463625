//! The product behind every adapter.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_agent::{AcpAgent, Surroundings, serve_latest};
use crow_core::{
    capability::Answerer,
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::SessionId,
    model::{Abilities, ModelRef, ModelRefError, Models},
    permission::{PermissionMode, PermissionPolicy},
};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, CommandOutcome, HostCommand, HostError,
    NewSession, OpenedWith, RuntimeConfig, SandboxConfig, SessionFilter, SessionMetadata,
    SessionOption, SessionSetup, SessionSpec, SessionStore, SessionUsage, ShutdownReport,
    SnapshotStores, StoredRules,
};
use jiff::Zoned;
use tokio::{sync::watch, task::spawn_blocking};

use super::{
    agents::{AgentSettings, Agents},
    changes::{self, Asked},
    default_model::DefaultModel,
    directory::still_there,
    options::{self, COMMANDS, MODEL, PERMISSIONS},
};
use crate::{
    CliError, Environment, credentials,
    known_secrets::redactor,
    product,
    render::ConsoleStyle,
    run::console_style,
    trust::{self, Project},
    undo::remove,
};

/// How long an agent may take to end when its session is closed.
const CLOSE: Duration = Duration::from_secs(3);
/// How many sessions the command `sessions` lists.
const LISTED: usize = 10;

/// What a host is made of.
pub(crate) struct HostParts {
    pub environment: Environment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, to list models and to find one where none is named.
    pub providers: Option<Arc<ProviderModels>>,
    /// The model to ask where neither the user nor the session names one and no provider is to be looked for.
    pub fallback: Option<ModelRef>,
    pub answerer: Arc<dyn Answerer>,
    pub permissions: PermissionMode,
    /// What holds commands; none if they may do what the user may do.
    pub sandbox: Option<SandboxConfig>,
    pub rules: StoredRules,
    /// What the project adds in which sessions work at first, and where that is.
    pub project: (PathBuf, Project),
    pub snapshots: Arc<SnapshotStores>,
    /// What is configured of agents.
    pub agents: AgentSettings,
    /// The model of those that look at the work of others, where the user chose one.
    pub reviewer_model: Option<ModelRef>,
}

/// The product behind every adapter.
pub(crate) struct ProductHost {
    store: Arc<dyn SessionStore>,
    environment: Environment,
    project: (PathBuf, Project),
    snapshots: Arc<SnapshotStores>,
    providers: Option<Arc<ProviderModels>>,
    default_model: DefaultModel,
    agents: Agents,
    reviewer_model: Option<ModelRef>,
    permissions: PermissionMode,
    runtime: AgentRuntime,
    open: Mutex<HashMap<SessionId, OpenSession>>,
    /// Held while a session is opened: whoever asks for it meanwhile gets the same one.
    opening: tokio::sync::Mutex<()>,
}

/// A session that is open. It stays so until it is closed, whoever else holds a handle.
struct OpenSession {
    handle: AgentHandle,
    /// Each run takes the newest.
    agent: watch::Sender<AcpAgent>,
    /// What the agent was asked for with.
    with: OpenedWith,
    /// What the user should be told of it.
    warnings: Vec<String>,
}

impl ProductHost {
    pub(crate) fn new(parts: HostParts) -> Self {
        let keys = parts.providers.as_ref().map(|providers| providers.key_variables());
        let config = RuntimeConfig {
            store: Arc::clone(&parts.store),
            models: Arc::clone(&parts.models),
            policy: PermissionPolicy::new(parts.permissions)
                .with_rules(parts.rules.managed)
                .with_rules(parts.rules.user),
            answerer: parts.answerer,
            redactor: redactor(&parts.environment, parts.providers.as_deref()),
            // Commands must not see keys.
            child_env: parts.environment.for_children(&keys.unwrap_or_default()),
            snapshots: Some(Arc::clone(&parts.snapshots)),
            sandbox: parts.sandbox,
            ..RuntimeConfig::default()
        };
        Self {
            store: parts.store,
            environment: parts.environment,
            project: parts.project,
            snapshots: parts.snapshots,
            default_model: DefaultModel {
                chosen: parts.fallback,
                providers: parts.providers.clone(),
            },
            providers: parts.providers,
            agents: Agents::new(parts.agents, parts.models),
            reviewer_model: parts.reviewer_model,
            permissions: parts.permissions,
            runtime: AgentRuntime::new(config),
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the runtime that all agents run on.
    pub(crate) fn runtime(&self) -> &AgentRuntime {
        &self.runtime
    }

    /// Returns what the user should be told of the agent of a session: that price and window of its model are unknown, that
    /// it works without a tool.
    pub(crate) fn warnings(&self, id: &SessionId) -> Vec<String> {
        let opened = self.opened();
        let Some(open) = opened.get(id) else { return Vec::new() };
        let of_model = open.agent.borrow().model().warning.clone();
        open.warnings.iter().cloned().chain(of_model).collect()
    }

    fn start(
        &self,
        mut session: AgentSession,
        agent: AcpAgent,
        with: OpenedWith,
        warnings: Vec<String>,
    ) -> Result<AgentHandle, HostError> {
        let cwd = session.metadata().crow().cwd;
        let id = session.id().clone();
        let Project { rules, notice, .. } = self.project_in(&cwd)?;
        session.add_rules(rules);
        let surroundings = Surroundings::gather(&cwd, Zoned::now().date().to_string());
        let (agent, agents) = watch::channel(agent);
        let handle = self.runtime.spawn(session, |mut internals| async move {
            if let Some(text) = notice {
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                internals.emit(AgentEvent::Notice { level, audience, text }).await?;
            }
            serve_latest(agents, surroundings, internals).await
        });
        let mut open = self.opened();
        open.retain(|_, open| !open.handle.state().is_end());
        open.insert(id, OpenSession { handle: handle.clone(), agent, with, warnings });
        Ok(handle)
    }

    /// Goes on with another model in an open session.
    async fn switch_model(&self, id: &SessionId, value: &str) -> Result<(), HostError> {
        let model = parse_model(value)?;
        let not_open = || HostError::NotOpen { id: id.clone() };
        let mut with = self.opened().get(id).ok_or_else(not_open)?.with.clone();
        with.model = Some(model.clone());
        let (agent, warnings) = self.agents.assemble(&with, Ok(model)).await?;
        let mut opened = self.opened();
        let open = opened.get_mut(id).ok_or_else(not_open)?;
        open.agent.send_replace(agent);
        (open.with, open.warnings) = (with, warnings);
        Ok(())
    }

    /// Returns what the project of a directory adds. Its providers are known only if the program was started there.
    fn project_in(&self, cwd: &Path) -> Result<Project, HostError> {
        let (known, project) = &self.project;
        if known == cwd {
            return Ok(project.clone());
        }
        let mut project = trust::project_of(cwd, &self.environment).map_err(|error| {
            HostError::Refused { message: error.message, hint: error.hint.unwrap_or_default() }
        })?;
        if !project.providers.is_empty() {
            project.notice = Some(format!(
                "the providers of the project in {} are known only to a crow-agent that is started there",
                cwd.display()
            ));
        }
        Ok(project)
    }

    fn running(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        self.runtime.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })
    }

    fn model_of(&self, id: &SessionId) -> Result<String, HostError> {
        let opened = self.opened();
        let open = opened.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
        let agent = open.agent.borrow();
        Ok(agent.model().info.reference.to_string())
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a command says of the changes of a session.
    async fn changes(
        &self,
        handle: AgentHandle,
        asked: Asked,
        argument: String,
    ) -> Result<String, HostError> {
        if asked.changes_files() {
            changes::idle(&handle).await?;
        }
        // What is returned is text for any adapter.
        let style = ConsoleStyle { colour: false, live: false, ..console_style(&self.environment) };
        let open = changes::Open { handle, store: Arc::clone(&self.store), style };
        blocking(move || asked.answer(&open, &argument)).await?
    }

    fn option(&self, handle: &AgentHandle, name: &str) -> Result<SessionOption, HostError> {
        match name {
            MODEL => {
                let model = self.model_of(handle.session_id())?;
                Ok(options::model_option(model, self.providers.as_deref()))
            }
            PERMISSIONS => Ok(options::permissions_option(handle)),
            name => Err(unknown("option", name)),
        }
    }
}

#[async_trait]
impl AgentHost for ProductHost {
    async fn create(&self, new: NewSession) -> Result<AgentHandle, HostError> {
        let NewSession { cwd, id, setup } = new;
        let model = setup.model.as_deref().map(parse_model).transpose()?;
        let default = match &model {
            Some(model) => Ok(model.clone()),
            None => self.default_model.find().await,
        };
        let agent = setup.agent.unwrap_or_else(|| self.agents.default_name().to_owned());
        let reviewer_model = self.reviewer_model.clone();
        let with = OpenedWith { agent, model, reviewer_model, ..OpenedWith::default() };
        let (agent, warnings) = self.agents.assemble(&with, default).await?;
        let (reference, abilities) = model_of(&agent);
        let spec = SessionSpec {
            id,
            abilities,
            permissions: Some(setup.permissions.unwrap_or(self.permissions)),
            opened_with: Some(with.clone()),
            ..SessionSpec::new(agent.primary().name(), reference, &cwd)
        };
        let config = Arc::clone(self.runtime.config());
        let session = blocking(move || AgentSession::create(&config, spec)).await??;
        self.start(session, agent, with, warnings)
    }

    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        let SessionSetup { agent, model, permissions, .. } = setup;
        let _opening = self.opening.lock().await;
        if let Some(handle) = self.runtime.get(id) {
            if let Some(model) = model {
                self.set_option(id, MODEL, &model).await?;
            }
            if let Some(mode) = permissions {
                handle.set_permission_mode(mode)?;
            }
            return Ok(handle);
        }
        let store = Arc::clone(&self.store);
        let wanted = id.clone();
        let stored = blocking(move || store.read(&wanted)).await??;
        still_there(&stored.metadata.crow().cwd)?;
        let mut with = opened_with(&stored.metadata);
        if let Some(agent) = agent {
            with.agent = agent;
        }
        if let Some(model) = model {
            with.model = Some(parse_model(&model)?);
        }
        if let Some(model) = &self.reviewer_model {
            with.reviewer_model = Some(model.clone());
        }
        let (agent, warnings) =
            self.agents.assemble(&with, Ok(stored.metadata.model_ref())).await?;
        let (config, wanted) = (Arc::clone(self.runtime.config()), id.clone());
        let (primary, kept) = (agent.primary().name().to_owned(), with.clone());
        let (reference, abilities) = model_of(&agent);
        let session = blocking(move || {
            let mut session = AgentSession::open(&config, &wanted, abilities)?;
            session.set_agent(&config, &primary, kept)?;
            session.set_model(&config, &reference, abilities)?;
            if permissions.is_some() {
                session.set_permission_mode(permissions)?;
            }
            Ok::<_, HostError>(session)
        })
        .await??;
        self.start(session, agent, with, warnings)
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError> {
        let store = Arc::clone(&self.store);
        Ok(blocking(move || store.list(&filter)).await??)
    }

    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError> {
        self.running(id)?;
        let report = self.runtime.shutdown(id, CLOSE).await;
        self.opened().remove(id);
        Ok(report)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), HostError> {
        self.runtime.shutdown(id, CLOSE).await;
        self.opened().remove(id);
        let (store, snapshots) = (Arc::clone(&self.store), Arc::clone(&self.snapshots));
        let id = id.clone();
        let removed = blocking(move || remove(store.as_ref(), &snapshots, &id)).await?;
        removed.map_err(changes::refused)
    }

    async fn fork(&self, id: &SessionId, _setup: SessionSetup) -> Result<AgentHandle, HostError> {
        let (store, wanted) = (Arc::clone(&self.store), id.clone());
        let stored = blocking(move || store.read(&wanted)).await??;
        still_there(&stored.metadata.crow().cwd)?;
        let with = opened_with(&stored.metadata);
        let (agent, warnings) =
            self.agents.assemble(&with, Ok(stored.metadata.model_ref())).await?;
        let (config, wanted) = (Arc::clone(self.runtime.config()), id.clone());
        let (_, abilities) = model_of(&agent);
        let session = blocking(move || AgentSession::fork(&config, &wanted, abilities)).await??;
        self.start(session, agent, with, warnings)
    }

    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError> {
        let (handle, title) = (self.running(id)?, title.to_owned());
        Ok(blocking(move || handle.set_title(&title)).await??)
    }

    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError> {
        let handle = self.running(id)?;
        [MODEL, PERMISSIONS].into_iter().map(|name| self.option(&handle, name)).collect()
    }

    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError> {
        let handle = self.running(id)?;
        match name {
            MODEL => self.switch_model(id, value).await?,
            PERMISSIONS => handle.set_permission_mode(options::parse_mode(value)?)?,
            name => return Err(unknown("option", name)),
        }
        Ok(())
    }

    async fn commands(&self, id: &SessionId) -> Result<Vec<HostCommand>, HostError> {
        self.running(id)?;
        Ok(COMMANDS.to_vec())
    }

    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<CommandOutcome, HostError> {
        let handle = self.running(id)?;
        let shown = match (name, argument.trim()) {
            ("sessions", _) => {
                let filter = SessionFilter {
                    cwd: Some(handle.metadata().crow().cwd),
                    limit: Some(LISTED),
                    after: None,
                };
                let sessions = self.list(filter).await?;
                Ok(sessions.iter().map(line).collect::<Vec<_>>().join("\n"))
            }
            (PERMISSIONS, "") => {
                let mode = options::show(&options::permissions_option(&handle));
                Ok(mode + &options::granted(&handle))
            }
            (PERMISSIONS, "forget") => {
                blocking(move || handle.forget_grants()).await??;
                Ok("what was allowed for this session is asked about again".to_owned())
            }
            (MODEL, "") => Ok(options::show(&self.option(&handle, name)?)),
            (MODEL | PERMISSIONS, value) => {
                self.set_option(id, name, value).await?;
                Ok(format!("{name}: {value}"))
            }
            (name, argument) => match Asked::named(name) {
                Some(asked) => self.changes(handle, asked, argument.to_owned()).await,
                None => Err(unknown("command", name)),
            },
        };
        shown.map(CommandOutcome::Shown)
    }

    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError> {
        self.running(id)?;
        Ok(SessionUsage::default())
    }

    async fn authenticate(&self) -> Result<(), HostError> {
        self.default_model.find().await.map(drop)
    }

    /// Forgets the key that the user's own command stored, if it is the only one. Sessions that are open keep it.
    async fn logout(&self) -> Result<(), HostError> {
        let refused = |error: CliError| HostError::Refused {
            message: error.message,
            hint: error.hint.unwrap_or_default(),
        };
        let file = product::credential_file(&self.environment).map_err(refused)?;
        blocking(move || credentials::forget_the_only(&file)).await?.map(drop).map_err(refused)
    }
}

impl fmt::Debug for ProductHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProductHost").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// Returns what a session was opened with, or what one of before there were several agents comes to.
fn opened_with(metadata: &SessionMetadata) -> OpenedWith {
    metadata.crow().opened_with.unwrap_or_else(|| OpenedWith {
        agent: metadata.agent_type.clone(),
        model: Some(metadata.model_ref()),
        ..OpenedWith::default()
    })
}

fn model_of(agent: &AcpAgent) -> (ModelRef, Abilities) {
    let info = &agent.model().info;
    (info.reference.clone(), info.abilities)
}

fn line(metadata: &SessionMetadata) -> String {
    let id: String = metadata.session_id.as_str().chars().take(18).collect();
    let crow = metadata.crow();
    format!("{id}  {}  {}", metadata.updated_at.strftime("%Y-%m-%d %H:%M"), crow.title)
}

fn parse_model(text: &str) -> Result<ModelRef, HostError> {
    text.parse().map_err(|error: ModelRefError| HostError::Refused {
        message: error.to_string(),
        hint: "`crow-agent models` shows them".to_owned(),
    })
}

fn unknown(what: &str, name: &str) -> HostError {
    HostError::Refused { message: format!("there is no {what} {name}"), hint: String::new() }
}

/// Does what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HostError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| HostError::Refused { message: error.to_string(), hint: String::new() })
}
