//! Reading that no model asked for, such as the files that the user names.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    ids::CallId,
    permission::{CallFacts, Decision, Disclosure, Permit, WithheldReads},
    tool::{
        Access, CallPlan, Effects, Progress, Tool, ToolCategory, ToolContext, ToolError,
        ToolRegistry, ToolResult,
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
        Ok(permitted.ok().map(|permitted| permitted.path))
    }

    /// Calls a reading tool, if the policy allows the call without a question and it reads one file, folder or pattern.
    /// Nothing is recorded, and nobody is asked. A file counts as read afterwards. The text is redacted.
    pub(crate) async fn read_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<UnaskedRead, AgentError> {
        let permitted = match self.permit_unasked(session, tool, &input, cancel).await? {
            Ok(permitted) => permitted,
            Err(refused) => return Ok(refused),
        };
        let PermittedRead { permit, plan, ctx, path } = permitted;
        // Otherwise a file that was shown before would only be called unchanged.
        ctx.file_views.remove(&path);
        let mut tools = ToolRegistry::new();
        tools.register_shared(Arc::clone(tool));
        let reading = async { Ok(tools.execute(permit, tool.name(), input, &plan, &ctx).await) };
        let mut result = match guarded(cancel, reading).await {
            Ok(result) => result,
            Err(ToolError::Cancelled) => return Ok(UnaskedRead::Cancelled),
            Err(error) => return Ok(UnaskedRead::Invalid(error.to_string())),
        };
        let redactor = &session.config().redactor;
        redactor.redact_string(&mut result.output);
        if let Some(error) = &mut result.error {
            redactor.redact_string(error);
        }
        Ok(UnaskedRead::Read { result: Box::new(result), path })
    }

    async fn permit_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Result<PermittedRead, UnaskedRead>, AgentError> {
        if tool.category() != ToolCategory::Read {
            return Ok(Err(UnaskedRead::NotPermitted));
        }
        let Ok(links) = guarded(cancel, self.sandbox.links()).await else {
            return Ok(Err(UnaskedRead::Cancelled));
        };
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
        let plan = match guarded(cancel, tool.plan(input, &ctx)).await {
            Ok(plan) => plan,
            Err(ToolError::Cancelled) => return Ok(Err(UnaskedRead::Cancelled)),
            Err(error) => return Ok(Err(UnaskedRead::Invalid(error.to_string()))),
        };
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
        let permit = match decision {
            Decision::Allow(permit) => permit,
            Decision::Ask(_) => return Ok(Err(UnaskedRead::NotPermitted)),
            Decision::Deny(_) => return Ok(Err(UnaskedRead::Denied)),
        };
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
        let permitted = path.map(|path| PermittedRead { permit, plan, ctx, path });
        Ok(permitted.ok_or(UnaskedRead::NotPermitted))
    }
}

/// The outcome of a read that no model asked for.
#[derive(Debug)]
pub enum UnaskedRead {
    /// The read was permitted, and the tool ran.
    Read {
        /// The result.
        result: Box<ToolResult>,
        /// The path that was read, with links resolved.
        path: PathBuf,
    },
    /// The user would have to be asked, or it is more than one path.
    NotPermitted,
    /// A rule denies it.
    Denied,
    /// The call is invalid, or the tool failed: a sentence.
    Invalid(String),
    /// It was cancelled.
    Cancelled,
}

/// A call of a reading tool that may run without a question.
struct PermittedRead {
    permit: Permit,
    plan: CallPlan,
    ctx: ToolContext,
    /// The only path that it reads, with links resolved.
    path: PathBuf,
}
