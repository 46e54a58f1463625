//! A host whose agents use a scripted model.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use crow_agent::{AcpAgent, AgentConfig, BaseAgent, Surroundings, serve};
use crow_core::{
    ids::SessionId,
    mcp::McpServerConfig,
    message::Block,
    permission::{PermissionMode, PermissionPolicy},
    tool::{SOURCED_NAME, ToolRegistry, ToolSource},
};
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, CommandOutcome, HostCommand, HostError,
    NewSession, OptionChoice, OptionKind, ProviderAddress, ProviderChange, ProviderNecessity,
    ProviderProtocol, ProviderRoute, RuntimeConfig, SessionFilter, SessionMetadata, SessionOption,
    SessionSetup, SessionSpec, SessionUsage, ShutdownReport,
};

use serde_json::Value;

use crate::scripted::{ScriptedModel, ScriptedModels};

const CLOSE: Duration = Duration::from_secs(3);
const PERMISSIONS: &str = "permissions";
/// Key of the options in a session's metadata.
const OPTIONS_KEY: &str = "scripted_options";
/// Options besides the permissions: name, kind, values. The first value is the default.
static OPTIONS: [(&str, OptionKind, &[&str]); 4] = [
    ("mode", OptionKind::ControlFlow, &["hitl", "loop", "judge"]),
    ("thinking", OptionKind::Thinking, &["default", "off", "high"]),
    ("agent", OptionKind::Agent, &["builder", "planner"]),
    ("reviewer", OptionKind::Reviewer, &["none", "reviewer"]),
];
static COMMANDS: [HostCommand; 2] = [
    HostCommand::new("echo", "[TEXT]", "says it again"),
    HostCommand::new("greet", "[NAME]", "has the agent greet somebody"),
];

type SourceOf = dyn Fn(Vec<McpServerConfig>) -> Arc<dyn ToolSource> + Send + Sync;

/// A host whose agents use a scripted model.
///
/// It has the permissions and other options, which are stored with the session and have no other effect, and two
/// commands: `echo` returns its argument, `greet` returns a prompt. Of its two providers `main` is required. Routing
/// them changes their list, and disabling one changes the description of the option `thinking`. All requests are
/// recorded.
pub struct ScriptedHost {
    model: ScriptedModel,
    source_of: Option<Box<SourceOf>>,
    tools: ToolRegistry,
    runtime: AgentRuntime,
    /// Open sessions. The handles here keep their agents alive until they are closed.
    open: Mutex<HashMap<SessionId, AgentHandle>>,
    requests: Mutex<Vec<String>>,
    providers: Mutex<Vec<ProviderRoute>>,
}

impl ScriptedHost {
    /// Creates a host. The models and the policy of `config` are replaced; all calls may run.
    pub fn new(model: ScriptedModel, tools: ToolRegistry, config: RuntimeConfig) -> Self {
        let models = Arc::new(ScriptedModels(model.clone()));
        let policy = PermissionPolicy::new(PermissionMode::FullAuto);
        let runtime = AgentRuntime::new(RuntimeConfig { models, policy, ..config });
        let (open, asked, providers) =
            (Mutex::default(), Mutex::default(), Mutex::new(providers()));
        Self { model, source_of: None, tools, runtime, open, requests: asked, providers }
    }

    /// Sets the function that makes tools of the MCP servers that a client passes at the start of a session.
    #[must_use]
    pub fn with_servers(
        mut self,
        source_of: impl Fn(Vec<McpServerConfig>) -> Arc<dyn ToolSource> + Send + Sync + 'static,
    ) -> Self {
        self.source_of = Some(Box::new(source_of));
        self
    }

    /// Returns the recorded requests, such as `create` and `close ID`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn routes(&self) -> MutexGuard<'_, Vec<ProviderRoute>> {
        self.providers.lock().unwrap()
    }

    fn record(&self, request: impl Into<String>) {
        self.requests.lock().unwrap().push(request.into());
    }

    fn start(&self, session: AgentSession, servers: Vec<McpServerConfig>) -> AgentHandle {
        let cwd = session.metadata().crow().cwd;
        let (all, _) =
            self.tools.for_agent(&self.tools.names().map(str::to_owned).collect::<Vec<_>>());
        let agent = BaseAgent::new("builder", AgentConfig::default(), self.model.resolved(), all)
            .with_sourced(vec![format!("{SOURCED_NAME}*")]);
        let source = self.source_of.as_ref().map(|source_of| source_of(servers));
        let surroundings = Surroundings { cwd, ..Surroundings::default() };
        let id = session.id().clone();
        let handle = self.runtime.spawn(session, |internals| async move {
            // The source of the client's tools is closed when the agent ends.
            let Some(source) = source else {
                return Box::pin(serve(AcpAgent::solo(agent), surroundings, internals)).await;
            };
            internals.offer_tools(Arc::clone(&source));
            let served = Box::pin(serve(AcpAgent::solo(agent), surroundings, internals)).await;
            source.close().await;
            served
        });
        self.open.lock().unwrap().insert(id, handle.clone());
        handle
    }

    /// Applies the permissions and the agent of `setup` to a session.
    fn set_up(handle: &AgentHandle, setup: &SessionSetup) -> Result<(), HostError> {
        if let Some(mode) = setup.permissions {
            handle.permissions().set_mode(mode)?;
        }
        if let Some(agent) = &setup.agent {
            store_option(handle, "agent", agent)?;
        }
        Ok(())
    }

    fn refuse_elsewhere(&self, id: &SessionId, setup: &SessionSetup) -> Result<(), HostError> {
        let cwd = self.runtime.config().store.header(id)?.crow().cwd;
        setup.check_cwd(id, &cwd)
    }

    fn running(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        self.runtime.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })
    }
}

#[async_trait]
impl AgentHost for ScriptedHost {
    async fn create(&self, new: NewSession) -> Result<AgentHandle, HostError> {
        self.record("create");
        let info = self.model.resolved().info;
        let spec = SessionSpec {
            id: new.id,
            abilities: info.abilities,
            ..SessionSpec::new("builder", info.reference, new.cwd)
        };
        let handle = self.start(
            AgentSession::create(self.runtime.config(), spec)?,
            new.setup.mcp_servers.clone(),
        );
        Self::set_up(&handle, &new.setup)?;
        Ok(handle)
    }

    async fn open(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.record(format!("open {id}"));
        self.refuse_elsewhere(id, &setup)?;
        let abilities = self.model.resolved().info.abilities;
        let handle = if let Some(handle) = self.runtime.get(id) {
            handle
        } else {
            let session = AgentSession::open(self.runtime.config(), id, abilities)?;
            self.start(session, setup.mcp_servers.clone())
        };
        Self::set_up(&handle, &setup)?;
        Ok(handle)
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError> {
        self.record("list");
        Ok(self.runtime.config().store.list(&filter)?)
    }

    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError> {
        self.record(format!("close {id}"));
        self.running(id)?;
        let report = self.runtime.shutdown(id, CLOSE).await;
        self.open.lock().unwrap().remove(id);
        Ok(report)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), HostError> {
        self.record(format!("delete {id}"));
        self.runtime.shutdown(id, CLOSE).await;
        self.open.lock().unwrap().remove(id);
        Ok(self.runtime.config().store.remove(id)?)
    }

    async fn fork(&self, id: &SessionId, setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.record(format!("fork {id}"));
        self.refuse_elsewhere(id, &setup)?;
        let abilities = self.model.resolved().info.abilities;
        let session = AgentSession::fork(self.runtime.config(), id, abilities)?;
        let handle = self.start(session, setup.mcp_servers.clone());
        Self::set_up(&handle, &setup)?;
        Ok(handle)
    }

    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError> {
        self.record(format!("title {id} {title}"));
        let result = match self.runtime.get(id) {
            Some(handle) => handle.header().set_title(title),
            None => AgentSession::rename(self.runtime.config(), id, title),
        };
        Ok(result?)
    }

    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError> {
        let handle = self.running(id)?;
        let option = |name, kind, value: String, values: &[&str]| SessionOption {
            name,
            kind,
            description: format!("the {name}"),
            value,
            choices: values.iter().map(|value| choice(value)).collect(),
        };
        let modes = PermissionMode::ALL.map(PermissionMode::as_str);
        let mode = handle.permissions().policy().mode().to_string();
        let mut options = vec![option(PERMISSIONS, OptionKind::Permissions, mode, &modes)];
        for (name, kind, values) in OPTIONS {
            options.push(option(name, kind, stored_option(&handle, name, values), values));
        }
        if let Some(thinking) = options.iter_mut().find(|option| option.name == "thinking") {
            // Makes the state of the providers visible to clients.
            let is_there = self.routes().iter().all(|route| route.current.is_some());
            thinking.description += if is_there { "" } else { ", with a provider disabled" };
        }
        Ok(options)
    }

    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError> {
        self.record(format!("set {id} {name} {value}"));
        let handle = self.running(id)?;
        if name == PERMISSIONS {
            let mode = value.parse().map_err(refusal)?;
            return Ok(handle.permissions().set_mode(mode)?);
        }
        let known = OPTIONS.iter().find(|(option, ..)| *option == name);
        if known.is_none_or(|(.., values)| !values.contains(&value)) {
            return Err(refusal(format!("no {name} {value}")));
        }
        store_option(&handle, name, value)
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
        self.record(format!("command {id} {name} {argument}"));
        self.running(id)?;
        match name {
            "echo" => Ok(CommandOutcome::Shown(argument.to_owned())),
            "greet" => {
                let prompt = Block::text(format!("Greet {argument}.").replace(" .", "."));
                Ok(CommandOutcome::Prompt(vec![prompt].into()))
            }
            name => Err(refusal(format!("no {name}"))),
        }
    }

    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError> {
        let context_tokens = self.running(id)?.context_tokens();
        Ok(SessionUsage { context_tokens, ..SessionUsage::default() })
    }

    async fn authenticate(&self) -> Result<(), HostError> {
        self.record("authenticate");
        Ok(())
    }

    async fn logout(&self) -> Result<(), HostError> {
        self.record("logout");
        Ok(())
    }

    fn routes_providers(&self) -> bool {
        true
    }

    async fn providers(&self) -> Result<Vec<ProviderRoute>, HostError> {
        Ok(self.routes().clone())
    }

    async fn set_provider(&self, change: ProviderChange) -> Result<(), HostError> {
        let ProviderChange { id, protocol, base_url, headers } = change;
        let base_url = base_url.reveal();
        let names: Vec<_> = headers.iter().map(|header| header.name.as_str()).collect();
        self.record(format!("provider {id} {protocol} {base_url} {}", names.join(",")));
        let mut routes = self.routes();
        let listed = routes.iter_mut().find(|route| route.id == id);
        let route = listed.ok_or_else(|| refusal(format!("no provider {id}")))?;
        if !route.supported.contains(&protocol) || !base_url.starts_with("http") {
            return Err(refusal(format!("{id} cannot be called like that")));
        }
        route.current = Some(ProviderAddress { protocol, base_url: base_url.to_owned() });
        Ok(())
    }

    async fn disable_provider(&self, id: &str) -> Result<(), HostError> {
        self.record(format!("disable {id}"));
        match self.routes().iter_mut().find(|route| route.id == id) {
            Some(ProviderRoute { necessity: ProviderNecessity::Required, .. }) => {
                Err(refusal(format!("{id} is needed")))
            }
            Some(route) => {
                route.current = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Returns the initial providers of a scripted host.
fn providers() -> Vec<ProviderRoute> {
    let route = |id: &str, protocols: &[&str], standing| ProviderRoute {
        id: id.to_owned(),
        supported: protocols.iter().map(|name| ProviderProtocol::from(*name)).collect(),
        necessity: standing,
        current: protocols.first().map(|name| ProviderAddress {
            protocol: ProviderProtocol::from(*name),
            base_url: format!("https://{id}.test"),
        }),
    };
    vec![
        route("main", &["anthropic", "openai"], ProviderNecessity::Required),
        route("other", &["_own"], ProviderNecessity::Optional),
    ]
}

impl fmt::Debug for ScriptedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedHost").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

fn choice(value: &str) -> OptionChoice {
    OptionChoice {
        value: value.to_owned(),
        title: value.to_uppercase(),
        description: format!("it is {value}"),
    }
}

/// Returns the value of an option of a session, or else its default.
fn stored_option(handle: &AgentHandle, name: &str, values: &[&str]) -> String {
    let metadata = handle.metadata().metadata;
    let stored =
        metadata.get(OPTIONS_KEY).and_then(|stored| stored.get(name)).and_then(Value::as_str);
    stored.or(values.first().copied()).unwrap_or_default().to_owned()
}

fn store_option(handle: &AgentHandle, name: &str, value: &str) -> Result<(), HostError> {
    let stored = handle.metadata().metadata.get(OPTIONS_KEY).and_then(Value::as_object).cloned();
    let mut options = stored.unwrap_or_default();
    options.insert(name.to_owned(), value.into());
    Ok(handle.header().set_value(OPTIONS_KEY, options.into())?)
}

fn refusal(message: String) -> HostError {
    HostError::Refused { message, hint: String::new() }
}
