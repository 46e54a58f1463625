//! An agent in a folder of its own, with a scripted model.

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

use crate::scripted::{ScriptedModel, ScriptedModels};

/// An agent in a folder of its own.
#[derive(Debug)]
pub struct AgentHarness {
    /// The model that the agent asks.
    pub model: ScriptedModel,
    /// The runtime that the agent runs on.
    pub runtime: AgentRuntime,
    /// The agent.
    pub handle: AgentHandle,
    /// Its events.
    pub events: EventStream,
    folder: Arc<TempDir>,
}

/// How a harness is made.
#[derive(Debug, Default)]
pub struct HarnessOptions {
    /// The tools of the agent.
    pub tools: ToolRegistry,
    /// How the agent works.
    pub config: AgentConfig,
    /// What the runtime is made of; its models are replaced by the script.
    pub runtime: RuntimeConfig,
    /// The agents that calls may start by name.
    pub subagents: Option<Arc<dyn ChildFactory>>,
    /// Which calls may run; everything if absent.
    pub policy: Option<PermissionPolicy>,
    /// The folders beside its own in which the agent works, absolute and resolved.
    pub additional_directories: Vec<PathBuf>,
}

impl AgentHarness {
    /// Starts an agent that plays `model`'s script. Needs a tokio runtime.
    pub fn start(model: ScriptedModel, options: HarnessOptions) -> Self {
        Self::start_composed(model, options, AcpAgent::solo)
    }

    /// Starts the composition that `compose` makes of the agent that plays `model`'s script.
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
    pub fn beside(&self, model: ScriptedModel, options: HarnessOptions) -> Self {
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
        Self { model, runtime, handle, events, folder }
    }

    fn config(model: &ScriptedModel, options: &HarnessOptions) -> RuntimeConfig {
        let policy = options.policy.clone();
        RuntimeConfig {
            models: Arc::new(ScriptedModels(model.clone())),
            policy: policy.unwrap_or_else(|| PermissionPolicy::new(PermissionMode::FullAuto)),
            ..options.runtime.clone()
        }
    }

    /// Returns the agent's folder.
    pub fn cwd(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Says something and returns the events up to the end of the run.
    pub async fn run(&mut self, prompt: &str) -> Vec<Arc<Envelope>> {
        self.handle.send_input(vec![Block::text(prompt)]).unwrap();
        self.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await
    }

    /// Returns the events up to the first one that fits. Fails if the agent ends before.
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
