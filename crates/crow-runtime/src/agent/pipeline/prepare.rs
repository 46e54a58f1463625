//! The steps of a call before it runs: validation, planning, policy decision and the question to the user.
//!
//! The result is a [`ReadyCall`] with a permit, or the recorded answer of a call that does not run. Every path emits
//! exactly one `CallEnd` for a call that is not ready.

use std::{panic::AssertUnwindSafe, path::PathBuf, pin::pin, sync::Arc};

use crow_core::{
    call::{ResolvedCall, resolve},
    capability::{Answerer, PermissionAnswer, PermissionRequest},
    event::{AgentEvent, AgentState},
    hooks::{HookKind, HookMoment, HookOutcome, HookPermission, NotificationKind},
    ids::RequestId,
    message::{CallArguments, ToolCall},
    permission::{
        Ask, CallFacts, Decision, DecisionCause, Denial, DenialSource, Disclosure, Explanation,
        PermissionMode, Permit, SandboxPaths, WithheldReads,
    },
    redact::Redactor,
    tool::{CallPlan, Preview, Progress, ToolCategory, ToolContext, ToolError, ToolResult},
    turn::Validity,
    workspace::Workspace,
};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{
    ExecutedCall,
    call::{CallPipeline, CallRejection, ReplyCalls, UnderstoodCall},
};
use crate::{
    agent::{AgentAccess, AgentError, panic_message},
    pending_questions::is_offered,
};

/// The outcome of preparing a call.
pub(super) enum PreparedCall {
    /// It may run.
    Ready(Box<ReadyCall>),
    /// It is answered and will not run.
    Answered(Box<ExecutedCall>),
}

/// A call with everything needed to run it.
pub(super) struct ReadyCall {
    pub resolved: ResolvedCall,
    pub plan: CallPlan,
    pub permit: Permit,
    pub ctx: ToolContext,
    /// The span of the call.
    pub span: Span,
}

/// The decision of the policy about a call.
pub(super) struct PolicyDecision {
    pub decision: Decision,
    /// Time from which the content of files may be shown.
    pub disclosure: Disclosure,
    /// Files that the result must leave out.
    pub withheld_reads: WithheldReads,
}

impl CallPipeline {
    /// Returns the decision of the policy about a call of this agent, and what its result may not show. `led_to` are the
    /// places that the call would write to and from which programs start.
    pub(super) fn policy_decision(
        &self,
        facts: CallFacts<'_>,
        workspace: &Workspace,
        led_to: Vec<PathBuf>,
    ) -> PolicyDecision {
        let is_logged = tracing::enabled!(tracing::Level::DEBUG);
        let shared = &self.shared;
        shared.tree.with_policy(|policy| {
            let withheld_reads = policy.withheld_reads(facts);
            // Restrictions of this call or agent apply to a copy of the policy.
            let restricted =
                (!led_to.is_empty() || shared.access != AgentAccess::Policy).then(|| {
                    let mut policy = policy.clone();
                    if shared.access == AgentAccess::ReadOnly {
                        policy.set_mode(PermissionMode::ReadOnly);
                    }
                    policy
                        .add_places(SandboxPaths { protected: led_to, ..SandboxPaths::default() });
                    policy
                });
            let policy = restricted.as_ref().unwrap_or(policy);
            if is_logged {
                log_decision(&policy.explain(facts, workspace));
            }
            let disclosure = policy.disclosure(facts, workspace);
            PolicyDecision { decision: policy.decide(facts, workspace), disclosure, withheld_reads }
        })
    }
}

impl CallPipeline {
    /// Returns the decision of the policy about a call in the read-only mode.
    pub(super) fn read_only_decision(
        &self,
        facts: CallFacts<'_>,
        workspace: &Workspace,
    ) -> Decision {
        let mut policy = self.shared.tree.with_policy(Clone::clone);
        policy.set_mode(PermissionMode::ReadOnly);
        policy.decide(facts, workspace)
    }
}

impl ReplyCalls<'_> {
    /// Takes a call up to its permit, or answers it.
    pub(super) async fn prepare(
        &mut self,
        understood: UnderstoodCall,
    ) -> Result<PreparedCall, AgentError> {
        let cancel = self.cancel;
        let UnderstoodCall { call, meaning, span } = understood;
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
        // 1) Calls that never run: cancelled, refused by the turn, invalid, or writing the redaction mark.
        if cancel.is_cancelled() {
            return self.record_answered(answer(not_run(), Validity::Valid)).await;
        }
        if let Some(reason) = &self.pipeline.hook_results.stop {
            let text = format!("The call was not run: a hook ended the turn: {reason}");
            return self.record_answered(answer(ToolResult::failure(text), Validity::Valid)).await;
        }
        let mut resolved = match meaning {
            Ok(resolved) => resolved,
            Err(CallRejection::Refused(reason)) => {
                return self
                    .record_answered(answer(ToolResult::failure(reason), Validity::Valid))
                    .await;
            }
            Err(CallRejection::Invalid(invalid)) => {
                return self
                    .record_answered(answer(
                        ToolResult::failure(invalid.message),
                        Validity::Invalid,
                    ))
                    .await;
            }
        };
        if self.would_write_mark(&resolved) {
            let result = ToolResult::failure(MARK_WRITTEN);
            return self.record_answered(answered(&call, &resolved, result)).await;
        }
        // 2) The places that links of the user lead to, which plan and decision respect.
        match guarded(cancel, self.pipeline.sandbox.links()).await {
            Ok(found) => self.pipeline.sandbox.add_links(found, self.session).await?,
            Err(error) => return self.record_refusal(&call, &resolved, error.into()).await,
        }
        // 3) The plan.
        let mut ctx = ToolContext {
            agent: Arc::clone(self.session.context()),
            call_id: call.id.clone(),
            cancellation: cancel.child_token(),
            preview: None,
            withheld_reads: WithheldReads::default(),
            disclosure: Disclosure::AfterApproval,
            progress: Progress::default(),
        };
        let mut plan = match guarded(cancel, resolved.tool.plan(&resolved.input, &ctx)).await {
            Ok(plan) => plan,
            Err(error) => return self.record_refusal(&call, &resolved, error.into()).await,
        };
        // 4) Hooks, which may change the input. Then the plan is another one, and all hooks see the call that will run.
        let (mut rounds, mut before) = (0, None);
        let permission = loop {
            let hooked = match self.run_hooks_before(&resolved, &plan, &call).await? {
                Ok(hooked) => hooked,
                Err(error) => return self.record_refusal(&call, &resolved, error.into()).await,
            };
            // What hooks asked or refused about the former input still counts; what they allowed does not.
            let Some(changed) = hooked.changed else {
                break HookPermission::stricter(before, hooked.permission);
            };
            let given = hooked.permission.filter(|given| *given != HookPermission::Allow);
            before = HookPermission::stricter(before, given);
            if rounds == MOST_CHANGES {
                let text = "hooks change the input of this call again and again";
                self.session.warn_user(text.to_owned()).await?;
                let error = ToolError::Model(text.to_owned());
                return self.record_refusal(&call, &resolved, error.into()).await;
            }
            rounds += 1;
            resolved = changed;
            if self.would_write_mark(&resolved) {
                let result = ToolResult::failure(MARK_WRITTEN);
                return self.record_answered(answered(&call, &resolved, result)).await;
            }
            plan = match guarded(cancel, resolved.tool.plan(&resolved.input, &ctx)).await {
                Ok(plan) => plan,
                Err(error) => return self.record_refusal(&call, &resolved, error.into()).await,
            };
        };
        // 5) The decision of hooks and policy, and of the user if one of them asks.
        match self.decide(&resolved, &plan, &mut ctx, permission).await? {
            Ok(permit) => {
                Ok(PreparedCall::Ready(Box::new(ReadyCall { resolved, plan, permit, ctx, span })))
            }
            Err(refusal) => self.record_refusal(&call, &resolved, refusal).await,
        }
    }

    /// Records the answer of a call that gets no permit.
    async fn record_refusal(
        &mut self,
        call: &ToolCall,
        resolved: &ResolvedCall,
        refusal: PermitRefusal,
    ) -> Result<PreparedCall, AgentError> {
        let (result, denial) = match refusal {
            PermitRefusal::Denied(denial) => {
                (ToolResult::failure(denial.to_model_text()), Some(denial))
            }
            PermitRefusal::Tool(ToolError::Cancelled) => (not_run(), None),
            PermitRefusal::Tool(error) => (error.to_result(), None),
        };
        self.record_answered(ExecutedCall { denial, ..answered(call, resolved, result) }).await
    }

    /// Runs the hooks before a call. The inner error answers the call.
    async fn run_hooks_before(
        &mut self,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        call: &ToolCall,
    ) -> Result<Result<HookedCall, ToolError>, AgentError> {
        if !self.pipeline.hooks.has(HookKind::BeforeCall) {
            return Ok(Ok(HookedCall::default()));
        }
        let hooks = self.pipeline.hooks.clone();
        let moment = HookMoment::BeforeCall {
            call_id: &call.id,
            tool: resolved.tool.name(),
            input: &resolved.input,
            plan,
        };
        let outcome = hooks.run(moment, self.cancel).await;
        if self.cancel.is_cancelled() {
            return Ok(Err(ToolError::Cancelled));
        }
        let HookOutcome { mut permission, input, notices, context, stop, .. } = outcome;
        self.session.show_notices(notices).await?;
        if let Some(reason) = &stop {
            permission = Some(HookPermission::Deny(reason.clone()));
        }
        self.pipeline.hook_results.add(context, stop);
        let hooked = HookedCall { permission, changed: None };
        // A refused call need not be understood any more.
        let is_denied = matches!(hooked.permission, Some(HookPermission::Deny(_)));
        let Some(input) = input.filter(|input| !is_denied && *input != resolved.input) else {
            return Ok(Ok(hooked));
        };
        let shown = crow_text::shorten(&input.to_string(), SHOWN_INPUT);
        let name = resolved.tool.name().to_owned();
        let arguments = CallArguments::Json(input);
        match resolve(self.tools, &ToolCall { name, arguments, ..call.clone() }) {
            Ok(mut changed) => {
                changed.repairs.splice(0..0, resolved.repairs.iter().cloned());
                changed.repairs.push(format!("a hook changed the input to {shown}"));
                Ok(Ok(HookedCall { changed: Some(changed), ..hooked }))
            }
            Err(invalid) => {
                let (tool, why) = (resolved.tool.name(), invalid.message);
                let text = format!(
                    "a hook changed the input of a call of {tool} to one that is invalid: {why}"
                );
                self.session.warn_user(text.clone()).await?;
                Ok(Err(ToolError::Model(text)))
            }
        }
    }

    /// Returns true if a call would write the redaction mark in place of a secret. The model never saw the secret and
    /// cannot mean the mark.
    fn would_write_mark(&self, resolved: &ResolvedCall) -> bool {
        let writes = match resolved.tool.category() {
            ToolCategory::Write
            | ToolCategory::Execute
            | ToolCategory::Network
            | ToolCategory::External => true,
            ToolCategory::Read | ToolCategory::Session | ToolCategory::Agent => false,
        };
        writes
            && self.pipeline.config.redactor.is_active()
            && Redactor::contains_mark(&resolved.input)
    }

    /// Asks the policy and, if required, the user. `hooked` is the permission by hooks.
    async fn decide(
        &mut self,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &mut ToolContext,
        hooked: Option<HookPermission>,
    ) -> Result<Result<Permit, PermitRefusal>, AgentError> {
        let tool = &resolved.tool;
        // 1) What the policy must know: the sandbox, and paths that would start programs.
        if tool.category() == ToolCategory::Execute {
            self.pipeline.sandbox.update(self.session).await?;
        }
        let led_to = self.pipeline.sandbox.autorun_paths(&plan.effects).await;
        let context = Arc::clone(self.session.context());
        let agent = context.agent_name.get();
        let facts = CallFacts {
            call_id: &ctx.call_id,
            session_id: &context.root_id,
            agent: &agent,
            input: &resolved.input,
            tool: tool.name(),
            category: tool.category(),
            requires_permission: tool.requires_permission(),
            plan,
        };
        let PolicyDecision { decision, disclosure, withheld_reads } =
            self.pipeline.policy_decision(facts, &context.workspace, led_to);
        ctx.withheld_reads = withheld_reads;
        ctx.disclosure = disclosure;
        // 2) A decision without a question.
        let ask = match with_hooks(decision, hooked) {
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
        // 3) The question, with a preview of the changes. Where nobody can be asked, the call will be refused, and
        //    the preview would only show what may not be read to whoever reads the events.
        let is_shown =
            ask.disclosure == Disclosure::Immediate || self.pipeline.config.answerer.is_attended();
        let preview = match guarded(self.cancel, tool.preview(&resolved.input, plan, ctx)).await {
            Ok(preview) => preview.filter(|_| is_shown),
            // The error would reveal content that the model may not read: the user is asked first, and the call then
            // fails by itself.
            Err(ToolError::Model(_)) if ask.disclosure == Disclosure::AfterApproval => None,
            Err(error) => return Ok(Err(PermitRefusal::Tool(error))),
        };
        self.announce(resolved, plan, ctx, preview.as_ref()).await?;
        ctx.preview.clone_from(&preview);
        self.ask(ask, resolved, plan, ctx).await
    }

    async fn announce(
        &mut self,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &ToolContext,
        preview: Option<&Preview>,
    ) -> Result<(), AgentError> {
        let pending = AgentEvent::CallPending {
            call_id: ctx.call_id.clone(),
            tool: resolved.tool.name().to_owned(),
            title: plan.title.clone(),
            arguments: resolved.input.clone(),
            preview: preview.map(|preview| preview.patch.clone()),
        };
        self.session.emit(pending).await
    }

    #[tracing::instrument(
        level = "debug",
        name = "permission_question",
        skip_all,
        fields(request = tracing::field::Empty)
    )]
    async fn ask(
        &mut self,
        ask: Ask,
        resolved: &ResolvedCall,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Result<Permit, PermitRefusal>, AgentError> {
        let config = Arc::clone(&self.pipeline.config);
        let mut request = PermissionRequest {
            id: RequestId::new(config.ids.next_id()),
            session_id: self.pipeline.shared.id.clone(),
            agent: self.session.context().agent_name.get().to_string(),
            call_id: ctx.call_id.clone(),
            tool: resolved.tool.name().to_owned(),
            title: plan.title.clone(),
            subject: plan.subject.clone(),
            reason: ask.reason.clone(),
            offers: ask.offers.clone(),
            least_mode: ask.least_mode,
            preview: ctx.preview.clone(),
        };
        // 1) The question, for handles and for the answerer.
        config.redactor.redact_request(&mut request);
        let request_id = request.id.clone();
        Span::current().record("request", tracing::field::display(&request_id));
        let asked_at = config.clock.monotonic();
        tracing::debug!(offers = ask.offers.len(), "user asked");
        let tree = Arc::clone(&self.pipeline.shared.tree);
        // Opened first, so that it can be answered as soon as its event is visible.
        let mut question = tree.answers.open(request.clone());
        self.session.set_state(AgentState::WaitingForPermission).await?;
        let asked = AgentEvent::PermissionRequest {
            request_id: request_id.clone(),
            call_id: request.call_id.clone(),
            tool: request.tool.clone(),
            title: request.title.clone(),
            subject: request.subject.clone(),
            reason: request.reason.clone(),
            offers: request.offers.clone(),
        };
        self.session.emit(asked).await?;
        // The hooks run beside the question, and are dropped with it: an answer waits for none.
        let text = format!("{} needs your permission: {}", request.tool, request.title);
        let hooks = self.pipeline.hooks.clone();
        let moment = HookMoment::Notification { kind: NotificationKind::Permission, text: &text };
        // Without a person nobody is notified.
        let notify = async {
            if !config.answerer.is_attended() {
                return Vec::new();
            }
            hooks.run(moment, self.cancel).await.notices
        };
        let mut notify = pin!(notify);
        let mut is_notified = false;
        let mut answerer = pin!(ask_answerer(config.answerer.as_ref(), request));
        let answer = loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => break None,
                answer = question.answered() => break Some(answer),
                answer = &mut answerer => break Some(answer),
                notices = &mut notify, if !is_notified => {
                    is_notified = true;
                    self.session.show_notices(notices).await?;
                }
            }
        };
        // 2) The answer that counts, or a withdrawal.
        let answer = match answer {
            Some(answer) => Some(question.close_answered(answer)),
            // An answer that was accepted before counts, since its sender was told so.
            None => question.withdraw(),
        };
        let duration_ms = config.millis_since(asked_at);
        let Some(answer) = answer else {
            tracing::debug!(duration_ms, "question withdrawn");
            let call_id = ctx.call_id.clone();
            self.session.emit(AgentEvent::PermissionWithdrawn { request_id, call_id }).await?;
            self.session.set_state(AgentState::Processing).await?;
            return Ok(Err(PermitRefusal::Tool(ToolError::Cancelled)));
        };
        // 3) The effect of the answer.
        let answer = self.within_offers(&ask, answer).await?;
        tracing::debug!(answer = answer.name(), duration_ms, "question answered");
        if let PermissionAnswer::AllowSession { grants } = &answer {
            tree.change_policy(|policy| policy.grant(tree.root.id(), grants));
        }
        self.session.set_state(AgentState::Processing).await?;
        let decision = AgentEvent::PermissionDecision {
            request_id,
            call_id: ctx.call_id.clone(),
            answer: answer.clone(),
            waited_ms: Some(duration_ms),
        };
        self.session.emit(decision).await?;
        Ok(ask.answered(answer).map_err(PermitRefusal::Denied))
    }

    /// Reduces an answer that allows more than was offered to a permission for the one call.
    async fn within_offers(
        &mut self,
        ask: &Ask,
        answer: PermissionAnswer,
    ) -> Result<PermissionAnswer, AgentError> {
        if is_offered(&ask.offers, &answer) {
            return Ok(answer);
        }
        let text = "the answer allowed more than was offered; it applies to this call only";
        self.session.warn_user(text.to_owned()).await?;
        Ok(PermissionAnswer::AllowOnce)
    }
}

/// Returns the decision of the policy and of hooks. A hook that allows answers only a question that the mode alone asks.
fn with_hooks(decision: Decision, hooked: Option<HookPermission>) -> Decision {
    match (decision, hooked) {
        (Decision::Deny(denial), _) => Decision::Deny(denial),
        (_, Some(HookPermission::Deny(reason))) => {
            Decision::Deny(Denial { source: DenialSource::Hook, reason })
        }
        (Decision::Ask(ask), Some(HookPermission::Allow)) => match ask.permitted_by_hook() {
            Ok(permit) => Decision::Allow(permit),
            Err(ask) => Decision::Ask(ask),
        },
        (Decision::Allow(permit), Some(HookPermission::Ask(reason))) => {
            Decision::Ask(permit.asked_about(reason))
        }
        (Decision::Ask(ask), Some(HookPermission::Ask(reason))) => {
            Decision::Ask(ask.because_of(&reason))
        }
        (decision @ Decision::Allow(_), Some(HookPermission::Allow) | None)
        | (decision @ Decision::Ask(_), None) => decision,
    }
}

/// Logs the rules, or the mode, that decided about a call. Rules are named by their ids.
fn log_decision(explanation: &Explanation) {
    let decision = explanation.decision;
    match &explanation.cause {
        DecisionCause::Rules(rules) => {
            let ids: Vec<_> = rules.iter().map(|rule| rule.id.as_str()).collect();
            tracing::debug!(?decision, rules = ids.join(", "), "decided by rules");
        }
        DecisionCause::Mode(mode) => tracing::debug!(?decision, %mode, "decided by the mode"),
    }
}

/// Maximum number of times that hooks may change the input of a call.
const MOST_CHANGES: u32 = 3;
/// Length of a changed input in the result of its call, in bytes.
const SHOWN_INPUT: usize = 500;

/// The error for a call that contains the redaction mark.
const MARK_WRITTEN: &str = "`[redacted by crow]` stands in place of a secret that you were not shown. It is in no file, \
    and writing it would destroy the secret. Nothing was done. Leave that part out: edit the lines around it, or let a \
    command read the secret from where it is.";

/// Returns the result of a call that was cancelled before it began.
pub(super) fn not_run() -> ToolResult {
    let mut result = ToolResult::cancelled();
    "The call was not run: the run was cancelled before it began.".clone_into(&mut result.output);
    result
}

/// The reason why a call gets no permit.
enum PermitRefusal {
    Denied(Denial),
    Tool(ToolError),
}

impl From<ToolError> for PermitRefusal {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// What hooks say to a call before it is decided about.
#[derive(Default)]
struct HookedCall {
    permission: Option<HookPermission>,
    /// The call with the input of a hook.
    changed: Option<ResolvedCall>,
}

/// Makes the answer of a call that does not run.
fn answered(call: &ToolCall, resolved: &ResolvedCall, result: ToolResult) -> ExecutedCall {
    ExecutedCall {
        id: call.id.clone(),
        name: resolved.tool.name().to_owned(),
        arguments: resolved.input.clone(),
        result,
        duration_ms: 0,
        validity: Validity::Valid,
        ends_turn: false,
        denial: None,
    }
}

/// Asks the answerer. A panic in it becomes the answer `Nobody`.
async fn ask_answerer(answerer: &dyn Answerer, request: PermissionRequest) -> PermissionAnswer {
    let caught = AssertUnwindSafe(async { answerer.ask(request).await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| PermissionAnswer::Nobody {
        hint: format!("the answerer panicked: {}", panic_message(panic.as_ref())),
    })
}

/// Runs the planning of a tool. A panic becomes an error of the tool, and a cancel ends it.
pub(super) async fn guarded<T>(
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
