//! The agents that may be started by name.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{ChildError, ChildTask},
    ids::RunId,
    message::Block,
};
use crow_runtime::{AgentAccess, AgentError, AgentInternals, ChildFactory, ChildRun};

use super::{agent::AcpAgent, serve::serve_run, session::AcpSession};

/// An agent that may be started by name.
#[derive(Debug, Clone)]
pub struct Subagent {
    /// What is run. Its name is the one to start it by, its description is what the model reads of it.
    pub agent: AcpAgent,
    /// Whether it may change anything.
    pub reach: AgentAccess,
}

/// The agents that may be started by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Subagents {
    agents: Arc<[Subagent]>,
    /// One that a model is not told of, and that the user may have it start.
    unlisted: Option<Arc<Subagent>>,
    surroundings: Arc<str>,
}

impl Subagents {
    /// Makes a list. The session of each agent is opened with the `surroundings`.
    pub fn new(
        agents: impl IntoIterator<Item = Subagent>,
        surroundings: impl Into<Arc<str>>,
    ) -> Self {
        let agents = agents.into_iter().collect();
        Self { agents, unlisted: None, surroundings: surroundings.into() }
    }

    /// Adds one that the model is not told of: it is started where the user says so.
    #[must_use]
    pub fn with_unlisted(self, agent: Option<Subagent>) -> Self {
        Self { unlisted: agent.map(Arc::new), ..self }
    }

    /// Returns the one that the model is not told of.
    pub fn unlisted(&self) -> Option<&Subagent> {
        self.unlisted.as_deref()
    }

    /// Opens the session of each agent with these surroundings instead.
    #[must_use]
    pub fn in_place(self, surroundings: impl Into<Arc<str>>) -> Self {
        Self { surroundings: surroundings.into(), ..self }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Returns the agents.
    pub fn iter(&self) -> impl Iterator<Item = &Subagent> {
        self.agents.iter()
    }

    /// Finds an agent by its name, in small letters or large ones.
    pub(crate) fn find(&self, name: &str) -> Result<&Subagent, ChildError> {
        let named = |wanted: &dyn Fn(&str) -> bool| {
            let mut all = self.agents.iter().chain(self.unlisted.as_deref());
            all.find(|subagent| wanted(subagent.agent.name()))
        };
        let found =
            named(&|own| own == name).or_else(|| named(&|own| own.eq_ignore_ascii_case(name)));
        found.ok_or_else(|| {
            let known = self.agents.iter().map(|subagent| subagent.agent.name().to_owned());
            ChildError::unknown_agent(name, known.collect())
        })
    }
}

#[async_trait]
impl ChildFactory for Subagents {
    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError> {
        let Subagent { agent, reach } = self.find(&task.agent)?.clone();
        let (prompt, surroundings) = (task.prompt.clone(), Arc::clone(&self.surroundings));
        Ok(ChildRun {
            model: agent.model().clone(),
            reach,
            agent: Box::new(|internals| Box::pin(work(agent, surroundings, prompt, internals))),
        })
    }
}

/// One run on one prompt.
async fn work(
    agent: AcpAgent,
    surroundings: Arc<str>,
    prompt: String,
    mut internals: AgentInternals,
) -> Result<(), AgentError> {
    let id = RunId::new(internals.config().ids.next_id());
    let run = internals.start_run(id).await?;
    let mut session = AcpSession::new(internals, surroundings);
    serve_run(&agent, &mut session, run, vec![Block::text(prompt)]).await
}
