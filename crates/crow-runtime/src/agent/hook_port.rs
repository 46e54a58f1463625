//! Running of the session's hooks on behalf of an agent.

use std::{fmt, sync::Arc};

use crow_core::{
    capability::Containment,
    hooks::{HookKind, HookMoment, HookOutcome, HookScene, SessionHooks},
    ids::SessionId,
    permission::{PermissionMode, PermissionPolicy},
    trace::TraceContext,
    workspace::Workspace,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ProcessRunner, SandboxProfile,
    agent::{AgentAccess, agent_shared::AgentShared},
};

/// Runs the hooks of the tree for one agent.
#[derive(Clone)]
pub(crate) struct HookPort {
    shared: Arc<AgentShared>,
    root: SessionId,
    workspace: Workspace,
    /// Separate from the runner of the agent's calls: its profile is that of the hooks.
    runner: ProcessRunner,
}

impl HookPort {
    pub(crate) fn new(shared: Arc<AgentShared>, runner: ProcessRunner) -> Self {
        let crow = shared.metadata().crow();
        let workspace = crow.workspace();
        Self { shared, root: crow.root_id, workspace, runner }
    }

    /// Returns the hooks, if there may be some for moments of this kind.
    fn hooks(&self, kind: HookKind) -> Option<&Arc<dyn SessionHooks>> {
        self.shared.tree.hooks.get().filter(|hooks| hooks.has(kind))
    }

    /// Returns true if there may be hooks for moments of this kind.
    pub(crate) fn has(&self, kind: HookKind) -> bool {
        self.hooks(kind).is_some()
    }

    /// Runs the hooks of a moment. Without hooks the answer is empty.
    pub(crate) async fn run(
        &self,
        moment: HookMoment<'_>,
        cancellation: &CancellationToken,
    ) -> HookOutcome {
        let Some(hooks) = self.hooks(moment.kind()) else { return HookOutcome::default() };
        let tree = &self.shared.tree;
        let mode = match self.shared.access {
            AgentAccess::ReadOnly => PermissionMode::ReadOnly,
            AgentAccess::Policy => tree.with_policy(PermissionPolicy::mode),
        };
        // In a read-only run hooks in the sandbox change nothing either.
        self.runner.set_profile(match mode {
            PermissionMode::ReadOnly => SandboxProfile::ReadOnly,
            PermissionMode::Ask | PermissionMode::AcceptEdits | PermissionMode::FullAuto => {
                SandboxProfile::Workspace
            }
        });
        let agent = self.shared.metadata().agent_type.clone();
        let containment = match &tree.sandbox {
            Some(sandbox) => sandbox.containment().await,
            None => Containment::None,
        };
        let is_confined = containment.has_any_layer();
        let scene = HookScene {
            session_id: &self.shared.id,
            root_id: &self.root,
            agent: &agent,
            cwd: self.workspace.cwd(),
            roots: self.workspace.roots(),
            mode,
            sandboxed: is_confined.then(|| Arc::new(self.runner.clone()) as _),
            enforces_read_only: containment == Containment::Full,
            trace: self.trace_of(&moment),
        };
        hooks.run(scene, moment, cancellation).await
    }

    /// Returns the span of a moment: that of its call, else that of the run.
    fn trace_of(&self, moment: &HookMoment<'_>) -> Option<TraceContext> {
        let run = self.shared.tree.traced_run.get()?;
        Some(match moment {
            HookMoment::BeforeCall { call_id, .. } | HookMoment::AfterCall { call_id, .. } => {
                TraceContext::of_tool_call(&self.root, &run, &self.shared.id, call_id)
            }
            HookMoment::Prompt { .. }
            | HookMoment::SessionStart { .. }
            | HookMoment::SessionEnd
            | HookMoment::TurnEnd { .. }
            | HookMoment::Compaction { .. }
            | HookMoment::Notification { .. } => TraceContext::of_run(&self.root, &run),
        })
    }
}

impl fmt::Debug for HookPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookPort").field("session", &self.shared.id).finish_non_exhaustive()
    }
}
