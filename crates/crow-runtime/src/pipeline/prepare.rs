//! From what the model asked for to a call that may run, or to its answer.

use std::{panic::AssertUnwindSafe, sync::Arc};

use crow_core::{
    call::ResolvedCall,
    capability::{Answerer, PermissionAnswer, PermissionRequest},
    event::{AgentEvent, AgentState, NoticeAudience, NoticeLevel},
    ids::{ReplyId, RequestId},
    permission::{
        Ask, CallFacts, Decision, Denial, Disclosure, PermissionMode, Permit, SandboxPlaces,
        WithheldReads,
    },
    redact::Redactor,
    tool::{CallPlan, Preview, Progress, ToolCategory, ToolContext, ToolError, ToolResult},
    turn::Validity,
};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    ExecutedCall,
    call::{CallRejection, UnderstoodCall},
};
use crate::{
    agent::{AgentAccess, AgentError, AgentInternals, panic_message},
    pending_questions::is_offered,
};

/// A call on its way.
pub(super) enum PreparedCall {
    /// It may run.
    Ready(Box<ReadyCall>),
    /// It is answered already.
    Answered(Box<ExecutedCall>),
}

/// A call that may run.
pub(super) struct ReadyCall {
    pub resolved: ResolvedCall,
    pub plan: CallPlan,
    pub permit: Permit,
    pub ctx: ToolContext,
}

impl AgentInternals {
    pub(super) async fn prepare(
        &mut self,
        reply_id: &ReplyId,
        understood: UnderstoodCall,
        cancel: &CancellationToken,
    ) -> Result<PreparedCall, AgentError> {
        let UnderstoodCall { call, meaning } = understood;
        let answer = |result, validity| ExecutedCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.to_object(),
            result,
            duration_ms: 0,
            validity,
            ends_turn: false,
            denial: None,
        };
        if cancel.is_cancelled() {
            return self.answered(reply_id, answer(not_run(), Validity::Valid)).await;
        }
        let resolved = match meaning {
            Ok(resolved) => resolved,
            Err(CallRejection::Refused(reason)) => {
                return self
                    .answered(reply_id, answer(ToolResult::failure(reason), Validity::Valid))
                    .await;
            }
            Err(CallRejection::Invalid(invalid)) => {
                return self
                    .answered(
                        reply_id,
                        answer(ToolResult::failure(invalid.message), Validity::Invalid),
                    )
                    .await;
            }
        };
        let answer = |result| ExecutedCall {
            name: resolved.tool.name().to_owned(),
            arguments: resolved.input.clone(),
            ..answer(result, Validity::Valid)
        };
        if self.would_write_mark(&resolved) {
            return self.answered(reply_id, answer(ToolResult::failure(MARK_WRITTEN))).await;
        }
        let mut ctx = ToolContext {
            agent: Arc::clone(&self.context),
            call_id: call.id.clone(),
            cancellation: cancel.child_token(),
            preview: None,
            withheld_reads: WithheldReads::default(),
            progress: Progress::default(),
        };
        let plan = match guarded(cancel, resolved.tool.plan(&resolved.input, &ctx)).await {
            Ok(plan) => plan,
            Err(error) => return self.answered(reply_id, answer(error.to_result())).await,
        };
        match self.decide(&resolved, &plan, &mut ctx, cancel).await? {
            Ok(permit) => {
                Ok(PreparedCall::Ready(Box::new(ReadyCall { resolved, plan, permit, ctx })))
            }
            Err(PermitRefusal::Denied(denial)) => {
                let answer = ExecutedCall {
                    denial: Some(denial.clone()),
                    ..answer(ToolResult::failure(denial.to_model_text()))
                };
                self.answered(reply_id, answer).await
            }
            Err(PermitRefusal::Tool(ToolError::Cancelled)) => {
                self.answered(reply_id, answer(not_run())).await
            }
            Err(PermitRefusal::Tool(error)) => {
                self.answered(reply_id, answer(error.to_result())).await
            }
        }
    }

    /// Whether a call would put the mark where a secret is. The model never saw that secret and cannot mean it.
    fn would_write_mark(&self, resolved: &ResolvedCall) -> bool {
        let writes = match resolved.tool.category() {
            ToolCategory::Write
            | ToolCategory::Execute
            | ToolCategory::Network
            | ToolCategory::External => true,
            ToolCategory::Read | ToolCategory::Session | ToolCategory::Agent => false,
        };
        writes && self.config.redactor.is_active() && Redactor::holds_mark(&resolved.input)
    }

    /// Asks the policy and, if the policy says so, the user.
    async fn decide(
        &mut self,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &mut ToolContext,
        cancel: &CancellationToken,
    ) -> Result<Result<Permit, PermitRefusal>, AgentError> {
        let tool = &resolved.tool;
        if tool.category() == ToolCategory::Execute {
            self.look_at_sandbox().await?;
        }
        let led_to = self.led_to(&plan.effects).await;
        let agent = self.context.agent_name.get();
        let facts = CallFacts {
            call_id: &ctx.call_id,
            session_id: &self.context.root_id,
            agent: &agent,
            input: &resolved.input,
            tool: tool.name(),
            category: tool.category(),
            requires_permission: tool.requires_permission(),
            plan,
        };
        let workspace = &self.context.workspace;
        let (decision, withheld_reads) = self.shared.tree.with_policy(|policy| {
            let withheld_reads = policy.withheld_reads(facts);
            if led_to.is_empty() && self.shared.reach == AgentAccess::Policy {
                return (policy.decide(facts, workspace), withheld_reads);
            }
            let mut policy = policy.clone();
            if self.shared.reach == AgentAccess::ReadOnly {
                policy.set_mode(PermissionMode::ReadOnly);
            }
            policy.add_places(SandboxPlaces { protected: led_to, ..SandboxPlaces::default() });
            (policy.decide(facts, workspace), withheld_reads)
        });
        ctx.withheld_reads = withheld_reads;
        let ask = match decision {
            Decision::Allow(permit) => {
                self.announce(resolved, plan, ctx, None).await?;
                return Ok(Ok(permit));
            }
            Decision::Deny(denial) => {
                self.announce(resolved, plan, ctx, None).await?;
                return Ok(Err(PermitRefusal::Denied(denial)));
            }
            Decision::Ask(ask) => ask,
        };
        let preview = match guarded(cancel, tool.preview(&resolved.input, plan, ctx)).await {
            Ok(preview) => preview,
            // What it found would tell the model of a file that it may not read: the user is asked first, and the call then
            // fails by itself.
            Err(ToolError::Model(_)) if ask.disclosure == Disclosure::AfterYes => None,
            Err(error) => return Ok(Err(PermitRefusal::Tool(error))),
        };
        self.announce(resolved, plan, ctx, preview.as_ref()).await?;
        ctx.preview.clone_from(&preview);
        self.ask(ask, resolved, plan, ctx, cancel).await
    }

    async fn announce(
        &mut self,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &ToolContext,
        preview: Option<&Preview>,
    ) -> Result<(), AgentError> {
        self.emit(AgentEvent::CallPending {
            call_id: ctx.call_id.clone(),
            tool: resolved.tool.name().to_owned(),
            title: plan.title.clone(),
            arguments: resolved.input.clone(),
            preview: preview.map(|preview| preview.patch.clone()),
        })
        .await
    }

    async fn ask(
        &mut self,
        ask: Ask,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &ToolContext,
        cancel: &CancellationToken,
    ) -> Result<Result<Permit, PermitRefusal>, AgentError> {
        let mut request = PermissionRequest {
            id: RequestId::new(self.config.ids.next_id()),
            session_id: self.session_id().clone(),
            agent: self.context.agent_name.get().to_string(),
            call_id: ctx.call_id.clone(),
            tool: resolved.tool.name().to_owned(),
            title: plan.title.clone(),
            subject: plan.subject.clone(),
            reason: ask.reason.clone(),
            offers: ask.offers.clone(),
            passes_in: ask.passes_in,
            preview: ctx.preview.clone(),
        };
        self.config.redactor.redact_request(&mut request);
        let request_id = request.id.clone();
        let tree = Arc::clone(&self.shared.tree);
        // It can be answered as soon as it can be seen.
        let mut question = tree.answers.open(request.clone());
        self.set_state(AgentState::WaitingForPermission).await?;
        self.emit(AgentEvent::PermissionRequest {
            request_id: request_id.clone(),
            call_id: request.call_id.clone(),
            tool: request.tool.clone(),
            title: request.title.clone(),
            subject: request.subject.clone(),
            reason: request.reason.clone(),
            offers: request.offers.clone(),
        })
        .await?;
        let answerer = Arc::clone(&self.config.answerer);
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answer = question.answered() => Some(answer),
            answer = asked(answerer.as_ref(), request) => Some(answer),
        };
        let answer = match answer {
            Some(answer) => Some(question.close_answered(answer)),
            // An answer that was taken before counts: whoever gave it was told so.
            None => question.withdraw(),
        };
        let Some(answer) = answer else {
            let call_id = ctx.call_id.clone();
            self.emit(AgentEvent::PermissionWithdrawn { request_id, call_id }).await?;
            self.set_state(AgentState::Processing).await?;
            return Ok(Err(PermitRefusal::Tool(ToolError::Cancelled)));
        };
        let answer = self.within_offers(&ask, answer).await?;
        if let PermissionAnswer::AllowSession { grants } = &answer {
            tree.change_policy(|policy| policy.grant(tree.root.id(), grants));
        }
        self.set_state(AgentState::Processing).await?;
        let decision = AgentEvent::PermissionDecision {
            request_id,
            call_id: ctx.call_id.clone(),
            answer: answer.clone(),
        };
        self.emit(decision).await?;
        Ok(ask.answered(answer).map_err(PermitRefusal::Denied))
    }

    /// Makes a yes that allows more than what was offered a yes to the one call.
    async fn within_offers(
        &mut self,
        ask: &Ask,
        answer: PermissionAnswer,
    ) -> Result<PermissionAnswer, AgentError> {
        if is_offered(&ask.offers, &answer) {
            return Ok(answer);
        }
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        let text = "the answer allowed more than what was offered; it holds for this call alone"
            .to_owned();
        self.emit(AgentEvent::Notice { level, audience, text }).await?;
        Ok(PermissionAnswer::AllowOnce)
    }

    async fn answered(
        &mut self,
        reply_id: &ReplyId,
        executed: ExecutedCall,
    ) -> Result<PreparedCall, AgentError> {
        self.record_end(reply_id, &executed).await?;
        Ok(PreparedCall::Answered(Box::new(executed)))
    }

    pub(super) async fn record_end(
        &mut self,
        reply_id: &ReplyId,
        executed: &ExecutedCall,
    ) -> Result<(), AgentError> {
        self.emit(AgentEvent::CallEnd {
            call_id: executed.id.clone(),
            reply_id: reply_id.clone(),
            tool: executed.name.clone(),
            result: executed.result.clone(),
            denial: executed.denial.clone(),
        })
        .await
    }
}

/// Why a call that holds the mark is not run.
const MARK_WRITTEN: &str = "`[redacted by crow]` stands in place of a secret that you were not shown. It is in no file, \
    and writing it would destroy the secret. Nothing was done. Leave that part out: edit the lines around it, or let a \
    command read the secret from where it is.";

/// The answer to a call that a cancel kept from running.
pub(super) fn not_run() -> ToolResult {
    let mut result = ToolResult::cancelled();
    "The call was not run: the run was cancelled before it began.".clone_into(&mut result.output);
    result
}

/// Why a call gets no permit.
enum PermitRefusal {
    Denied(Denial),
    Tool(ToolError),
}

/// Asks the answerer. A panic in it is no answer.
async fn asked(answerer: &dyn Answerer, request: PermissionRequest) -> PermissionAnswer {
    let caught = AssertUnwindSafe(async { answerer.ask(request).await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| PermissionAnswer::Nobody {
        hint: format!("the answerer broke down: {}", panic_message(panic.as_ref())),
    })
}

/// Runs a tool's planning: a panic in it is an error of the tool, and a cancel ends it.
async fn guarded<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let caught = cancel.run_until_cancelled(AssertUnwindSafe(work).catch_unwind()).await;
    match caught {
        None => Err(ToolError::Cancelled),
        Some(Ok(result)) => result,
        Some(Err(panic)) => Err(ToolError::Fatal(panic_message(panic.as_ref()).into())),
    }
}
