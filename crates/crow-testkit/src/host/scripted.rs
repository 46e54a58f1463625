//! A host whose agents ask a scripted model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use crow_agent::{AcpAgent, AgentConfig, BaseAgent, Surroundings, serve};
use crow_core::{
    ids::SessionId,
    permission::{PermissionMode, PermissionPolicy},
    tool::ToolRegistry,
};
use crow_runtime::{
    AgentHandle, AgentHost, AgentRuntime, AgentSession, CommandOutcome, HostCommand, HostError,
    NewSession, OptionChoice, OptionKind, RuntimeConfig, SessionFilter, SessionMetadata,
    SessionOption, SessionSetup, SessionSpec, SessionUsage, ShutdownReport,
};

use crate::scripted::{ScriptedModel, ScriptedModels};

const CLOSE: Duration = Duration::from_secs(3);
const OPTION: &str = "permissions";
static COMMANDS: [HostCommand; 1] = [HostCommand::new("echo", "[TEXT]", "says it again")];

/// A host whose agents ask a scripted model. One option (`permissions`), one command (`echo`); it notes what it is asked
/// for.
#[derive(Debug)]
pub struct ScriptedHost {
    model: ScriptedModel,
    tools: ToolRegistry,
    runtime: AgentRuntime,
    /// A session stays open until it is closed, whoever else holds a handle.
    open: Mutex<HashMap<SessionId, AgentHandle>>,
    asked: Mutex<Vec<String>>,
}

impl ScriptedHost {
    /// Makes a host. The models of `config` are replaced by the script.
    pub fn new(model: ScriptedModel, tools: ToolRegistry, config: RuntimeConfig) -> Self {
        let models = Arc::new(ScriptedModels(model.clone()));
        let policy = PermissionPolicy::new(PermissionMode::FullAuto);
        let runtime = AgentRuntime::new(RuntimeConfig { models, policy, ..config });
        Self { model, tools, runtime, open: Mutex::default(), asked: Mutex::default() }
    }

    /// Returns what the host was asked for, as words: `create`, `close ID`.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn start(&self, session: AgentSession) -> AgentHandle {
        let cwd = session.metadata().crow().cwd;
        let (all, _) =
            self.tools.for_agent(&self.tools.names().map(str::to_owned).collect::<Vec<_>>());
        let agent = BaseAgent::new("builder", AgentConfig::default(), self.model.resolved(), all);
        let surroundings = Surroundings { cwd, ..Surroundings::default() };
        let id = session.id().clone();
        let handle = self
            .runtime
            .spawn(session, |internals| serve(AcpAgent::solo(agent), surroundings, internals));
        self.open.lock().unwrap().insert(id, handle.clone());
        handle
    }

    fn running(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        self.runtime.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })
    }
}

#[async_trait]
impl AgentHost for ScriptedHost {
    async fn create(&self, new: NewSession) -> Result<AgentHandle, HostError> {
        self.note("create");
        let info = self.model.resolved().info;
        let spec = SessionSpec {
            id: new.id,
            abilities: info.abilities,
            ..SessionSpec::new("builder", info.reference, new.cwd)
        };
        let handle = self.start(AgentSession::create(self.runtime.config(), spec)?);
        if let Some(mode) = new.setup.permissions {
            handle.set_permission_mode(mode)?;
        }
        Ok(handle)
    }

    async fn open(&self, id: &SessionId, _setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.note(format!("open {id}"));
        if let Some(handle) = self.runtime.get(id) {
            return Ok(handle);
        }
        let abilities = self.model.resolved().info.abilities;
        Ok(self.start(AgentSession::open(self.runtime.config(), id, abilities)?))
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionMetadata>, HostError> {
        self.note("list");
        Ok(self.runtime.config().store.list(&filter)?)
    }

    async fn close(&self, id: &SessionId) -> Result<ShutdownReport, HostError> {
        self.note(format!("close {id}"));
        self.running(id)?;
        let report = self.runtime.shutdown(id, CLOSE).await;
        self.open.lock().unwrap().remove(id);
        Ok(report)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), HostError> {
        self.note(format!("delete {id}"));
        self.runtime.shutdown(id, CLOSE).await;
        self.open.lock().unwrap().remove(id);
        Ok(self.runtime.config().store.remove(id)?)
    }

    async fn fork(&self, id: &SessionId, _setup: SessionSetup) -> Result<AgentHandle, HostError> {
        self.note(format!("fork {id}"));
        let abilities = self.model.resolved().info.abilities;
        Ok(self.start(AgentSession::fork(self.runtime.config(), id, abilities)?))
    }

    async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), HostError> {
        self.note(format!("title {id} {title}"));
        Ok(self.running(id)?.set_title(title)?)
    }

    async fn options(&self, id: &SessionId) -> Result<Vec<SessionOption>, HostError> {
        let value = self.running(id)?.policy().mode().to_string();
        let choice = |mode: PermissionMode| OptionChoice {
            value: mode.to_string(),
            title: String::new(),
            description: String::new(),
        };
        let choices = PermissionMode::ALL.map(choice).to_vec();
        let kind = OptionKind::Permissions;
        Ok(vec![SessionOption { name: OPTION, kind, description: String::new(), value, choices }])
    }

    async fn set_option(&self, id: &SessionId, name: &str, value: &str) -> Result<(), HostError> {
        self.note(format!("set {id} {name} {value}"));
        let handle = self.running(id)?;
        let mode = value.parse::<PermissionMode>().ok().filter(|_| name == OPTION);
        let Some(mode) = mode else {
            return Err(HostError::Refused { message: format!("no {name}"), hint: String::new() });
        };
        Ok(handle.set_permission_mode(mode)?)
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
        self.note(format!("command {id} {name} {argument}"));
        self.running(id)?;
        match name {
            "echo" => Ok(CommandOutcome::Shown(argument.to_owned())),
            name => Err(HostError::Refused { message: format!("no {name}"), hint: String::new() }),
        }
    }

    async fn usage(&self, id: &SessionId) -> Result<SessionUsage, HostError> {
        self.running(id)?;
        Ok(SessionUsage::default())
    }

    async fn authenticate(&self) -> Result<(), HostError> {
        self.note("authenticate");
        Ok(())
    }

    async fn logout(&self) -> Result<(), HostError> {
        self.note("logout");
        Ok(())
    }
}
