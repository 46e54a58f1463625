//! Compaction of a session's conversation, between two model calls of a turn.
//!
//! The decisions are those of [`crow_context::compaction`]; this asks the model for the summary and records the
//! result. The ladder, each rung tried when the one before does not make the request short enough:
//!
//! 1. Old outputs become placeholders. No model call.
//! 2. The model summarizes what comes before the last steps. A summary that is empty, too long or refused is replaced by
//!    one that is made without a model.
//! 3. Fewer steps are kept, with their outputs as placeholders; then the last one alone.
//! 4. The request is sent as it is; if the provider refuses it, the run ends with its error.

use std::sync::Arc;

use crow_context::compaction::{
    CompactionPlan, CompactionRung, Cooldown, WindowLimits, check_summary, compose_summary,
    mechanical_summary, open_failures, plan_masking, plan_summary, summary_instruction, transcript,
};
use crow_core::{
    context::TokenEstimator,
    event::{AgentEvent, CompactionReport, CompactionTrigger},
    ids::MessageId,
    message::{Block, Message, ReplyContent, UserMessage},
    model::{ModelReply, StopReason, ToolChoice},
};
use crow_runtime::{AgentError, AgentInternals, ModelCall};
use tokio_util::sync::CancellationToken;

use crate::session_hooks::{after_compaction, permits_compaction};

/// Tokens of the marks around a summary.
const SUMMARY_MARKS: u64 = 30;

/// Keeps the conversation of a turn below the window of its model.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    cooldown: Cooldown,
}

/// A conversation that is to be compacted.
struct CompactionInput<'a> {
    call: ModelCall<'a>,
    messages: Vec<Arc<Message>>,
    estimator: TokenEstimator,
    /// Tokens of the next request.
    tokens: u64,
    limits: WindowLimits,
    reason: CompactionReason<'a>,
}

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy)]
struct CompactionReason<'a> {
    trigger: CompactionTrigger,
    /// Words of the user about the content that the summary must keep.
    focus: Option<&'a str>,
}

impl From<CompactionTrigger> for CompactionReason<'_> {
    fn from(trigger: CompactionTrigger) -> Self {
        Self { trigger, focus: None }
    }
}

/// A plan with its summary, which is empty if only outputs are replaced.
struct Compaction {
    plan: CompactionPlan,
    summary: String,
    /// Tokens of the next request with it.
    tokens: u64,
}

impl Compactor {
    /// Compacts the conversation if the next request comes close to the window. Returns true if it did.
    pub(crate) async fn before_call(
        &mut self,
        agent: &mut AgentInternals,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let size = agent.request_size(call)?;
        let (tokens, Some(window)) = (size.tokens, size.window) else { return Ok(false) };
        let limits = WindowLimits::new(window, call.model.info.max_output_tokens);
        if !limits.is_due(tokens) {
            return Ok(false);
        }
        // An estimate ends no run: if nothing helps, the provider decides whether the request is too long.
        let reason = CompactionReason::from(CompactionTrigger::Window);
        Box::pin(self.compact(agent, call, limits, reason, cancel)).await
    }

    /// Compacts the conversation after the provider refused it as too long. Returns false if nothing helps.
    pub(crate) async fn on_overflow(
        &mut self,
        agent: &mut AgentInternals,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let tokens = agent.request_size(call)?.tokens;
        agent.on_refused_length(call, tokens);
        let window = agent.request_size(call)?.window.unwrap_or(tokens);
        let limits = WindowLimits::new(window, call.model.info.max_output_tokens);
        let reason = CompactionReason::from(CompactionTrigger::Overflow);
        Box::pin(self.compact(agent, call, limits, reason, cancel)).await
    }

    /// Compacts the conversation because the user asks for it, with a summary. Returns false if there is nothing to leave
    /// out. `focus` is what is to be kept above all.
    pub(crate) async fn on_request(
        &mut self,
        agent: &mut AgentInternals,
        call: ModelCall<'_>,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let size = agent.request_size(call)?;
        let limits = WindowLimits::on_request(size.tokens, size.window);
        let reason = CompactionReason { trigger: CompactionTrigger::User, focus };
        Box::pin(self.compact(agent, call, limits, reason, cancel)).await
    }

    /// Records a model call that was answered.
    pub(crate) fn on_model_call(&mut self) {
        self.cooldown.on_model_call();
    }

    /// Compacts the conversation and records it. Returns false if that does not make it short enough, or was tried just
    /// before.
    async fn compact(
        &mut self,
        agent: &mut AgentInternals,
        call: ModelCall<'_>,
        limits: WindowLimits,
        reason: CompactionReason<'_>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let size = agent.request_size(call)?;
        let (tokens, estimator) = (size.tokens, size.estimator.clone());
        if !self.cooldown.permits(tokens) {
            return Ok(false);
        }
        let CompactionReason { trigger, focus } = reason;
        // A compaction that the user started was checked by the hooks at its start.
        if trigger != CompactionTrigger::User {
            permits_compaction(agent, trigger, focus, cancel).await?;
        }
        let messages = agent
            .history()
            .messages()
            .map_err(|open| AgentError::CallsOpen { count: open.len() })?
            .to_vec();
        let input = CompactionInput { call, messages, estimator, tokens, limits, reason };
        let Some(done) = input.compact(agent, cancel).await? else {
            self.cooldown.on_compaction(tokens, tokens);
            return Ok(false);
        };
        let report = CompactionReport { trigger, tokens_before: tokens, tokens_after: done.tokens };
        agent
            .emit(AgentEvent::Compaction {
                summary: done.summary,
                first_kept: done.plan.first_kept,
                kept: done.plan.kept,
                masked: done.plan.masked,
                report: Some(report),
            })
            .await?;
        self.cooldown.on_compaction(tokens, done.tokens);
        after_compaction(agent, cancel).await?;
        Ok(true)
    }
}

impl CompactionInput<'_> {
    /// Returns the compaction of the first rung that makes the request short enough, or `None` if no rung does.
    async fn compact(
        &self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<Option<Compaction>, AgentError> {
        let Self { messages, estimator, limits, reason, .. } = self;
        let fixed = estimator.fixed();
        // A compaction on request always writes a summary.
        let may_mask = reason.trigger != CompactionTrigger::User;
        if may_mask && let Some(plan) = plan_masking(messages, estimator, fixed, limits) {
            let tokens = fixed + plan.tokens;
            return Ok(Some(Compaction { plan, summary: String::new(), tokens }));
        }
        let todo = {
            let context = agent.context();
            context.todo.lock().unwrap_or_else(std::sync::PoisonError::into_inner).to_text()
        };
        let rungs = CompactionRung::ALL.into_iter();
        let plans: Vec<_> = rungs
            .filter_map(|rung| Some((rung, plan_summary(messages, estimator, limits, rung)?)))
            .collect();
        let Some((_, first)) = plans.first() else { return Ok(None) };
        let written = self.ask_for_summary(agent, first, cancel).await?;
        for (rung, plan) in plans {
            let text = written
                .clone()
                .unwrap_or_else(|| mechanical_summary(&messages[..plan.cut], estimator, limits));
            let summary = compose_summary(&text, &open_failures(messages, plan.cut), Some(&todo));
            let tokens = fixed + plan.tokens + estimator.text(&summary) + SUMMARY_MARKS;
            let most = match rung {
                CompactionRung::Full => limits.target,
                // A short reply is better than outputs that the model never sees.
                CompactionRung::Tight | CompactionRung::Least => limits.window - limits.window / 8,
            };
            if tokens < most {
                return Ok(Some(Compaction { plan, summary, tokens }));
            }
        }
        Ok(None)
    }

    /// Asks the model for a summary. Returns `None` if it gives none that can be used.
    async fn ask_for_summary(
        &self,
        agent: &mut AgentInternals,
        plan: &CompactionPlan,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, AgentError> {
        let instruction = summary_instruction(&self.limits, self.reason.focus);
        // The same messages as before, so that the provider has them in its cache; unless they are too long for it.
        let is_too_long = self.tokens.saturating_add(self.limits.summary * 2) > self.limits.window;
        let messages = if self.reason.trigger == CompactionTrigger::Overflow || is_too_long {
            let left_out = &self.messages[..plan.cut];
            let text = transcript(left_out, &self.estimator, self.limits.target / 2);
            vec![instruction_message(format!("{text}\n{instruction}"))]
        } else {
            self.messages.iter().cloned().chain([instruction_message(instruction)]).collect()
        };
        // A small model may go on without end. What is longer is not used; thinking before it is not known in advance.
        let mut config = self.call.config.clone();
        if !self.call.model.info.abilities.thinking {
            let most = self.limits.summary * 2;
            config.max_tokens = Some(config.max_tokens.map_or(most, |given| given.min(most)));
        }
        let call = ModelCall { tool_choice: ToolChoice::None, config: &config, ..self.call };
        let reply = match agent.ask_model(call, &messages, cancel).await {
            Ok(reply) => reply,
            Err(AgentError::Provider(error)) => {
                tracing::debug!(%error, "the model could not be asked for a summary");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if reply.stop == StopReason::MaxTokens {
            tracing::debug!("the summary of the model is cut, and not used");
            return Ok(None);
        }
        let replaced: u64 =
            self.messages[..plan.cut].iter().map(|message| self.estimator.message(message)).sum();
        match check_summary(&text_of(&reply), &self.estimator, &self.limits, replaced) {
            Ok(text) => Ok(Some(text)),
            Err(rejection) => {
                tracing::debug!(%rejection, "the summary of the model is not used");
                Ok(None)
            }
        }
    }
}

fn instruction_message(text: String) -> Arc<Message> {
    let id = MessageId::new("summary-instruction");
    Arc::new(Message::User(UserMessage { id, content: vec![Block::text(text)] }))
}

fn text_of(reply: &ModelReply) -> String {
    let texts = reply.blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Text { text } => Some(text.as_str()),
        ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
