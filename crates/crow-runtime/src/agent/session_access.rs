//! What the calls of an agent may do, for its tools and its loop.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{AccessReport, Containment, NetworkReach, SandboxReport, SessionAccess},
    permission::{PermissionMode, PermissionPolicy},
};

use super::AgentAccess;
use crate::{Network, Sandbox, agent_tree::AgentTree};

/// Tells what the calls of an agent may do, by the policy and the sandbox of its tree.
#[derive(Debug)]
pub(super) struct TreeAccess {
    pub(super) tree: Arc<AgentTree>,
    /// The access that the agent is limited to.
    pub(super) access: AgentAccess,
}

#[async_trait]
impl SessionAccess for TreeAccess {
    fn report(&self) -> AccessReport {
        let mode = match self.access {
            AgentAccess::Policy => self.tree.with_policy(PermissionPolicy::mode),
            AgentAccess::ReadOnly => PermissionMode::ReadOnly,
        };
        let sandbox = self.tree.sandbox.as_deref().map(sandbox_report);
        AccessReport { mode, sandbox }
    }

    async fn containment(&self) -> Containment {
        match &self.tree.sandbox {
            Some(sandbox) => sandbox.containment().await,
            None => Containment::None,
        }
    }
}

fn sandbox_report(sandbox: &Sandbox) -> SandboxReport {
    let config = sandbox.config();
    SandboxReport {
        network: match &config.network {
            Network::Loopback => NetworkReach::Loopback,
            Network::Hosts(hosts) => NetworkReach::Hosts(hosts.to_string()),
            Network::All => NetworkReach::Unrestricted,
        },
        writable: config.writable.clone(),
        containment: sandbox.known_containment(),
    }
}
