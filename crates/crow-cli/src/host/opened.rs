//! The sessions that are open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crow_agent::{AcpAgent, AssembledAgent, ReviewChoice};
use crow_core::{
    ids::SessionId,
    model::{Abilities, ModelInfo, ModelRef},
};
use crow_mcp::{McpTools, ServerSummary};
use crow_runtime::{AgentHandle, HostError, OpenedWith};
use tokio::sync::watch;

use super::places::DirectoryConfig;

/// The sessions that are open, by their ids.
#[derive(Debug, Default)]
pub(super) struct OpenSessions(Mutex<HashMap<SessionId, OpenSession>>);

/// A session that is open. It stays so until it is closed, whoever else holds a handle.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) handle: AgentHandle,
    /// Each run takes the newest.
    pub(super) agent: watch::Sender<AcpAgent>,
    /// What the agent was asked for with.
    pub(super) with: OpenedWith,
    /// What comes after its turns, and who looks at its work.
    pub(super) standing: ReviewChoice,
    /// What holds where it works.
    pub(super) place: Arc<DirectoryConfig>,
    /// Its servers, as long as its agent has them.
    pub(super) mcp: Weak<McpTools>,
    /// What the user should be told of it.
    pub(super) warnings: Vec<String>,
}

/// An open session as it is at a moment.
#[derive(Debug, Clone)]
pub(super) struct SessionState {
    pub(super) handle: AgentHandle,
    pub(super) with: OpenedWith,
    pub(super) standing: ReviewChoice,
    pub(super) place: Arc<DirectoryConfig>,
    pub(super) model: ModelInfo,
    /// Its servers, as long as its agent has them.
    pub(super) mcp: Weak<McpTools>,
    /// Who can be started to look at the work, if anybody.
    pub(super) reviewer: Option<String>,
}

impl OpenSessions {
    /// Keeps a session open, and lets go of those whose agents have ended by themselves.
    pub(super) fn add(&self, id: SessionId, session: OpenSession) {
        let mut open = self.lock();
        open.retain(|_, open| !open.handle.state().is_end());
        open.insert(id, session);
    }

    pub(super) fn remove(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    /// Returns a session as it is now.
    pub(super) fn current(&self, id: &SessionId) -> Result<SessionState, HostError> {
        let open = self.lock();
        let open = open.get(id).filter(|open| !open.handle.state().is_end());
        let open = open.ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
        let agent = open.agent.borrow();
        let starts_others = agent.primary().tools().get("task").is_some();
        let reviewer = agent.subagents().unlisted().filter(|_| starts_others);
        Ok(SessionState {
            handle: open.handle.clone(),
            with: open.with.clone(),
            standing: open.standing.clone(),
            place: Arc::clone(&open.place),
            model: agent.model().info.clone(),
            mcp: Weak::clone(&open.mcp),
            reviewer: reviewer.map(|subagent| subagent.agent.name().to_owned()),
        })
    }

    /// Lets a session go on with another agent from its next run on.
    pub(super) fn switch(
        &self,
        id: &SessionId,
        with: OpenedWith,
        made: AssembledAgent,
    ) -> Result<(), HostError> {
        let mut open = self.lock();
        let open = open.get_mut(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
        open.agent.send_replace(made.agent);
        (open.with, open.standing, open.warnings) = (with, made.standing, made.warnings);
        Ok(())
    }

    /// Returns what the user should be told of the agent of a session. What is not known of its model is left out if it is
    /// `warned_of`.
    pub(super) fn warnings(&self, id: &SessionId, warned_of: Option<&ModelRef>) -> Vec<String> {
        let open = self.lock();
        let Some(open) = open.get(id) else { return Vec::new() };
        let model = open.agent.borrow().model().clone();
        let of_model = model.warning.filter(|_| warned_of != Some(&model.info.reference));
        open.warnings.iter().cloned().chain(of_model).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    /// Returns how its servers do.
    pub(super) fn servers(&self) -> Vec<ServerSummary> {
        self.mcp.upgrade().map(|tools| tools.servers()).unwrap_or_default()
    }

    /// Returns what the model of the agent that does the work can do.
    pub(super) fn abilities(&self) -> Abilities {
        self.model.abilities
    }
}
