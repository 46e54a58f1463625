//! Coordination of sandbox and policy before a command is decided about.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use crow_core::{
    capability::Containment,
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    permission::PermissionMode,
    tool::Effects,
};

use super::{moved_files::describe_moved, run::written_paths};
use crate::{
    Sandbox, SandboxProfile,
    agent::{AgentAccess, AgentError, AgentInternals},
};

impl AgentInternals {
    /// Recovers, once per tree, from sessions that were killed while a command ran, and notifies the user.
    pub(crate) async fn recover_from_killed_sessions(&mut self) -> Result<(), AgentError> {
        let tree = Arc::clone(&self.shared.tree);
        if tree.has_recovered.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.record_killed_jobs().await?;
        let Some(sandbox) = tree.sandbox.clone() else { return Ok(()) };
        let recovered = self.tasks.spawn_blocking(move || sandbox.recover()).await;
        for moved in recovered.unwrap_or_default() {
            let text = describe_moved("while a command of a session ran that was killed", &moved);
            self.report_warning(text).await?;
        }
        Ok(())
    }

    pub(crate) async fn report_warning(&mut self, text: String) -> Result<(), AgentError> {
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }

    /// Returns those of the paths a call writes that would be executed because something refers to them, whatever their
    /// names: hooks named in git settings, scripts behind links, repositories elsewhere.
    pub(super) async fn autorun_paths(&mut self, effects: &Effects) -> Vec<PathBuf> {
        let written = written_paths(effects);
        if written.is_empty() {
            return Vec::new();
        }
        let sandbox = self.shared.tree.sandbox.clone();
        let roots = self.context.workspace.roots().to_vec();
        let paths = written.clone();
        let look = move || match sandbox {
            Some(sandbox) => sandbox.autorun_paths(&paths),
            None => Sandbox::autorun_paths_in(roots, &paths),
        };
        // If the check failed, all paths are treated as such.
        self.tasks.spawn_blocking(look).await.unwrap_or(written)
    }

    /// Updates the policy with the containment of the sandbox, sets the sandbox profile from the agent's access and the
    /// mode, and notifies the user once if layers of the sandbox are missing.
    pub(super) async fn update_sandbox(&mut self) -> Result<(), AgentError> {
        let tree = Arc::clone(&self.shared.tree);
        let Some(sandbox) = &tree.sandbox else { return Ok(()) };
        let containment = sandbox.containment().await;
        let mode = tree.change_policy(|policy| {
            policy.set_uncontained(!containment.has_any_layer());
            policy.set_read_sandbox(containment == Containment::Full);
            policy.set_read_only_sandbox(containment == Containment::Full);
            policy.mode()
        });
        let only_reads =
            self.shared.access == AgentAccess::ReadOnly || mode == PermissionMode::ReadOnly;
        self.runner.set_profile(if only_reads {
            SandboxProfile::ReadOnly
        } else {
            SandboxProfile::Workspace
        });
        if containment == Containment::Full || tree.sandbox_reported.swap(true, Ordering::Relaxed) {
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
        self.report_warning(text).await
    }
}
