//! An agent in a temporary folder, with a scripted model.

use std::{path::PathBuf, sync::Arc};

use crow_agent::{AcpAgent, AgentConfig, BaseAgent, Surroundings, serve};
use crow_core::{
    event::{AgentEvent, Envelope},
    message::Block,
    permission::{PermissionMode, PermissionPolicy},
    tool::ToolRegistry,
};
use crow_runtime::{
    AgentHandle, AgentRuntime, AgentSession, ChildFactory, EventStream, RuntimeConfig, SessionSpec,
};
use futures_util::StreamExt as _;
use tempfile::TempDir;

use crate::{
    scripted::{ScriptedModel, ScriptedModels},
    telemetry::StoreTelemetryCheck,
};

/// A running agent in a temporary folder, with a scripted model.
///
/// At the end of the test its telemetry is held against the conventions of OpenTelemetry.
#[derive(Debug)]
pub struct AgentHarness {
    /// Scripted model of the agent.
    pub model: ScriptedModel,
    /// Runtime of the agent.
    pub runtime: AgentRuntime,
    /// Handle of the agent.
    pub handle: AgentHandle,
    /// Events of the agent since its start.
    pub events: EventStream,
    folder: Arc<TempDir>,
    _telemetry: StoreTelemetryCheck,
}

/// Settings of an [`AgentHarness`].
#[derive(Debug, Default)]
pub struct HarnessOptions {
    /// Tools of the agent.
    pub tools: ToolRegistry,
    /// Configuration of the agent.
    pub config: AgentConfig,
    /// Configuration of the runtime; its models and policy are replaced.
    pub runtime: RuntimeConfig,
    /// Factory of the agents that calls may start by name.
    pub subagents: Option<Arc<dyn ChildFactory>>,
    /// Permissions of calls; by default all may run.
    pub policy: Option<PermissionPolicy>,
    /// Further workspace folders, absolute and canonical.
    pub additional_directories: Vec<PathBuf>,
}

impl AgentHarness {
    /// Starts an agent without reviewers. Needs a tokio runtime.
    pub fn start(model: ScriptedModel, options: HarnessOptions) -> Self {
        Self::start_composed(model, options, AcpAgent::solo)
    }

    /// Starts the composition that `compose` makes of the base agent. Needs a tokio runtime.
    pub fn start_composed(
        model: ScriptedModel,
        options: HarnessOptions,
        compose: impl FnOnce(BaseAgent) -> AcpAgent,
    ) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let runtime = AgentRuntime::new(Self::config(&model, &options));
        Self::in_folder(folder, runtime, model, options, compose)
    }

    /// Starts a second agent in the folder and on the runtime of this one.
    #[must_use]
    pub fn start_another(&self, model: ScriptedModel, options: HarnessOptions) -> Self {
        let (folder, runtime) = (Arc::clone(&self.folder), self.runtime.clone());
        Self::in_folder(folder, runtime, model, options, AcpAgent::solo)
    }

    fn in_folder(
        folder: Arc<TempDir>,
        runtime: AgentRuntime,
        model: ScriptedModel,
        options: HarnessOptions,
        compose: impl FnOnce(BaseAgent) -> AcpAgent,
    ) -> Self {
        let cwd = folder.path().canonicalize().unwrap();
        let resolved = model.resolved();
        let spec = SessionSpec {
            abilities: resolved.info.abilities,
            additional_directories: options.additional_directories,
            ..SessionSpec::new("builder", resolved.info.reference.clone(), cwd.clone())
        };
        let session = AgentSession::create(runtime.config(), spec).unwrap();
        let agent = BaseAgent::new("builder", options.config, resolved, options.tools);
        let agent = compose(agent);
        let surroundings = Surroundings { cwd, ..Surroundings::default() };
        let handle = runtime.spawn(session, |internals| {
            if let Some(subagents) = options.subagents {
                internals.offer_children(subagents);
            }
            serve(agent, surroundings, internals)
        });
        let events = handle.stream().unwrap();
        let store = Arc::clone(&runtime.config().store);
        let telemetry = StoreTelemetryCheck::new(store);
        Self { model, runtime, handle, events, folder, _telemetry: telemetry }
    }

    fn config(model: &ScriptedModel, options: &HarnessOptions) -> RuntimeConfig {
        let policy = options.policy.clone();
        RuntimeConfig {
            models: Arc::new(ScriptedModels(model.clone())),
            policy: policy.unwrap_or_else(|| PermissionPolicy::new(PermissionMode::FullAuto)),
            ..options.runtime.clone()
        }
    }

    /// Returns the canonical path of the agent's folder.
    pub fn cwd(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Sends a prompt and returns the events up to the end of its run.
    pub async fn run(&mut self, prompt: &str) -> Vec<Arc<Envelope>> {
        self.handle.send_input(vec![Block::text(prompt)]).unwrap();
        self.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await
    }

    /// Returns the events up to and including the first one that `fits`. Panics if the agent ends before.
    pub async fn until(&mut self, fits: impl Fn(&AgentEvent) -> bool) -> Vec<Arc<Envelope>> {
        let mut events = Vec::new();
        loop {
            let event =
                self.events.next().await.unwrap_or_else(|| panic!("the agent ended: {events:#?}"));
            let last = fits(&event.event);
            events.push(event);
            if last {
                return events;
            }
        }
    }
}
