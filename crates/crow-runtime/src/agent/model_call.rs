//! A model call: streaming, events, recording and usage.
//!
//! Deltas pass through a redaction stream, which may hold text back until it is known to contain no secret. The final
//! reply is recorded as one durable event. Usage is counted for every attempt that delivered something, with estimates
//! where the provider reports none, so that budgets apply to all providers.

use std::{sync::Arc, time::Duration};

use crow_core::{
    context::TokenEstimator,
    event::{AgentEvent, ModelCallTiming, NoticeAudience, NoticeLevel, RequestPrefix},
    history::History,
    ids::{CallId, ReplyId},
    message::{Message, ReplyBlock, ReplyContent, unpaired_call},
    model::{
        Conversation, ModelConfig, ModelEvent, ModelRef, ModelReply, ModelRequest, ModelStream,
        Price, ProviderError, ProviderErrorKind, ResolvedModel, Retry, ToolChoice, ToolDefinition,
    },
    redact::{RedactedStream, Redactor},
    usage::TokenUsage,
};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    AgentError, agent_shared::AgentShared, run_budget::RunBudget, session_writer::SessionWriter,
    side_requests::LastModel,
};
use crate::{
    config::{RuntimeConfig, whole_millis},
    session::model_of,
};

/// The parameters of a model call.
#[derive(Debug, Clone, Copy)]
pub struct ModelCall<'a> {
    /// The messages to send instead of those of the history: a part of them, shorter ones, or others. Every call in them
    /// needs its result. A message that differs from one sent before needs another id: providers encode each id once.
    pub messages: Option<&'a [Arc<Message>]>,
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

impl<'a> ModelCall<'a> {
    /// Makes the parameters of a call with the messages of the history, in which the model decides about tools itself.
    pub fn new(
        model: &'a ResolvedModel,
        system: &'a str,
        tools: &'a [ToolDefinition],
        config: &'a ModelConfig,
    ) -> Self {
        Self { messages: None, model, system, tools, config, tool_choice: ToolChoice::Auto }
    }

    /// Returns the messages to send. Fails if a call in them has no result.
    fn messages_to_send<'m>(&self, history: &'m History) -> Result<&'m [Arc<Message>], AgentError>
    where
        'a: 'm,
    {
        let Some(messages) = self.messages else { return messages_of(history) };
        match unpaired_call(messages) {
            None => Ok(messages),
            Some(call_id) => Err(AgentError::UnpairedCall { call_id: call_id.clone() }),
        }
    }
}

/// The estimated length of the next request, see [`AgentInternals::request_size`](super::AgentInternals::request_size).
#[derive(Debug, Clone, Copy)]
pub struct RequestSize<'a> {
    /// Tokens of the request: those of the last one as the provider counted them, and an estimate of what came after.
    pub tokens: u64,
    /// The context window of the model in tokens, if it is known: the stated one, or less if the provider refused
    /// shorter requests.
    pub window: Option<u64>,
    /// Estimates parts of the request, corrected by what the provider reported so far.
    pub estimator: &'a TokenEstimator,
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
    timer: ModelCallTimer,
}

/// Measures a model call.
#[derive(Debug, Clone, Copy)]
struct ModelCallTimer {
    /// When the request was sent, on the monotonic clock.
    started: Duration,
    first_chunk: Option<Duration>,
    retries: u32,
    /// Length of the request, once the service accepted it.
    request_bytes: Option<u64>,
}

impl ModelCallTimer {
    fn start(config: &RuntimeConfig) -> Self {
        let started = config.clock.monotonic();
        Self { started, first_chunk: None, retries: 0, request_bytes: None }
    }

    /// Notes that a part of the reply was received.
    fn on_chunk(&mut self, config: &RuntimeConfig) {
        if self.first_chunk.is_none() {
            self.first_chunk = Some(config.clock.monotonic());
        }
    }

    /// Notes that the request is repeated.
    fn on_retry(&mut self) {
        self.first_chunk = None;
        self.retries += 1;
    }

    fn timing(self, config: &RuntimeConfig) -> ModelCallTiming {
        ModelCallTiming {
            duration_ms: config.millis_since(self.started),
            first_chunk_ms: self
                .first_chunk
                .map(|first| whole_millis(first.saturating_sub(self.started))),
            retries: self.retries,
        }
    }
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
    fn new(id: ReplyId, timer: ModelCallTimer, redactor: &Redactor) -> Self {
        Self {
            id,
            has_begun: false,
            text: String::new(),
            thinking: String::new(),
            text_stream: redactor.stream(),
            thinking_stream: redactor.stream(),
            timer,
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

    /// Takes a delta, or `None` at the end, and emits what can be shown by now.
    async fn pass_on(
        &mut self,
        session: &mut SessionWriter,
        part: DeltaKind,
        delta: Option<String>,
    ) -> Result<(), AgentError> {
        match self.take(part, delta) {
            Some(event) => session.emit(event).await,
            None => Ok(()),
        }
    }

    /// Discards what was received, because the request is repeated.
    async fn restart(
        &mut self,
        session: &mut SessionWriter,
        retry: Retry,
    ) -> Result<(), AgentError> {
        self.timer.on_retry();
        *self = Self::new(self.id.clone(), self.timer, &session.config().redactor);
        let wait_ms = whole_millis(retry.wait);
        let event = AgentEvent::ReplyReset {
            reply_id: self.id.clone(),
            error: retry.error,
            attempt: retry.attempt,
            wait_ms,
        };
        session.emit(event).await
    }

    /// Records the complete reply and its usage.
    async fn record(
        self,
        session: &mut SessionWriter,
        reply: &ModelReply,
        estimated: bool,
        prefix: Option<Box<RequestPrefix>>,
    ) -> Result<(), AgentError> {
        let Self { id, text, thinking, timer, .. } = self;
        let (timing, request_bytes) = (Some(timer.timing(session.config())), timer.request_bytes);
        session
            .emit(AgentEvent::Reply {
                reply_id: id.clone(),
                blocks: reply.blocks.clone(),
                stop: reply.stop,
                origin: reply.origin.clone(),
                response_id: reply.response_id.clone(),
            })
            .await?;
        if !thinking.is_empty() {
            session
                .emit(AgentEvent::ThinkingComplete { reply_id: id.clone(), text: thinking })
                .await?;
        }
        if !text.is_empty() {
            session.emit(AgentEvent::TextComplete { reply_id: id.clone(), text }).await?;
        }
        let usage = reply.usage;
        session
            .emit(AgentEvent::Usage {
                reply_id: id,
                usage,
                estimated,
                prefix,
                timing,
                request_bytes,
            })
            .await
    }
}

/// The connection of an agent to its model: the conversation with the provider, and the accounting of its usage.
pub(super) struct ModelPort {
    shared: Arc<AgentShared>,
    budget: RunBudget,
    /// The provider's side of the conversation, and the model it is with.
    conversation: Option<(ModelRef, Box<dyn Conversation>)>,
    estimator: Option<ModelEstimator>,
    /// The model of the last call, for requests of calls.
    last: LastModel,
}

/// Estimates of requests to one model with one system prompt and one set of tools.
struct ModelEstimator {
    model: ModelRef,
    /// Lengths of the system prompt and of the list of tools: they change together with their content.
    fixed: (usize, usize),
    tokens: TokenEstimator,
    /// The window as far as the server, refused requests or the log of the session tell.
    window: Option<u64>,
    /// True if the window is what an earlier process found out. The server may have been started anew since.
    is_window_logged: bool,
    /// True once the server was asked for the window.
    has_asked: bool,
    /// True if the log describes system prompt and tools, see [`RequestPrefix`].
    is_recorded: bool,
}

impl ModelPort {
    pub(super) fn new(shared: Arc<AgentShared>, budget: RunBudget, last: LastModel) -> Self {
        Self { shared, budget, conversation: None, estimator: None, last }
    }

    /// Makes the provider start anew from the history, after the history was rewound.
    pub(super) fn reset_conversation(&mut self) {
        self.conversation = None;
        self.restart_estimates();
    }

    /// Estimates the messages anew, after the conversation was replaced by a shorter one.
    pub(super) fn restart_estimates(&mut self) {
        if let Some(estimator) = &mut self.estimator {
            estimator.tokens.restart_messages();
        }
    }

    /// Returns the length of the next request.
    pub(super) fn request_size(
        &mut self,
        history: &History,
        call: ModelCall<'_>,
    ) -> Result<RequestSize<'_>, AgentError> {
        let messages = call.messages_to_send(history)?;
        let is_new = self.estimator.is_none();
        let tokens = self.estimator(call).request(messages);
        if let (true, Some(estimator)) = (is_new, &mut self.estimator) {
            estimator.window = logged_window(history, call);
            estimator.is_window_logged = estimator.window.is_some();
        }
        let window = self.window(call);
        Ok(RequestSize { tokens, window, estimator: self.estimator(call) })
    }

    /// Asks the model with other messages than those of the history. Neither the reply nor its deltas are recorded;
    /// its usage is.
    pub(super) async fn ask(
        &mut self,
        session: &mut SessionWriter,
        call: ModelCall<'_>,
        messages: &[Arc<Message>],
        cancel: &CancellationToken,
    ) -> Result<ModelReply, AgentError> {
        let price = self.budget.price(&call.model.info.reference).await?;
        let mut stream = self.open_stream(messages, call);
        let reply_id = ReplyId::new(session.config().ids.next_id());
        let mut timer = ModelCallTimer::start(session.config());
        let reading = async {
            while let Some(event) = stream.next().await {
                match event? {
                    ModelEvent::Completed(reply) => return Ok(reply),
                    ModelEvent::Waiting(wait) => {
                        let wait_ms = wait.wait.map(whole_millis);
                        let (reply_id, reason) = (reply_id.clone(), wait.reason);
                        session.emit(AgentEvent::ModelWait { reply_id, reason, wait_ms }).await?;
                    }
                    ModelEvent::Warning(text) => session.emit(warning(text)).await?,
                    ModelEvent::TextDelta(_)
                    | ModelEvent::ThinkingDelta(_)
                    | ModelEvent::CallStarted { .. } => timer.on_chunk(session.config()),
                    ModelEvent::Accepted { request_bytes } => {
                        timer.request_bytes = Some(request_bytes);
                    }
                    ModelEvent::Retrying(_) => timer.on_retry(),
                }
            }
            Err(truncated_stream())
        };
        let reply = cancel.run_until_cancelled(reading).await;
        let mut reply: ModelReply = reply.unwrap_or(Err(AgentError::Cancelled))?;
        let estimated = self.complete_usage(messages, &mut reply, call);
        self.restart_estimates();
        self.budget.draw(reply.usage, price);
        self.shared.tree.spend(model_of(&reply.origin), reply.usage);
        let usage = reply.usage;
        let (timing, request_bytes) = (Some(timer.timing(session.config())), timer.request_bytes);
        session
            .emit(AgentEvent::Usage {
                reply_id,
                usage,
                estimated,
                prefix: None,
                timing,
                request_bytes,
            })
            .await?;
        Ok(reply)
    }

    /// Calls the model, and records deltas, reply and usage.
    #[tracing::instrument(
        level = "debug",
        name = "request",
        skip_all,
        fields(
            model = %call.model.info.reference,
            reply = tracing::field::Empty,
            input_tokens = tracing::field::Empty,
            output_tokens = tracing::field::Empty,
        )
    )]
    pub(super) async fn call(
        &mut self,
        session: &mut SessionWriter,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<(ReplyId, ModelReply), AgentError> {
        // 1) The request.
        self.last.set(call.model, call.config);
        let price = self.budget.price(&call.model.info.reference).await?;
        let messages = call.messages_to_send(session.history())?;
        let sent = messages.len();
        self.estimator(call).request(messages);
        let stream = self.open_stream(messages, call);
        session.sync_in_background().await?;
        let id = ReplyId::new(session.config().ids.next_id());
        let span = tracing::Span::current();
        span.record("reply", tracing::field::display(&id));
        let timer = ModelCallTimer::start(session.config());
        tracing::debug!(tools = call.tools.len(), "model asked");
        let mut partial = StreamedReply::new(id.clone(), timer, &session.config().redactor);
        let priced = PricedModelCall { call, price };
        // 2) The reply, or the usage of the attempt that failed.
        // Boxed: a future in a span takes its room twice where it is made.
        let read = Box::pin(self.read_stream(session, stream, &mut partial, priced));
        let read = cancel.run_until_cancelled(read).await;
        let mut reply = match read.unwrap_or(Err(AgentError::Cancelled)) {
            Ok(reply) => reply,
            Err(error) => {
                let duration_ms = session.config().millis_since(timer.started);
                tracing::debug!(%error, duration_ms, "no reply");
                self.record_attempt(session, &partial, priced).await?;
                return Err(error);
            }
        };
        // 3) Usage and the recorded reply.
        make_call_ids_unique(&mut reply.blocks);
        let estimated =
            self.complete_usage(call.messages_to_send(session.history())?, &mut reply, call);
        if !estimated {
            self.estimator(call).on_usage(sent, &reply.usage);
        }
        let TokenUsage { input_tokens, output_tokens, .. } = reply.usage;
        span.record("input_tokens", input_tokens).record("output_tokens", output_tokens);
        let duration_ms = session.config().millis_since(timer.started);
        tracing::debug!(stop = ?reply.stop, estimated, duration_ms, "reply received");
        self.budget.draw(reply.usage, price);
        self.shared.tree.spend(model_of(&reply.origin), reply.usage);
        self.ask_for_window(call).await;
        session.context().model.set_window(self.window(call));
        let prefix = self.changed_prefix(session.history(), call);
        partial.record(session, &reply, estimated, prefix).await?;
        Ok((id, reply))
    }

    /// Replaces usage that the provider does not report with estimates, so that token limits apply to every provider.
    /// Returns true if anything was estimated.
    fn complete_usage(
        &mut self,
        messages: &[Arc<Message>],
        reply: &mut ModelReply,
        call: ModelCall<'_>,
    ) -> bool {
        let is_answered = !reply.blocks.is_empty();
        let lacks_input = reply.usage.input_tokens == 0;
        let lacks_output = reply.usage.output_tokens == 0 && is_answered;
        if lacks_input {
            reply.usage.input_tokens = self.estimator(call).request(messages);
        }
        if lacks_output {
            reply.usage.output_tokens = self.estimator(call).reply(&reply.blocks);
        }
        lacks_input || lacks_output
    }

    /// Returns the estimator for requests of this call, made anew for another model.
    fn estimator(&mut self, call: ModelCall<'_>) -> &mut TokenEstimator {
        let fixed = (call.system.len(), call.tools.len());
        let model = &call.model.info.reference;
        let current = match self.estimator.take().filter(|current| current.model == *model) {
            Some(mut current) => {
                if current.fixed != fixed {
                    current.tokens.restart(call.system, call.tools);
                    current.fixed = fixed;
                    current.is_recorded = false;
                }
                current
            }
            None => ModelEstimator {
                model: model.clone(),
                fixed,
                tokens: TokenEstimator::new(call.system, call.tools),
                window: None,
                is_window_logged: false,
                has_asked: false,
                is_recorded: false,
            },
        };
        &mut self.estimator.insert(current).tokens
    }

    /// Asks the server for the window of the model once, if it is unknown and the server may tell it: now, since servers
    /// on this machine load the model with the first request.
    async fn ask_for_window(&mut self, call: ModelCall<'_>) {
        let is_known = self.window(call).is_some();
        let Some(estimator) = self.estimator.as_mut().filter(|current| !current.has_asked) else {
            return;
        };
        if is_known && !estimator.is_window_logged {
            return;
        }
        estimator.has_asked = true;
        if let Some(window) = call.model.provider.context_window(&call.model.info).await {
            estimator.window = Some(window);
            estimator.is_window_logged = false;
        }
    }

    /// Describes system prompt and tools of this call if the log does not have them yet.
    fn changed_prefix(
        &mut self,
        history: &History,
        call: ModelCall<'_>,
    ) -> Option<Box<RequestPrefix>> {
        let window = self.window(call);
        let estimator = self.estimator.as_mut().filter(|current| !current.is_recorded)?;
        estimator.is_recorded = true;
        let prefix = RequestPrefix::new(window, call.system, call.tools);
        (history.request_prefix() != Some(&prefix)).then(|| Box::new(prefix))
    }

    /// Returns the window of the model, see [`RequestSize::window`].
    fn window(&self, call: ModelCall<'_>) -> Option<u64> {
        let model = &call.model.info.reference;
        let estimator = self.estimator.as_ref().filter(|estimator| estimator.model == *model);
        let learned = estimator.and_then(|estimator| estimator.window);
        let stated = call.model.info.context_window;
        learned.into_iter().chain(stated).min()
    }

    /// Records that the provider refused a request of this length as too long.
    pub(super) fn on_refused_length(&mut self, call: ModelCall<'_>, tokens: u64) {
        self.estimator(call);
        if let Some(estimator) = &mut self.estimator {
            estimator.window = Some(estimator.window.map_or(tokens, |known| known.min(tokens)));
            estimator.is_window_logged = false;
            estimator.is_recorded = false;
        }
    }

    /// Counts an attempt that failed in the middle of a reply, since it is charged all the same. One that delivered
    /// nothing most likely never began, and is not counted.
    async fn record_attempt(
        &mut self,
        session: &mut SessionWriter,
        partial: &StreamedReply,
        priced: PricedModelCall<'_>,
    ) -> Result<(), AgentError> {
        if !partial.has_begun {
            return Ok(());
        }
        let PricedModelCall { call, price } = priced;
        let estimator = self.estimator(call);
        let input_tokens = estimator.request(call.messages_to_send(session.history())?);
        let output_tokens = estimator.text(&partial.text) + estimator.text(&partial.thinking);
        let usage = TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() };
        self.budget.draw_attempt(usage, price);
        self.shared.tree.spend(call.model.info.reference.clone(), usage);
        let reply_id = partial.id.clone();
        let timing = Some(partial.timer.timing(session.config()));
        let request_bytes = partial.timer.request_bytes;
        session
            .emit(AgentEvent::Usage {
                reply_id,
                usage,
                estimated: true,
                prefix: None,
                timing,
                request_bytes,
            })
            .await
    }

    fn open_stream(&mut self, messages: &[Arc<Message>], call: ModelCall<'_>) -> ModelStream {
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
        conversation.stream(request)
    }

    async fn read_stream(
        &mut self,
        session: &mut SessionWriter,
        mut stream: ModelStream,
        partial: &mut StreamedReply,
        priced: PricedModelCall<'_>,
    ) -> Result<ModelReply, AgentError> {
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::TextDelta(delta) => {
                    partial.timer.on_chunk(session.config());
                    partial.pass_on(session, DeltaKind::Text, Some(delta)).await?;
                }
                ModelEvent::ThinkingDelta(delta) => {
                    partial.timer.on_chunk(session.config());
                    partial.pass_on(session, DeltaKind::Thinking, Some(delta)).await?;
                }
                ModelEvent::CallStarted { .. } => {
                    partial.timer.on_chunk(session.config());
                    partial.has_begun = true;
                }
                ModelEvent::Accepted { request_bytes } => {
                    partial.timer.request_bytes = Some(request_bytes);
                }
                ModelEvent::Waiting(wait) => {
                    let wait_ms = wait.wait.map(whole_millis);
                    tracing::debug!(reason = wait.reason, wait_ms, "waiting for the model");
                    let (reply_id, reason) = (partial.id.clone(), wait.reason);
                    session.emit(AgentEvent::ModelWait { reply_id, reason, wait_ms }).await?;
                }
                ModelEvent::Warning(text) => session.emit(warning(text)).await?,
                ModelEvent::Retrying(retry) => {
                    self.record_attempt(session, partial, priced).await?;
                    partial.restart(session, retry).await?;
                }
                ModelEvent::Completed(reply) => {
                    partial.pass_on(session, DeltaKind::Thinking, None).await?;
                    partial.pass_on(session, DeltaKind::Text, None).await?;
                    return Ok(reply);
                }
            }
        }
        Err(truncated_stream())
    }
}

fn warning(text: String) -> AgentEvent {
    AgentEvent::Notice { level: NoticeLevel::Warning, audience: NoticeAudience::User, text }
}

fn truncated_stream() -> AgentError {
    let text = "the provider's stream ended without a reply";
    ProviderError::new(ProviderErrorKind::Truncated, text).into()
}

/// Returns the messages for a model call; fails while calls have no result.
fn messages_of(history: &History) -> Result<&[Arc<Message>], AgentError> {
    history.messages().map_err(|open| AgentError::CallsOpen { count: open.len() })
}

/// Returns the window that an earlier process found out for the model that replied last, if nothing else tells it.
fn logged_window(history: &History, call: ModelCall<'_>) -> Option<u64> {
    if call.model.info.context_window.is_some() {
        return None;
    }
    let last = history.messages().ok()?.iter().rev().find_map(|message| match message.as_ref() {
        Message::Assistant(reply) => Some(model_of(&reply.origin)),
        Message::User(_) | Message::Results(_) => None,
    });
    history.request_prefix()?.window.filter(|_| last.as_ref() == Some(&call.model.info.reference))
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
