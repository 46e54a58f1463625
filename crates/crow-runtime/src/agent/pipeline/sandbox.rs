//! Coordination of sandbox and policy before a command is decided about.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crow_core::{
    capability::Containment,
    file_views::WrittenContent,
    permission::PermissionMode,
    tool::{CallPlan, Effects, Subject, ToolError},
    workspace::Workspace,
};
use tokio_util::task::TaskTracker;

use super::run::written_paths;
use crate::{
    LinkedPaths, ProcessRunner, RecoveryReport, Sandbox, SandboxProfile, WrittenFile,
    agent::{AgentAccess, AgentError, session_writer::SessionWriter},
    agent_tree::AgentTree,
    quarantine_messages::recovery_messages,
};

/// The sandbox of an agent's calls. Keeps the policy and the profile of its processes in line with the containment that
/// the sandbox provides.
pub(crate) struct CallSandbox {
    tree: Arc<AgentTree>,
    /// Runs the processes of the calls.
    runner: ProcessRunner,
    /// The access that the agent is limited to.
    access: AgentAccess,
    workspace: Workspace,
    tasks: TaskTracker,
    /// True once the context of the agent has the places that links of the user lead to.
    has_links: AtomicBool,
}

/// Parts of a new [`CallSandbox`].
pub(crate) struct CallSandboxParts {
    pub tree: Arc<AgentTree>,
    pub runner: ProcessRunner,
    pub access: AgentAccess,
    pub workspace: Workspace,
    pub tasks: TaskTracker,
}

/// A change of files by a permitted call, told apart from changes by commands that run at the same time.
pub(super) struct PermittedChange {
    sandbox: Option<Arc<Sandbox>>,
    paths: Vec<PathBuf>,
    tasks: TaskTracker,
}

impl PermittedChange {
    /// Puts back what commands have changed until now: the call must not build on it.
    pub(super) async fn prepare(&self) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let prepared = self.tasks.spawn_blocking(move || sandbox.prepare_change()).await;
        if let Err(error) = prepared {
            tracing::warn!(%error, "what commands changed before a permitted change was not put back");
        }
    }

    /// Accepts what the call wrote. A call that failed is accepted only as far as it says what it wrote.
    pub(super) fn accept(self, written: Vec<WrittenContent>, has_succeeded: bool) {
        let Some(sandbox) = self.sandbox else { return };
        let known = |path: &PathBuf| written.iter().any(|written| written.path == *path);
        let whole = self.paths.into_iter().filter(|path| has_succeeded && !known(path));
        let mut accepted: Vec<_> = whole.map(|path| WrittenFile { path, content: None }).collect();
        accepted.extend(
            written
                .into_iter()
                .map(|content| WrittenFile { path: content.path.clone(), content: Some(content) }),
        );
        if !accepted.is_empty() {
            sandbox.adopt(&accepted);
        }
    }
}

impl CallSandbox {
    pub(crate) fn new(parts: CallSandboxParts) -> Self {
        let CallSandboxParts { tree, runner, access, workspace, tasks } = parts;
        Self { tree, runner, access, workspace, tasks, has_links: AtomicBool::new(false) }
    }

    /// Waits for the places that links of the user lead to. Fails if the search for them failed: nothing may be decided
    /// without them.
    pub(super) async fn links(&self) -> Result<&LinkedPaths, ToolError> {
        self.tree.links.found().await.map_err(|error| ToolError::Fatal(error.into()))
    }

    /// Adds the places that links of the user lead to to the policy and to the context of the agent, and warns the user
    /// once of those that are not known.
    pub(super) async fn add_links(
        &self,
        found: &LinkedPaths,
        session: &mut SessionWriter,
    ) -> Result<(), AgentError> {
        if self.has_links.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let places = self.tree.change_policy(|policy| {
            policy.add_places(found.sandbox_paths());
            policy.sandbox_paths().clone()
        });
        session.context().sandbox_paths.set(places);
        if !self.tree.links_reported.swap(true, Ordering::Relaxed) {
            for gap in found.warnings() {
                session.warn_user(gap.to_string()).await?;
            }
        }
        Ok(())
    }

    /// Returns true for one caller per tree, which has to recover from killed sessions.
    pub(super) fn begin_recovery(&self) -> bool {
        !self.tree.has_recovered.swap(true, Ordering::Relaxed)
    }

    /// Recovers from sessions that were killed while a command ran, and warns the user of files that it moved aside.
    pub(super) async fn recover(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        let sandbox = self.tree.sandbox.clone();
        let folder = session.config().sandbox_folder.clone();
        let roots = self.workspace.roots().to_vec();
        let recover = move || match (sandbox, folder) {
            (Some(sandbox), _) => sandbox.recover(),
            (None, Some(folder)) => Sandbox::recover_in(&folder, &roots),
            (None, None) => RecoveryReport::default(),
        };
        let recovered = self.tasks.spawn_blocking(recover).await;
        let report = recovered.map_err(|panic| AgentError::Custom(Box::new(panic)))?;
        for text in recovery_messages(&report) {
            session.warn_user(text).await?;
        }
        Ok(())
    }

    /// Returns true if the sandbox can enforce read-only commands: its containment is full.
    pub(crate) fn can_enforce_read_only(&self) -> impl Future<Output = bool> + Send + use<> {
        let sandbox = self.tree.sandbox.clone();
        async move {
            match sandbox {
                Some(sandbox) => sandbox.containment().await == Containment::Full,
                None => false,
            }
        }
    }

    /// Returns true if the command of a call runs with the read-only profile, if there is a sandbox.
    pub(super) fn runs_read_only(&self, plan: &CallPlan) -> bool {
        match &plan.subject {
            Subject::Command(line) => line.only_reads() || self.runner.is_read_only(),
            Subject::Nothing | Subject::Path(_) | Subject::Host(_) => false,
        }
    }

    /// Returns the handling of a permitted call that writes these paths while commands may run.
    pub(super) fn permitted_change(&self, paths: Vec<PathBuf>) -> PermittedChange {
        let sandbox = self.tree.sandbox.clone().filter(|_| !paths.is_empty());
        PermittedChange { sandbox, paths, tasks: self.tasks.clone() }
    }

    /// Returns those of the paths a call writes that would be executed because something refers to them, whatever their
    /// names: hooks named in git settings, scripts behind links, repositories elsewhere.
    pub(super) async fn autorun_paths(&self, effects: &Effects) -> Vec<PathBuf> {
        let written = written_paths(effects);
        if written.is_empty() {
            return Vec::new();
        }
        let sandbox = self.tree.sandbox.clone();
        let roots = self.workspace.roots().to_vec();
        let paths = written.clone();
        let check = move || match sandbox {
            Some(sandbox) => sandbox.autorun_paths(&paths),
            None => Sandbox::autorun_paths_in(roots, &paths),
        };
        // If the check failed, all paths are treated as such.
        self.tasks.spawn_blocking(check).await.unwrap_or(written)
    }

    /// Updates the policy with the containment of the sandbox, sets the sandbox profile from the agent's access and the
    /// mode, and warns the user once if layers of the sandbox are missing.
    pub(super) async fn update(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        let Some(sandbox) = &self.tree.sandbox else { return Ok(()) };
        let containment = sandbox.containment().await;
        let mode = self.tree.change_policy(|policy| {
            policy.set_uncontained(!containment.has_any_layer());
            policy.set_read_sandbox(containment == Containment::Full);
            policy.set_read_only_sandbox(containment == Containment::Full);
            policy.mode()
        });
        let only_reads = self.access == AgentAccess::ReadOnly || mode == PermissionMode::ReadOnly;
        self.runner.set_profile(if only_reads {
            SandboxProfile::ReadOnly
        } else {
            SandboxProfile::Workspace
        });
        if containment == Containment::Full
            || self.tree.sandbox_reported.swap(true, Ordering::Relaxed)
        {
            return Ok(());
        }
        let reason = sandbox.reason().await.unwrap_or_default();
        let text = match &containment {
            Containment::None => {
                format!("commands run without a sandbox, so each is asked about: {reason}")
            }
            Containment::Full | Containment::Partial { .. } => {
                format!("commands run in a sandbox that lacks some layers: {reason}")
            }
        };
        session.warn_user(text).await
    }
}
