//! Spawning agents and ending them.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{ids::SessionId, turn::Budget};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    AgentAccess, AgentError, AgentHandle, AgentInternals,
    agent_shared::AgentShared,
    handle::WeakHandle,
    launch::{AgentLaunch, AgentPlacement},
};
use crate::{
    Sandbox, agent_tree::AgentTree, changes::Leases, config::RuntimeConfig, session::AgentSession,
};

/// How long an aborted agent may take to reach a point where it waits.
pub(super) const ABORT_GRACE: Duration = Duration::from_millis(500);

/// Spawns agents and owns their tasks.
#[derive(Debug, Clone)]
pub struct AgentRuntime {
    pub(super) inner: Arc<RuntimeInner>,
}

#[derive(Debug)]
pub(super) struct RuntimeInner {
    pub(super) config: Arc<RuntimeConfig>,
    agents: Mutex<HashMap<SessionId, WeakHandle>>,
    pub(super) tasks: TaskTracker,
    pub(super) leases: Arc<Leases>,
    token: CancellationToken,
}

/// What a shutdown had to leave behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Agents that did not end by the deadline and were aborted. Their sessions are sealed.
    pub aborted: Vec<SessionId>,
    /// Agents that could not even be aborted: they compute without ever waiting. They end with the process.
    pub stuck: Vec<SessionId>,
}

impl AgentRuntime {
    /// Makes a runtime.
    pub fn new(config: RuntimeConfig) -> Self {
        let inner = RuntimeInner {
            config: Arc::new(config),
            agents: Mutex::new(HashMap::new()),
            tasks: TaskTracker::new(),
            leases: Arc::default(),
            token: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns what the runtime is made of.
    pub fn config(&self) -> &Arc<RuntimeConfig> {
        &self.inner.config
    }

    /// Starts an agent in a session. It ends when its function returns, and is asked to when it is shut down or when no
    /// handle is left. After [`shutdown_all`](Self::shutdown_all) it ends at once, and its function is not run.
    ///
    /// A permission mode that the session keeps stands above that of the configuration, see
    /// [`AgentSession::set_permission_mode`].
    pub fn spawn<F, Fut>(&self, session: AgentSession, agent: F) -> AgentHandle
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let config = &self.inner.config;
        let sandbox = config.sandbox.clone().map(|mut config| {
            config.protected_files.extend_from_slice(&session.protected_files);
            let roots = session.metadata.crow().workspace().roots().to_vec();
            Arc::new(Sandbox::new(config, session.root.id().as_str(), roots))
        });
        let seats = config.children.running;
        let (root, policy) = (session.root.clone(), session.policy.clone());
        let tree = AgentTree::new(root, policy, sandbox, seats, &session.family);
        tree.add_session(session.id());
        session.family.descendants.iter().for_each(|id| tree.add_ended_session(id));
        let mode = session.metadata.crow().permissions;
        tree.change_policy(|policy| {
            if let Some(mode) = mode {
                policy.set_mode(mode);
            }
            policy.grant(session.root.id(), &session.family.grants);
        });
        let place = AgentPlacement {
            tree: Arc::new(tree),
            depth: 0,
            spawned: 0,
            driver: None,
            reach: AgentAccess::Policy,
            budget: Some(Budget::default()),
            session_token: self.inner.token.child_token(),
            abort_token: CancellationToken::new(),
        };
        let (launch, handle) = AgentLaunch::new(&self.inner, session, place);
        launch.start(&handle, None, agent);
        handle
    }

    /// Returns the handle of a running agent.
    pub fn get(&self, id: &SessionId) -> Option<AgentHandle> {
        self.inner.agents().get(id).and_then(WeakHandle::upgrade)
    }

    /// Returns whether an agent runs in that session.
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.inner.agents().contains_key(id)
    }

    /// Returns the sessions in which agents run.
    pub fn list_active(&self) -> Vec<SessionId> {
        self.inner.agents().keys().cloned().collect()
    }

    /// Ends the agent of a session and waits for it. If it has not ended by the deadline, it is aborted with the agents
    /// that it started.
    pub async fn shutdown(&self, id: &SessionId, deadline: Duration) -> ShutdownReport {
        let shared = self.inner.agents().get(id).map(|weak| Arc::clone(weak.shared()));
        let Some(shared) = shared else { return ShutdownReport::default() };
        shared.session_token.cancel();
        let mut end = shared.end.subscribe();
        if tokio::time::timeout(deadline, end.wait_for(Option::is_some)).await.is_ok() {
            return ShutdownReport::default();
        }
        let late = shared.family();
        shared.abort_token.cancel();
        // An error means that some are stuck: they are told from the others by their ends.
        drop(tokio::time::timeout(ABORT_GRACE, end.wait_for(Option::is_some)).await);
        let (stuck, aborted): (Vec<_>, Vec<_>) =
            late.iter().partition(|agent| agent.end.borrow().is_none());
        let ids =
            |agents: Vec<&Arc<AgentShared>>| agents.iter().map(|agent| agent.id.clone()).collect();
        ShutdownReport { aborted: ids(aborted), stuck: ids(stuck) }
    }

    /// Ends all agents and waits for all tasks. What has not ended by the deadline is aborted.
    pub async fn shutdown_all(&self, deadline: Duration) -> ShutdownReport {
        self.inner.token.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(deadline, self.inner.tasks.wait()).await.is_ok() {
            return ShutdownReport::default();
        }
        let late: Vec<_> = {
            let agents = self.inner.agents();
            agents.values().for_each(|weak| weak.shared().abort_token.cancel());
            agents.keys().cloned().collect()
        };
        // An error means that some are stuck: they are told from the others by the list.
        drop(tokio::time::timeout(ABORT_GRACE, self.inner.tasks.wait()).await);
        let (stuck, aborted) = late.into_iter().partition(|id| self.is_running(id));
        ShutdownReport { aborted, stuck }
    }
}

impl RuntimeInner {
    /// Whether all agents were asked to end: none is started any more.
    pub(super) fn is_over(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Forgets an agent that has ended, and not one that goes on with its session.
    pub(super) fn forget(&self, ended: &Arc<AgentShared>) {
        let mut agents = self.agents();
        if agents.get(&ended.id).is_some_and(|known| Arc::ptr_eq(known.shared(), ended)) {
            agents.remove(&ended.id);
        }
    }

    pub(super) fn agents(&self) -> MutexGuard<'_, HashMap<SessionId, WeakHandle>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
