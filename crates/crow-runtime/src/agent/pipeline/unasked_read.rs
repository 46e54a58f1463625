//! Reading that no model asked for, such as the files that the user names.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    ids::CallId,
    permission::{CallFacts, Decision, Disclosure, Permit, WithheldReads},
    tool::{
        Access, CallPlan, Effects, Progress, Tool, ToolCategory, ToolContext, ToolRegistry,
        ToolResult,
    },
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    CallPipeline,
    prepare::{PolicyDecision, guarded},
};
use crate::agent::{AgentError, session_writer::SessionWriter};

impl CallPipeline {
    /// Returns the only file that a call of a reading tool would read, with links resolved, if the policy allows the call
    /// without a question. Nothing is run or recorded, and nobody is asked: `None` if the call is invalid, reads several
    /// files, would have to be asked about, is denied, or `cancel` is cancelled.
    pub(crate) async fn readable_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, AgentError> {
        let permitted = self.permit_unasked(session, tool, input, cancel).await?;
        Ok(permitted.map(|permitted| permitted.path))
    }

    /// Calls a reading tool, if the policy allows the call without a question and it reads one file, folder or pattern.
    /// Nothing is recorded, and nobody is asked: `None` as for [`readable_unasked`](Self::readable_unasked). The text is
    /// redacted.
    pub(crate) async fn read_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<Option<ToolResult>, AgentError> {
        let permitted = self.permit_unasked(session, tool, &input, cancel).await?;
        let Some(PermittedRead { permit, plan, ctx, .. }) = permitted else { return Ok(None) };
        let mut tools = ToolRegistry::new();
        tools.register_shared(Arc::clone(tool));
        let reading = tools.execute(permit, tool.name(), input, &plan, &ctx);
        let Some(mut result) = cancel.run_until_cancelled(reading).await else { return Ok(None) };
        session.config().redactor.redact_string(&mut result.output);
        Ok(Some(result))
    }

    async fn permit_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Option<PermittedRead>, AgentError> {
        if tool.category() != ToolCategory::Read {
            return Ok(None);
        }
        let Ok(links) = guarded(cancel, self.sandbox.links()).await else { return Ok(None) };
        self.sandbox.add_links(links, session).await?;
        let context = Arc::clone(session.context());
        let mut ctx = ToolContext {
            agent: Arc::clone(&context),
            call_id: CallId::new("unasked-read"),
            cancellation: cancel.child_token(),
            preview: None,
            withheld_reads: WithheldReads::default(),
            disclosure: Disclosure::AfterApproval,
            progress: Progress::default(),
        };
        let Ok(plan) = guarded(cancel, tool.plan(input, &ctx)).await else { return Ok(None) };
        let agent = context.agent_name.get();
        let facts = CallFacts {
            call_id: &ctx.call_id,
            session_id: &context.root_id,
            agent: &agent,
            input,
            tool: tool.name(),
            category: tool.category(),
            requires_permission: tool.requires_permission(),
            plan: &plan,
        };
        let PolicyDecision { decision, withheld_reads, .. } =
            self.policy_decision(facts, &context.workspace, Vec::new());
        let Decision::Allow(permit) = decision else { return Ok(None) };
        let path = match &plan.effects {
            Effects::Paths(effects) => match effects.as_slice() {
                [effect] if effect.access == Access::Read => {
                    let is_hidden = withheld_reads.contains(&effect.path, &context.workspace);
                    (!is_hidden).then(|| effect.path.clone())
                }
                [] | [_, ..] => None,
            },
            Effects::None | Effects::Unknown | Effects::UserCommands => None,
        };
        ctx.withheld_reads = withheld_reads;
        Ok(path.map(|path| PermittedRead { permit, plan, ctx, path }))
    }
}

/// A call of a reading tool that may run without a question.
struct PermittedRead {
    permit: Permit,
    plan: CallPlan,
    ctx: ToolContext,
    /// The only path that it reads, with links resolved.
    path: PathBuf,
}
