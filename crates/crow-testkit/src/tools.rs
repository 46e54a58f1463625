//! Contexts and a runner for tests of tools.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{ProcessError, ProcessOutcome, ProcessSpec, Processes},
    ids::{CallId, SessionId},
    model::{Abilities, ModelRef},
    tool::{AgentContext, CallPlan, CurrentModel, Tool, ToolContext, ToolResult},
    workspace::Workspace,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Processes of which none can be started: each start fails with [`ProcessError::Unavailable`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    async fn run(
        &self,
        _spec: ProcessSpec,
        _cancellation: CancellationToken,
    ) -> Result<ProcessOutcome, ProcessError> {
        Err(ProcessError::Unavailable)
    }
}

/// Returns the context of an agent in `workspace` that cannot start processes. A test overrides the fields it needs:
/// `AgentContext { scratch: .., ..agent_context("/p") }`.
pub fn agent_context(workspace: Workspace) -> AgentContext {
    let reference = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
    let model = CurrentModel::new(reference, Abilities::default());
    let processes = Arc::new(NoProcesses);
    AgentContext::new(SessionId::new("s"), "tester", model, workspace, processes)
}

/// Returns the context of a call of `agent`.
pub fn tool_context(agent: AgentContext) -> ToolContext {
    ToolContext::new(Arc::new(agent), CallId::new("c1"))
}

/// Checks, plans and runs a call as the runtime does, without asking for permission.
pub async fn call(tool: &dyn Tool, input: Value, ctx: &ToolContext) -> ToolResult {
    tool.check(&input).expect("the arguments fit");
    let plan: CallPlan = tool.plan(&input, ctx).await.expect("the call can be planned");
    tool.execute(input, &plan, ctx).await
}
