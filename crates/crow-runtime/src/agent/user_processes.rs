//! Running of commands that the user configured.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes},
    permission::{PermissionMode, PermissionPolicy},
};
use tokio_util::sync::CancellationToken;

use crate::{ProcessRunner, agent_tree::AgentTree};

/// Runs commands that the user configured. They are limited by the permission mode of the run and not by the access of
/// the agent: a read-only agent may run the checks that verify the whole run.
#[derive(Debug)]
pub(super) struct UserProcesses {
    /// Separate from the runner of the agent's calls, which is limited to the agent's access.
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
