//! What the policy must know of the sandbox before it decides about a command.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use crow_core::{
    capability::{Containment, Original, PutAside},
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    permission::PermissionMode,
    tool::Effects,
};

use super::run::written_paths;
use crate::{AgentError, AgentInternals, Reach, Sandbox, SandboxProfile};

impl AgentInternals {
    /// Tells the user which files were moved aside or put back because a command may have planted them: whoever made one
    /// himself finds it again.
    pub(crate) async fn tell_moved_files(&mut self) -> Result<(), AgentError> {
        let Some(sandbox) = &self.shared.tree.sandbox else { return Ok(()) };
        for moved in sandbox.take_untold() {
            self.tell_user(describe_moved("while a command ran", &moved)).await?;
        }
        Ok(())
    }

    /// Finds, once, what sessions left that were killed while a command ran, and tells the user.
    pub(crate) async fn recover_from_killed_sessions(&mut self) -> Result<(), AgentError> {
        let tree = Arc::clone(&self.shared.tree);
        let Some(sandbox) = tree.sandbox.clone() else { return Ok(()) };
        if tree.has_recovered.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let recovered = self.tasks.spawn_blocking(move || sandbox.recover()).await;
        for moved in recovered.unwrap_or_default() {
            let text = describe_moved("while a command of a session ran that was killed", &moved);
            self.tell_user(text).await?;
        }
        Ok(())
    }

    async fn tell_user(&mut self, text: String) -> Result<(), AgentError> {
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }

    /// Returns which of the paths that a call writes start programs because something leads to them, whatever their names are:
    /// hooks that settings of git name, scripts behind links, repositories elsewhere.
    pub(super) async fn led_to(&mut self, effects: &Effects) -> Vec<PathBuf> {
        let written = written_paths(effects);
        if written.is_empty() {
            return Vec::new();
        }
        let sandbox = self.shared.tree.sandbox.clone();
        let roots = self.context.workspace.roots().to_vec();
        let asked = written.clone();
        let look = move || match sandbox {
            Some(sandbox) => sandbox.led_to(&asked),
            None => Sandbox::led_to_in(roots, &asked),
        };
        // If nobody could look, it is not believed.
        self.tasks.spawn_blocking(look).await.unwrap_or(written)
    }

    /// Tells the policy what holds commands, the user once if something is missing, and the sandbox how far this agent
    /// may go.
    pub(super) async fn look_at_sandbox(&mut self) -> Result<(), AgentError> {
        let tree = Arc::clone(&self.shared.tree);
        let Some(sandbox) = &tree.sandbox else { return Ok(()) };
        let containment = sandbox.containment().await;
        let mode = tree.change_policy(|policy| {
            policy.set_uncontained(!containment.holds());
            policy.set_read_sandbox(containment == Containment::Full);
            policy.set_read_only_sandbox(containment == Containment::Full);
            policy.mode()
        });
        let only_reads = self.shared.reach == Reach::ReadOnly || mode == PermissionMode::ReadOnly;
        self.runner.set_profile(if only_reads {
            SandboxProfile::ReadOnly
        } else {
            SandboxProfile::Workspace
        });
        if containment == Containment::Full || tree.told_of_sandbox.swap(true, Ordering::Relaxed) {
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
        self.tell_user(text).await
    }
}

/// Says what was moved aside or put back, and where it is.
pub(crate) fn describe_moved(when: &str, PutAside { path, kept, original }: &PutAside) -> String {
    let path = path.display();
    let kept = kept.as_ref().map(|kept| kept.display());
    match (original, kept) {
        (Original::Absent, Some(kept)) => format!(
            "{path} appeared {when}, and can start programs: it was moved to {kept}; if you made it yourself, move it back"
        ),
        (Original::Absent, None) => format!(
            "{path} appeared {when}, and can start programs; it could not be moved away: look at it before you go on"
        ),
        (Original::PutBack, Some(kept)) => format!(
            "{path} was changed {when}, and can start programs: it is as it was before; what it had become is in {kept}; if you changed it yourself, take it from there"
        ),
        (Original::PutBack, None) => {
            format!("{path} was changed {when}, and can start programs: it is as it was before")
        }
        (Original::Lost, _) => format!(
            "{path} was changed {when}, and can start programs; it could not be put back: look at it before you go on"
        ),
    }
}
