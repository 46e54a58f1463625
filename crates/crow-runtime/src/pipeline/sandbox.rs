//! What the policy must know of the sandbox before it decides about a command.

use std::sync::{Arc, atomic::Ordering};

use crow_core::{
    capability::Containment,
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    permission::PermissionMode,
};

use crate::{AgentError, AgentInternals, Reach, SandboxProfile};

impl AgentInternals {
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
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }
}
