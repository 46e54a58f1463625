//! The runtime: spawns agents and shuts them down.

use std::{
    collections::HashMap,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{ending::SharedWorkRecord, ids::SessionId, turn::Budget};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::AgentSession;
use super::{
    AgentAccess, AgentError, AgentHandle, AgentInternals,
    agent_shared::AgentShared,
    handle::WeakHandle,
    launch::{AgentLaunch, AgentPlacement},
};
use crate::{LinkSearch, Sandbox, agent_tree::AgentTree, changes::Leases, config::RuntimeConfig};

/// Time for an aborted agent to reach an await point.
pub(super) const ABORT_GRACE: Duration = Duration::from_millis(500);

/// A runtime, which spawns agents and owns their tasks.
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

/// Agents that a shutdown had to end by force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Agents that missed the deadline and were aborted. Their sessions are sealed.
    pub aborted: Vec<SessionId>,
    /// Agents that could not even be aborted because they never reach an await point. They end with the process.
    pub stuck: Vec<SessionId>,
}

impl AgentRuntime {
    /// Creates a runtime.
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

    /// Returns the configuration.
    pub fn config(&self) -> &Arc<RuntimeConfig> {
        &self.inner.config
    }

    /// Starts an agent in a session. The agent ends when its function returns; it is asked to end on shutdown and when
    /// no handle is left. After [`shutdown_all`](Self::shutdown_all) it ends at once without running its function.
    ///
    /// A permission mode stored in the session takes precedence over that of the configuration, see
    /// [`AgentSession::set_permission_mode`].
    pub fn spawn<F, Fut>(&self, session: AgentSession, agent: F) -> AgentHandle
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let config = &self.inner.config;
        let roots = session.metadata.crow().workspace().roots().to_vec();
        let session_token = self.inner.token.child_token();
        let links = self.search_links(&roots, session_token.clone());
        let sandbox = config.sandbox.clone().map(|mut config| {
            config.protected_files.extend_from_slice(&session.protected_files);
            let sandbox = Sandbox::new(config, session.root.id().as_str(), roots);
            Arc::new(sandbox.with_links(Arc::clone(&links)))
        });
        let seats = config.children.running;
        let (root, policy) = (session.root.clone(), session.policy.clone());
        let tree = AgentTree::new(root, policy, sandbox, links, seats, &session.root_state);
        tree.add_session(session.id());
        session.root_state.descendants.iter().for_each(|id| tree.add_ended_session(id));
        let mode = session.metadata.crow().permissions;
        tree.change_policy(|policy| {
            if let Some(mode) = mode {
                policy.set_mode(mode);
            }
            policy.grant(session.root.id(), &session.root_state.grants);
        });
        let place = AgentPlacement {
            tree: Arc::new(tree),
            depth: 0,
            spawned: 0,
            driver: None,
            work: SharedWorkRecord::default(),
            access: AgentAccess::Policy,
            budget: Some(Budget::default()),
            session_token,
            abort_token: CancellationToken::new(),
        };
        let (launch, handle) = AgentLaunch::new(&self.inner, session, place);
        launch.start(&handle, None, agent);
        handle
    }

    /// Starts the search for places that links of the user lead to. It is stopped when the session ends.
    fn search_links(&self, roots: &[PathBuf], session_token: CancellationToken) -> Arc<LinkSearch> {
        let Some(config) = self.inner.config.links.clone() else { return Arc::default() };
        let links = Arc::new(LinkSearch::new(config, roots.to_vec()));
        let search = Arc::clone(&links);
        self.inner.tasks.spawn(async move {
            if let Some(Err(error)) = session_token.run_until_cancelled(search.found()).await {
                tracing::error!(%error, "calls search again");
            }
        });
        links
    }

    /// Returns the handle of a running agent.
    pub fn get(&self, id: &SessionId) -> Option<AgentHandle> {
        self.inner.agents().get(id).and_then(WeakHandle::upgrade)
    }

    /// Returns true if an agent is running in the session.
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.inner.agents().contains_key(id)
    }

    /// Returns the sessions with a running agent.
    pub fn list_active(&self) -> Vec<SessionId> {
        self.inner.agents().keys().cloned().collect()
    }

    /// Ends the agent of a session and waits for it. After the deadline it is aborted together with its descendants.
    pub async fn shutdown(&self, id: &SessionId, deadline: Duration) -> ShutdownReport {
        let shared = self.inner.agents().get(id).map(|weak| Arc::clone(weak.shared()));
        let Some(shared) = shared else { return ShutdownReport::default() };
        shared.session_token.cancel();
        let mut end = shared.end.subscribe();
        if tokio::time::timeout(deadline, end.wait_for(Option::is_some)).await.is_ok() {
            return ShutdownReport::default();
        }
        let late = shared.running_subtree();
        shared.abort_token.cancel();
        // After a timeout some agents are stuck; their `end` tells which.
        drop(tokio::time::timeout(ABORT_GRACE, end.wait_for(Option::is_some)).await);
        let (stuck, aborted): (Vec<_>, Vec<_>) =
            late.iter().partition(|agent| agent.end.borrow().is_none());
        let ids =
            |agents: Vec<&Arc<AgentShared>>| agents.iter().map(|agent| agent.id.clone()).collect();
        ShutdownReport { aborted: ids(aborted), stuck: ids(stuck) }
    }

    /// Ends all agents and waits for all tasks. Agents that miss the deadline are aborted.
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
        // After a timeout some agents are stuck; the list of running agents tells which.
        drop(tokio::time::timeout(ABORT_GRACE, self.inner.tasks.wait()).await);
        let (stuck, aborted) = late.into_iter().partition(|id| self.is_running(id));
        ShutdownReport { aborted, stuck }
    }
}

impl RuntimeInner {
    /// Returns true if the runtime is shutting down and starts no more agents.
    pub(super) fn is_over(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Unregisters an agent that has ended, but not another one that runs in the same session by now.
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
