//! One call of the model: stream, events, record.

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

/// What the model is asked with, beside the history.
#[derive(Debug, Clone, Copy)]
pub struct ModelCall<'a> {
    /// The model.
    pub model: &'a ResolvedModel,
    /// The system prompt.
    pub system: &'a str,
    /// The tools.
    pub tools: &'a [ToolDefinition],
    /// How the model is asked.
    pub config: &'a ModelConfig,
    /// Whether it may call tools, or must.
    pub tool_choice: ToolChoice<'a>,
}

/// What came of the open reply so far.
#[derive(Debug)]
struct StreamedReply {
    id: ReplyId,
    /// Something of it came.
    has_begun: bool,
    text: String,
    thinking: String,
    text_stream: RedactedStream,
    thinking_stream: RedactedStream,
}

/// A call under way, and what its tokens cost where money is bounded.
#[derive(Debug, Clone, Copy)]
struct PricedModelCall<'a> {
    call: ModelCall<'a>,
    price: Option<Price>,
}

/// What a delta is a part of.
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

    /// Takes a delta, or none at the end, and returns the event that shows what can be shown by now.
    fn take(&mut self, part: DeltaKind, delta: Option<String>) -> Option<AgentEvent> {
        let (known, stream) = match part {
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
        let (reply_id, offset) = (self.id.clone(), known.len() as u64);
        known.push_str(&delta);
        Some(match part {
            DeltaKind::Text => AgentEvent::TextDelta { reply_id, offset, delta },
            DeltaKind::Thinking => AgentEvent::ThinkingDelta { reply_id, offset, delta },
        })
    }
}

impl AgentInternals {
    /// Asks the model with the whole history, passes what comes on as events, and records the reply and its usage.
    ///
    /// Returns the reply with the id under which it stands in the history.
    pub async fn call_model(
        &mut self,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<(ReplyId, ModelReply), AgentError> {
        self.set_state(AgentState::Processing).await?;
        self.tell_undone(false).await?;
        self.tell_gone_jobs().await?;
        self.tell_ended_jobs().await?;
        self.tell_ended_tasks().await?;
        let price = self.price(&call.model.info.reference).await?;
        let stream = self.open_stream(call)?;
        self.sync_beside().await?;
        let id = ReplyId::new(self.config.ids.next_id());
        let mut open = StreamedReply::new(id.clone(), &self.config.redactor);
        let asked = PricedModelCall { call, price };
        let read = cancel.run_until_cancelled(self.read(stream, &mut open, asked)).await;
        let mut reply = match read.unwrap_or(Err(AgentError::Cancelled)) {
            Ok(reply) => reply,
            Err(error) => {
                self.record_attempt(&open, asked).await?;
                return Err(error);
            }
        };
        make_call_ids_unique(&mut reply.blocks);
        let estimated = self.complete_usage(&mut reply, call)?;
        self.draw(reply.usage, price);
        self.shared.tree.spend(model_of(&reply.origin), reply.usage);
        self.record_reply(open, &reply, estimated).await?;
        Ok((id, reply))
    }

    /// Puts an estimate in place of what the provider does not say, and returns whether it did: a bound on tokens
    /// holds for every provider.
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

    /// Counts an attempt that broke off in the middle of a reply: it is paid for all the same. One that brought nothing
    /// was most likely never begun.
    async fn record_attempt(
        &mut self,
        open: &StreamedReply,
        asked: PricedModelCall<'_>,
    ) -> Result<(), AgentError> {
        if !open.has_begun {
            return Ok(());
        }
        let PricedModelCall { call, price } = asked;
        let input_tokens = self.estimated_input(call)?;
        let estimator = self.estimator(call);
        let output_tokens = estimator.text(&open.text) + estimator.text(&open.thinking);
        let usage = TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() };
        self.draw_attempt(usage, price);
        self.shared.tree.spend(call.model.info.reference.clone(), usage);
        let reply_id = open.id.clone();
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
        let (_, conversation) =
            if let Some(known) = self.conversation.take().filter(|(model, _)| model == reference) {
                self.conversation.insert(known)
            } else {
                let new = call.model.provider.conversation(&call.model.info, &self.shared.id);
                self.conversation.insert((reference.clone(), new))
            };
        Ok(conversation.stream(request))
    }

    async fn read(
        &mut self,
        mut stream: ModelStream,
        open: &mut StreamedReply,
        asked: PricedModelCall<'_>,
    ) -> Result<ModelReply, AgentError> {
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::TextDelta(delta) => {
                    self.pass_delta_on(open, DeltaKind::Text, Some(delta)).await?;
                }
                ModelEvent::ThinkingDelta(delta) => {
                    self.pass_delta_on(open, DeltaKind::Thinking, Some(delta)).await?;
                }
                ModelEvent::CallStarted { .. } => open.has_begun = true,
                ModelEvent::Waiting(wait) => {
                    let wait_ms = wait.wait.map(whole_millis);
                    let (reply_id, reason) = (open.id.clone(), wait.reason);
                    self.emit(AgentEvent::ModelWait { reply_id, reason, wait_ms }).await?;
                }
                ModelEvent::Retrying(retry) => {
                    self.record_attempt(open, asked).await?;
                    self.reset(open, retry).await?;
                }
                ModelEvent::Completed(reply) => {
                    self.pass_delta_on(open, DeltaKind::Thinking, None).await?;
                    self.pass_delta_on(open, DeltaKind::Text, None).await?;
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
        open: &mut StreamedReply,
        part: DeltaKind,
        delta: Option<String>,
    ) -> Result<(), AgentError> {
        match open.take(part, delta) {
            Some(event) => self.emit(event).await,
            None => Ok(()),
        }
    }

    async fn reset(&mut self, open: &mut StreamedReply, retry: Retry) -> Result<(), AgentError> {
        *open = StreamedReply::new(open.id.clone(), &self.config.redactor);
        let wait_ms = whole_millis(retry.wait);
        let event = AgentEvent::ReplyReset {
            reply_id: open.id.clone(),
            error: retry.error,
            attempt: retry.attempt,
            wait_ms,
        };
        self.emit(event).await
    }

    async fn record_reply(
        &mut self,
        open: StreamedReply,
        reply: &ModelReply,
        estimated: bool,
    ) -> Result<(), AgentError> {
        let StreamedReply { id, text, thinking, .. } = open;
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

/// Gives every call of a reply an id of its own: some servers repeat them or leave them out.
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
        // The native item names the old id, and is dropped by itself because the block has changed.
        call.id = id.clone();
        seen.push(id);
    }
}
