//! Agents that can be started by name.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{ChildError, ChildTask},
    ids::RunId,
    message::Block,
};
use crow_runtime::{AgentAccess, AgentError, AgentInternals, ChildFactory, ChildRun};

use super::{agent::AcpAgent, serve::serve_run, session::AcpSession};
use crate::prompt::Surroundings;

/// An agent that can be started by name.
#[derive(Debug, Clone)]
pub struct Subagent {
    /// Agent to run. It is started by its name; the model is shown its description.
    pub agent: AcpAgent,
    /// Access of the agent: read-only, or what the policy permits.
    pub access: AgentAccess,
}

/// The agents that can be started by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Subagents {
    agents: Arc<[Subagent]>,
    /// Agent that is not listed to the model; the user may have the model start it.
    unlisted: Option<Arc<Subagent>>,
    surroundings: Arc<Surroundings>,
}

impl Subagents {
    /// Makes a list of agents. The session of each is opened with the `surroundings`.
    pub fn new(
        agents: impl IntoIterator<Item = Subagent>,
        surroundings: impl Into<Arc<Surroundings>>,
    ) -> Self {
        let agents = agents.into_iter().collect();
        Self { agents, unlisted: None, surroundings: surroundings.into() }
    }

    /// Adds an agent that is not listed to the model and is started only if the user says so.
    #[must_use]
    pub fn with_unlisted(self, agent: Option<Subagent>) -> Self {
        Self { unlisted: agent.map(Arc::new), ..self }
    }

    /// Returns the agent that is not listed to the model.
    pub fn unlisted(&self) -> Option<&Subagent> {
        self.unlisted.as_deref()
    }

    /// Replaces the surroundings with which the session of each agent is opened.
    #[must_use]
    pub fn with_surroundings(self, surroundings: impl Into<Arc<Surroundings>>) -> Self {
        Self { surroundings: surroundings.into(), ..self }
    }

    /// Returns true if no agents are listed.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Returns the listed agents.
    pub fn iter(&self) -> impl Iterator<Item = &Subagent> {
        self.agents.iter()
    }

    /// Finds a listed or unlisted agent by its name: an exact match first, then one that ignores ASCII case.
    pub(crate) fn find(&self, name: &str) -> Result<&Subagent, ChildError> {
        let find_by = |predicate: &dyn Fn(&str) -> bool| {
            let mut all = self.agents.iter().chain(self.unlisted.as_deref());
            all.find(|subagent| predicate(subagent.agent.name()))
        };
        let found =
            find_by(&|own| own == name).or_else(|| find_by(&|own| own.eq_ignore_ascii_case(name)));
        found.ok_or_else(|| {
            let known = self.agents.iter().map(|subagent| subagent.agent.name().to_owned());
            ChildError::unknown_agent(name, known.collect())
        })
    }
}

#[async_trait]
impl ChildFactory for Subagents {
    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError> {
        let Subagent { agent, access } = self.find(&task.agent)?.clone();
        let (prompt, surroundings) = (task.prompt.clone(), Arc::clone(&self.surroundings));
        Ok(ChildRun {
            model: agent.model().clone(),
            access,
            agent: Box::new(|internals| Box::pin(work(agent, surroundings, prompt, internals))),
        })
    }
}

/// Runs the agent once on its prompt.
async fn work(
    agent: AcpAgent,
    surroundings: Arc<Surroundings>,
    prompt: String,
    mut internals: AgentInternals,
) -> Result<(), AgentError> {
    let id = RunId::new(internals.config().ids.next_id());
    let run = internals.start_run(id).await?;
    let mut session = AcpSession::new(internals, surroundings);
    serve_run(&agent, &mut session, run, vec![Block::text(prompt)].into()).await
}
