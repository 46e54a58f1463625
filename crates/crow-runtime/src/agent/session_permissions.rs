//! The permissions of the agents of a root session.

use crow_core::permission::{PermissionMode, PermissionPolicy};

use super::agent_shared::AgentShared;
use crate::session::SessionError;

/// The permissions of all agents of a root session, for any of their handles.
#[derive(Debug)]
pub struct SessionPermissions<'a>(pub(super) &'a AgentShared);

impl SessionPermissions<'_> {
    /// Returns the permission policy.
    pub fn policy(&self) -> PermissionPolicy {
        self.0.tree.with_policy(PermissionPolicy::clone)
    }

    /// Sets the permission mode for calls that no rule matches, from the next call on.
    ///
    /// Through the root's handle it is also stored in the session header, for when the session is opened again. The
    /// mode is in effect even if the header cannot be written. Blocks.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), SessionError> {
        self.0.tree.change_policy(|policy| policy.set_mode(mode));
        if self.0.depth > 0 {
            return Ok(());
        }
        self.0.header.change(|metadata| {
            metadata.set_permission_mode(Some(mode));
            Ok(())
        })
    }

    /// Revokes the permissions granted for the rest of the session, also for when it is opened again. Blocks.
    pub fn forget_grants(&self) -> Result<(), SessionError> {
        let tree = &self.0.tree;
        tree.change_policy(|policy| policy.clear_session_rules(tree.root.id()));
        let forgotten = tree.root.with_last_seq(|last| last);
        self.0.header.change(|metadata| {
            let mut crow = metadata.crow();
            crow.grants_forgotten = forgotten;
            metadata.set_crow(&crow);
            Ok(())
        })
    }
}
