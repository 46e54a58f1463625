//! The open sessions and the agents that they run with.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crow_agent::{AcpAgent, AssembledAgent, ReviewChoice};
use crow_core::{
    ids::SessionId,
    model::{Abilities, ModelInfo, ModelRef},
};
use crow_mcp::{McpPrompt, McpTools, ServerSummary};
use crow_runtime::{AgentHandle, HostError, OpenedWith};
use tokio::sync::watch;

use super::directory_configs::DirectoryConfig;

/// The open sessions by id.
#[derive(Debug, Default)]
pub(super) struct OpenSessions(Mutex<HashMap<SessionId, OpenSession>>);

/// An open session. It stays open until it is closed, regardless of other handles to it.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) handle: AgentHandle,
    /// Agent of the session; each run uses the latest value.
    pub(super) agent: watch::Sender<AcpAgent>,
    /// Parameters that the agent was assembled from.
    pub(super) opened_with: OpenedWith,
    /// Control flow and reviewers of the agent.
    pub(super) review: ReviewChoice,
    /// Configuration of its directory.
    pub(super) config: Arc<DirectoryConfig>,
    /// MCP tools; they are dropped when the agent ends.
    pub(super) mcp: Weak<McpTools>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
    /// The parameters of the agent before `/plan` chose one that plans.
    pub(super) before_plan: Option<OpenedWith>,
}

/// Copy of the state of an open session.
#[derive(Debug, Clone)]
pub(super) struct SessionState {
    pub(super) handle: AgentHandle,
    pub(super) opened_with: OpenedWith,
    pub(super) review: ReviewChoice,
    pub(super) config: Arc<DirectoryConfig>,
    pub(super) model: ModelInfo,
    /// MCP tools; they are dropped when the agent ends.
    pub(super) mcp: Weak<McpTools>,
    /// Name of the reviewer that the agent can start as a subagent, if any.
    pub(super) reviewer: Option<String>,
}

impl OpenSessions {
    /// Adds a session, and removes sessions whose agents have ended.
    pub(super) fn add(&self, id: SessionId, session: OpenSession) {
        let mut open = self.lock();
        open.retain(|_, open| !open.handle.state().is_end());
        open.insert(id, session);
    }

    pub(super) fn remove(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    /// Returns the state of a session. Fails if it is not open or its agent has ended.
    pub(super) fn current(&self, id: &SessionId) -> Result<SessionState, HostError> {
        let open = self.lock();
        let open = open.get(id).filter(|open| !open.handle.state().is_end());
        let open = open.ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
        let agent = open.agent.borrow();
        let starts_others = agent.primary().tools().get("task").is_some();
        let reviewer = agent.subagents().unlisted().filter(|_| starts_others);
        Ok(SessionState {
            handle: open.handle.clone(),
            opened_with: open.opened_with.clone(),
            review: open.review.clone(),
            config: Arc::clone(&open.config),
            model: agent.model().info.clone(),
            mcp: Weak::clone(&open.mcp),
            reviewer: reviewer.map(|subagent| subagent.agent.name().to_owned()),
        })
    }

    /// Replaces the agent of a session from its next run on.
    pub(super) fn switch(
        &self,
        id: &SessionId,
        with: OpenedWith,
        made: AssembledAgent,
    ) -> Result<(), HostError> {
        let mut open = self.lock();
        let open = open.get_mut(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })?;
        open.agent.send_replace(made.agent);
        (open.opened_with, open.review, open.warnings) = (with, made.review, made.warnings);
        Ok(())
    }

    /// Keeps the parameters with which `/build` goes on.
    pub(super) fn keep_before_plan(&self, id: &SessionId, with: OpenedWith) {
        if let Some(open) = self.lock().get_mut(id) {
            open.before_plan = Some(with);
        }
    }

    /// Returns the parameters that were kept.
    pub(super) fn before_plan(&self, id: &SessionId) -> Option<OpenedWith> {
        self.lock().get(id)?.before_plan.clone()
    }

    /// Returns the warnings about the agent of a session. The one about its model is left out if the model is
    /// `warned_of`.
    pub(super) fn warnings(&self, id: &SessionId, warned_of: Option<&ModelRef>) -> Vec<String> {
        let open = self.lock();
        let Some(open) = open.get(id) else { return Vec::new() };
        let model = open.agent.borrow().model().clone();
        let model_warning = model.warning.filter(|_| warned_of != Some(&model.info.reference));
        open.warnings.iter().cloned().chain(model_warning).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    /// Returns the state of its MCP servers; empty after the agent ended.
    pub(super) fn servers(&self) -> Vec<ServerSummary> {
        self.mcp.upgrade().map(|tools| tools.servers()).unwrap_or_default()
    }

    /// Returns the prompts of its MCP servers; empty after the agent ended.
    pub(super) async fn server_prompts(&self) -> Vec<McpPrompt> {
        match self.mcp.upgrade() {
            Some(tools) => tools.prompts().await,
            None => Vec::new(),
        }
    }

    /// Returns the abilities of the primary's model.
    pub(super) fn abilities(&self) -> Abilities {
        self.model.abilities
    }
}
