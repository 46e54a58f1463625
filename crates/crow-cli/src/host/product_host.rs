//! The product behind every adapter.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_agent::{BaseAgent, Surroundings, serve_latest};
use crow_core::{
    capability::Answerer,
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::SessionId,
    model::{ModelRef, ModelRefError, Models, ResolvedModel},
    permission::{PermissionMode, PermissionPolicy},
};
use crow_providers::{Credentials, ProviderModels, discover};
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, HostCommand, HostError, NewSession,
    RuntimeConfig, SandboxConfig, SessionFilter, SessionMetadata, SessionOption, SessionSpec,
    SessionStore, ShutdownReport, SnapshotStores, StoredRules,
};
use jiff::Zoned;
use tokio::{sync::watch, task::spawn_blocking};

use super::{
    agent::{AGENT, builder},
    changes::{self, Asked},
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
    /// The most model calls of a run, or the default.
    pub max_steps: Option<u32>,
}

/// The product behind every adapter.
pub(crate) struct ProductHost {
    store: Arc<dyn SessionStore>,
    environment: Environment,
    project: (PathBuf, Project),
    snapshots: Arc<SnapshotStores>,
    models: Arc<dyn Models>,
    providers: Option<Arc<ProviderModels>>,
    fallback: Option<ModelRef>,
    max_steps: Option<u32>,
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
    agent: watch::Sender<BaseAgent>,
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
            models: parts.models,
            providers: parts.providers,
            fallback: parts.fallback,
            max_steps: parts.max_steps,
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

    /// Returns what the model of a session should be told about: that price and window are unknown.
    pub(crate) fn model_warning(&self, id: &SessionId) -> Option<String> {
        self.opened().get(id).and_then(|open| open.agent.borrow().model().warning.clone())
    }

    /// Opens a session with another model, or other permissions, than those that it was left with.
    pub(crate) async fn open_with(
        &self,
        id: &SessionId,
        model: Option<&str>,
        permissions: Option<PermissionMode>,
    ) -> Result<AgentHandle, HostError> {
        let _opening = self.opening.lock().await;
        if let Some(handle) = self.runtime.get(id) {
            if let Some(model) = model {
                self.set_option(id, MODEL, model).await?;
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
        let reference = match model {
            Some(text) => parse_model(text)?,
            None => stored.metadata.model_ref(),
        };
        let model = self.models.resolve(&reference).await?;
        let (config, wanted) = (Arc::clone(self.runtime.config()), id.clone());
        let abilities = model.info.abilities;
        let session = blocking(move || {
            let mut session = AgentSession::open(&config, &wanted, abilities)?;
            session.set_model(&config, &reference, abilities)?;
            if permissions.is_some() {
                session.set_permission_mode(permissions)?;
            }
            Ok::<_, HostError>(session)
        })
        .await??;
        self.start(session, model)
    }

    fn start(
        &self,
        mut session: AgentSession,
        model: ResolvedModel,
    ) -> Result<AgentHandle, HostError> {
        let cwd = session.metadata().crow().cwd;
        let id = session.id().clone();
        let Project { rules, notice, .. } = self.project_in(&cwd)?;
        session.add_rules(rules);
        let surroundings = Surroundings::gather(&cwd, Zoned::now().date().to_string());
        let (agent, agents) = watch::channel(builder(model, self.max_steps));
        let handle = self.runtime.spawn(session, |mut internals| async move {
            if let Some(text) = notice {
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                internals.emit(AgentEvent::Notice { level, audience, text }).await?;
            }
            serve_latest(agents, surroundings, internals).await
        });
        let mut open = self.opened();
        open.retain(|_, open| !open.handle.state().is_end());
        open.insert(id, OpenSession { handle: handle.clone(), agent });
        Ok(handle)
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

    /// Finds the model to ask when nobody names one: that of the first provider with a key, else a local server's.
    async fn default_model(&self) -> Result<ModelRef, HostError> {
        if let Some(model) = &self.fallback {
            return Ok(model.clone());
        }
        let Some(providers) = &self.providers else { return Err(no_model()) };
        if let Some(model) = providers.default_model() {
            return Ok(model);
        }
        // A key that is there and cannot be used is not passed over in silence.
        if let Some(reason) =
            providers.list().into_iter().find_map(|provider| match provider.credentials {
                Credentials::Unusable { reason } => Some(format!("{}: {reason}", provider.name)),
                Credentials::Present
                | Credentials::Stored
                | Credentials::NotNeeded
                | Credentials::Missing { .. } => None,
            })
        {
            let hint = "mend this, or name a model with --model".to_owned();
            return Err(HostError::Refused { message: reason, hint });
        }
        let found = discover(providers).await;
        let first = found.into_iter().find_map(|server| {
            let model = server.models.into_iter().next()?;
            Some(ModelRef { provider: server.provider, model: model.id })
        });
        first.ok_or_else(no_model)
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
        if let Some(name) = new.agent.as_deref().filter(|name| *name != AGENT) {
            return Err(unknown("agent", name));
        }
        let reference = match &new.model {
            Some(text) => parse_model(text)?,
            None => self.default_model().await?,
        };
        let model = self.models.resolve(&reference).await?;
        let spec = SessionSpec {
            id: new.id,
            abilities: model.info.abilities,
            permissions: Some(new.permissions.unwrap_or(self.permissions)),
            ..SessionSpec::new(AGENT, reference, &new.cwd)
        };
        let config = Arc::clone(self.runtime.config());
        let session = blocking(move || AgentSession::create(&config, spec)).await??;
        self.start(session, model)
    }

    async fn open(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        self.open_with(id, None, None).await
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

    async fn fork(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        let (store, wanted) = (Arc::clone(&self.store), id.clone());
        let stored = blocking(move || store.read(&wanted)).await??;
        still_there(&stored.metadata.crow().cwd)?;
        let model = self.models.resolve(&stored.metadata.model_ref()).await?;
        let (config, wanted) = (Arc::clone(self.runtime.config()), id.clone());
        let abilities = model.info.abilities;
        let session = blocking(move || AgentSession::fork(&config, &wanted, abilities)).await??;
        self.start(session, model)
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
            MODEL => {
                let model = self.models.resolve(&parse_model(value)?).await?;
                let opened = self.opened();
                let open = opened.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
                open.agent.send_replace(builder(model, self.max_steps));
            }
            PERMISSIONS => handle.set_permission_mode(options::parse_mode(value)?)?,
            name => return Err(unknown("option", name)),
        }
        Ok(())
    }

    fn commands(&self) -> Vec<HostCommand> {
        COMMANDS.to_vec()
    }

    async fn run_command(
        &self,
        id: &SessionId,
        name: &str,
        argument: &str,
    ) -> Result<String, HostError> {
        let handle = self.running(id)?;
        match (name, argument.trim()) {
            ("sessions", _) => {
                let filter =
                    SessionFilter { cwd: Some(handle.metadata().crow().cwd), limit: Some(LISTED) };
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
        }
    }

    async fn authenticate(&self) -> Result<(), HostError> {
        self.default_model().await.map(drop)
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

/// One screen that says how to get going.
fn no_model() -> HostError {
    let hint = "\
Give a provider's key, for example one of
  export ANTHROPIC_API_KEY=…     export OPENAI_API_KEY=…
  export GEMINI_API_KEY=…        export OPENROUTER_API_KEY=…
or store it with `crow-agent login PROVIDER`, and run again. Or start a model server on this machine (Ollama, llama.cpp, LM Studio, vLLM): it is found by itself.

  crow-agent models              shows providers, models and what is missing
  crow-agent run -m PROVIDER/MODEL \"task\"   names the model yourself
  crow-agent demo                shows Crow at work without any model";
    HostError::NoCredentials {
        message:
            "there is no model to talk to: no provider has a key, and no local model server answers"
                .to_owned(),
        hint: hint.to_owned(),
    }
}
