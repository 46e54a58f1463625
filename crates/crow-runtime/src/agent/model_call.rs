//! A model call: streaming, events, recording and usage.
//!
//! Deltas pass through a redaction stream, which may hold text back until it is known to contain no secret. The final
//! reply is recorded as one durable event. Usage is counted for every attempt that delivered something, with estimates
//! where the provider reports none, so that budgets apply to all providers.

use std::time::Duration;

use crow_core::{
    context::TokenEstimator,
    event::{AgentEvent, AgentState},
    ids::{CallId, ReplyId},
    message::{ReplyBlock, ReplyContent},
    model::{
        ModelConfig, ModelEvent, ModelReply, ModelRequest, ModelStream, Price, ProviderError,
        ProviderErrorKind, ResolvedModel, Retry, ToolChoice, ToolDefinition,
    },
    redact::{RedactedStream, Redactor},
    usage::TokenUsage,
};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{AgentError, AgentInternals};
use crate::session::model_of;

/// The parameters of a model call besides the history.
#[derive(Debug, Clone, Copy)]
pub struct ModelCall<'a> {
    /// The model.
    pub model: &'a ResolvedModel,
    /// The system prompt.
    pub system: &'a str,
    /// The tools.
    pub tools: &'a [ToolDefinition],
    /// Generation settings.
    pub config: &'a ModelConfig,
    /// Permission or obligation of the model to call tools.
    pub tool_choice: ToolChoice<'a>,
}

/// The part of a reply received so far.
#[derive(Debug)]
struct StreamedReply {
    id: ReplyId,
    /// True once any part of the reply was received.
    has_begun: bool,
    text: String,
    thinking: String,
    text_stream: RedactedStream,
    thinking_stream: RedactedStream,
}

/// A call under way, and the price of its tokens if there is a limit in money.
#[derive(Debug, Clone, Copy)]
struct PricedModelCall<'a> {
    call: ModelCall<'a>,
    price: Option<Price>,
}

/// The part of a reply that a delta belongs to.
#[derive(Debug, Clone, Copy)]
enum DeltaKind {
    Text,
    Thinking,
}

impl StreamedReply {
    fn new(id: ReplyId, redactor: &Redactor) -> Self {
        Self {
            id,
            has_begun: false,
            text: String::new(),
            thinking: String::new(),
            text_stream: redactor.stream(),
            thinking_stream: redactor.stream(),
        }
    }

    /// Takes a delta, or `None` at the end, and returns an event with the text that can be shown by now.
    fn take(&mut self, part: DeltaKind, delta: Option<String>) -> Option<AgentEvent> {
        let (buffer, stream) = match part {
            DeltaKind::Text => (&mut self.text, &mut self.text_stream),
            DeltaKind::Thinking => (&mut self.thinking, &mut self.thinking_stream),
        };
        let is_end = delta.is_none();
        self.has_begun |= !is_end;
        let delta = match delta {
            Some(delta) => stream.push(delta),
            None => stream.finish(),
        };
        if delta.is_empty() && is_end {
            return None;
        }
        let (reply_id, offset) = (self.id.clone(), buffer.len() as u64);
        buffer.push_str(&delta);
        Some(match part {
            DeltaKind::Text => AgentEvent::TextDelta { reply_id, offset, delta },
            DeltaKind::Thinking => AgentEvent::ThinkingDelta { reply_id, offset, delta },
        })
    }
}

impl AgentInternals {
    /// Calls the model with the whole history, emits deltas as events, and records the reply and its usage.
    ///
    /// Returns the reply and its id in the history.
    pub async fn call_model(
        &mut self,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<(ReplyId, ModelReply), AgentError> {
        self.set_state(AgentState::Processing).await?;
        // 1) Notices that the model must see first.
        self.report_undos(false).await?;
        self.report_gone_jobs().await?;
        self.report_ended_jobs().await?;
        self.report_ended_tasks().await?;
        // 2) The request.
        let price = self.price(&call.model.info.reference).await?;
        let stream = self.open_stream(call)?;
        self.sync_in_background().await?;
        let id = ReplyId::new(self.config.ids.next_id());
        let mut partial = StreamedReply::new(id.clone(), &self.config.redactor);
        let priced = PricedModelCall { call, price };
        let read = cancel.run_until_cancelled(self.read_stream(stream, &mut partial, priced)).await;
        let mut reply = match read.unwrap_or(Err(AgentError::Cancelled)) {
            Ok(reply) => reply,
            Err(error) => {
                self.record_attempt(&partial, priced).await?;
                return Err(error);
            }
        };
        // 3) Usage and the recorded reply.
        make_call_ids_unique(&mut reply.blocks);
        let estimated = self.complete_usage(&mut reply, call)?;
        self.draw(reply.usage, price);
        self.shared.tree.spend(model_of(&reply.origin), reply.usage);
        self.record_reply(partial, &reply, estimated).await?;
        Ok((id, reply))
    }

    /// Replaces usage that the provider does not report with estimates, so that token limits apply to every provider.
    /// Returns true if anything was estimated.
    fn complete_usage(
        &mut self,
        reply: &mut ModelReply,
        call: ModelCall<'_>,
    ) -> Result<bool, AgentError> {
        let is_answered = !reply.blocks.is_empty();
        let lacks_input = reply.usage.input_tokens == 0;
        let lacks_output = reply.usage.output_tokens == 0 && is_answered;
        if lacks_input {
            reply.usage.input_tokens = self.estimated_input(call)?;
        }
        if lacks_output {
            reply.usage.output_tokens = self.estimator(call).reply(&reply.blocks);
        }
        Ok(lacks_input || lacks_output)
    }

    fn estimator(&mut self, call: ModelCall<'_>) -> &mut TokenEstimator {
        self.estimator.get_or_insert_with(|| TokenEstimator::new(call.system, call.tools))
    }

    fn estimated_input(&mut self, call: ModelCall<'_>) -> Result<u64, AgentError> {
        self.estimator(call);
        let messages =
            self.history.messages().map_err(|open| AgentError::CallsOpen { count: open.len() })?;
        Ok(self.estimator.as_mut().map_or(0, |estimator| estimator.request(messages)))
    }

    /// Counts an attempt that failed in the middle of a reply, since it is charged all the same. One that delivered
    /// nothing most likely never began, and is not counted.
    async fn record_attempt(
        &mut self,
        partial: &StreamedReply,
        priced: PricedModelCall<'_>,
    ) -> Result<(), AgentError> {
        if !partial.has_begun {
            return Ok(());
        }
        let PricedModelCall { call, price } = priced;
        let input_tokens = self.estimated_input(call)?;
        let estimator = self.estimator(call);
        let output_tokens = estimator.text(&partial.text) + estimator.text(&partial.thinking);
        let usage = TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() };
        self.draw_attempt(usage, price);
        self.shared.tree.spend(call.model.info.reference.clone(), usage);
        let reply_id = partial.id.clone();
        self.emit(AgentEvent::Usage { reply_id, usage, estimated: true }).await
    }

    fn open_stream(&mut self, call: ModelCall<'_>) -> Result<ModelStream, AgentError> {
        let messages =
            self.history.messages().map_err(|open| AgentError::CallsOpen { count: open.len() })?;
        let reference = &call.model.info.reference;
        let request = ModelRequest {
            system: call.system,
            tools: call.tools,
            messages,
            config: call.config,
            tool_choice: call.tool_choice,
        };
        let (_, conversation) = if let Some(current) =
            self.conversation.take().filter(|(model, _)| model == reference)
        {
            self.conversation.insert(current)
        } else {
            let new = call.model.provider.conversation(&call.model.info, &self.shared.id);
            self.conversation.insert((reference.clone(), new))
        };
        Ok(conversation.stream(request))
    }

    async fn read_stream(
        &mut self,
        mut stream: ModelStream,
        partial: &mut StreamedReply,
        priced: PricedModelCall<'_>,
    ) -> Result<ModelReply, AgentError> {
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::TextDelta(delta) => {
                    self.pass_delta_on(partial, DeltaKind::Text, Some(delta)).await?;
                }
                ModelEvent::ThinkingDelta(delta) => {
                    self.pass_delta_on(partial, DeltaKind::Thinking, Some(delta)).await?;
                }
                ModelEvent::CallStarted { .. } => partial.has_begun = true,
                ModelEvent::Waiting(wait) => {
                    let wait_ms = wait.wait.map(whole_millis);
                    let (reply_id, reason) = (partial.id.clone(), wait.reason);
                    self.emit(AgentEvent::ModelWait { reply_id, reason, wait_ms }).await?;
                }
                ModelEvent::Retrying(retry) => {
                    self.record_attempt(partial, priced).await?;
                    self.reset(partial, retry).await?;
                }
                ModelEvent::Completed(reply) => {
                    self.pass_delta_on(partial, DeltaKind::Thinking, None).await?;
                    self.pass_delta_on(partial, DeltaKind::Text, None).await?;
                    return Ok(reply);
                }
            }
        }
        Err(ProviderError::new(
            ProviderErrorKind::Truncated,
            "the provider's stream ended without a reply",
        )
        .into())
    }

    async fn pass_delta_on(
        &mut self,
        partial: &mut StreamedReply,
        part: DeltaKind,
        delta: Option<String>,
    ) -> Result<(), AgentError> {
        match partial.take(part, delta) {
            Some(event) => self.emit(event).await,
            None => Ok(()),
        }
    }

    async fn reset(&mut self, partial: &mut StreamedReply, retry: Retry) -> Result<(), AgentError> {
        *partial = StreamedReply::new(partial.id.clone(), &self.config.redactor);
        let wait_ms = whole_millis(retry.wait);
        let event = AgentEvent::ReplyReset {
            reply_id: partial.id.clone(),
            error: retry.error,
            attempt: retry.attempt,
            wait_ms,
        };
        self.emit(event).await
    }

    async fn record_reply(
        &mut self,
        partial: StreamedReply,
        reply: &ModelReply,
        estimated: bool,
    ) -> Result<(), AgentError> {
        let StreamedReply { id, text, thinking, .. } = partial;
        self.emit(AgentEvent::Reply {
            reply_id: id.clone(),
            blocks: reply.blocks.clone(),
            stop: reply.stop,
            origin: reply.origin.clone(),
            response_id: reply.response_id.clone(),
        })
        .await?;
        if !thinking.is_empty() {
            self.emit(AgentEvent::ThinkingComplete { reply_id: id.clone(), text: thinking })
                .await?;
        }
        if !text.is_empty() {
            self.emit(AgentEvent::TextComplete { reply_id: id.clone(), text }).await?;
        }
        self.emit(AgentEvent::Usage { reply_id: id, usage: reply.usage, estimated }).await
    }
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Makes the call ids of a reply unique: some servers repeat or omit them.
fn make_call_ids_unique(blocks: &mut [ReplyBlock]) {
    let mut seen: Vec<CallId> = Vec::new();
    for block in blocks {
        let ReplyContent::Call(call) = &mut block.content else { continue };
        let base =
            if call.id.as_str().is_empty() { "call".to_owned() } else { call.id.to_string() };
        let mut id = CallId::new(base.clone());
        let mut number = 2;
        while seen.contains(&id) {
            id = CallId::new(format!("{base}-{number}"));
            number += 1;
        }
        // The native item contains the old id; it is discarded because the block differs from it now.
        call.id = id.clone();
        seen.push(id);
    }
}
