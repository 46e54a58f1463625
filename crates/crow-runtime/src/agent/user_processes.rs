//! Commands that the user configured.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes},
    permission::{PermissionMode, PermissionPolicy},
};
use tokio_util::sync::CancellationToken;

use crate::{ProcessRunner, agent_tree::AgentTree};

/// Runs commands that the user configured. They are held as the run is: an agent that only reads has the checks run that
/// its whole run is measured by.
#[derive(Debug)]
pub(super) struct UserProcesses {
    /// Not the one of the agent's calls: that one goes only as far as the agent.
    pub(super) runner: ProcessRunner,
    pub(super) tree: Arc<AgentTree>,
}

#[async_trait]
impl Processes for UserProcesses {
    async fn run(
        &self,
        spec: ProcessSpec,
        cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        let mode = self.tree.with_policy(PermissionPolicy::mode);
        if mode == PermissionMode::ReadOnly {
            return Err(ProcessError::ReadOnly);
        }
        self.runner.run(spec, cancellation).await
    }
}
