//! Requests of calls to the model, beside the conversation of their agent.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use crow_core::{
    capability::{SideModel, SideReply, SideRequest, SideRequestError},
    context::TokenEstimator,
    event::{AgentEvent, ModelCallTiming},
    ids::{MessageId, ReplyId, SessionId},
    message::{Message, ReplyContent, UserMessage},
    model::{ModelConfig, ModelEvent, ModelReply, ModelRequest, ResolvedModel, ToolChoice},
};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{agent_shared::AgentShared, questions::EventSender, run_budget::RunBudget};
use crate::{config::RuntimeConfig, session::model_of};

/// The model that an agent called last, and with which settings.
#[derive(Debug, Clone, Default)]
pub(super) struct LastModel(Arc<Mutex<Option<(ResolvedModel, ModelConfig)>>>);

impl LastModel {
    pub(super) fn set(&self, model: &ResolvedModel, config: &ModelConfig) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = last.as_ref().is_some_and(|(known, known_config)| {
            known.info.reference == model.info.reference && known_config == config
        });
        if !is_same {
            *last = Some((model.clone(), config.clone()));
        }
    }

    fn get(&self) -> Option<(ResolvedModel, ModelConfig)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends requests to the last model of an agent. The agent records their usage, in order with its own events.
pub(super) struct SideRequests {
    config: Arc<RuntimeConfig>,
    shared: Arc<AgentShared>,
    budget: RunBudget,
    events: EventSender,
    model: LastModel,
}

impl SideRequests {
    pub(super) fn new(
        config: &Arc<RuntimeConfig>,
        shared: &Arc<AgentShared>,
        budget: RunBudget,
        events: EventSender,
    ) -> Self {
        let (config, shared) = (Arc::clone(config), Arc::clone(shared));
        Self { config, shared, budget, events, model: LastModel::default() }
    }

    /// Returns the model to which requests go, for the agent to set.
    pub(super) fn last_model(&self) -> LastModel {
        self.model.clone()
    }

    /// Reads the reply. Deltas are not shown.
    async fn read(
        &self,
        request: ModelRequest<'_>,
        model: &ResolvedModel,
    ) -> Result<(ModelReply, Option<u64>), SideRequestError> {
        // A conversation of its own: providers cache those of a session by its id.
        let id = SessionId::new(self.config.ids.next_id());
        let mut conversation = model.provider.conversation(&model.info, &id);
        let mut stream = conversation.stream(request);
        let mut request_bytes = None;
        while let Some(event) = stream.next().await {
            match event.map_err(|error| SideRequestError::Failed(error.to_string()))? {
                ModelEvent::Completed(reply) => return Ok((reply, request_bytes)),
                ModelEvent::Accepted { request_bytes: bytes } => request_bytes = Some(bytes),
                ModelEvent::Waiting(_)
                | ModelEvent::Warning(_)
                | ModelEvent::TextDelta(_)
                | ModelEvent::ThinkingDelta(_)
                | ModelEvent::CallStarted { .. }
                | ModelEvent::Retrying(_) => {}
            }
        }
        Err(SideRequestError::Failed("the reply was cut off".to_owned()))
    }
}

#[async_trait]
impl SideModel for SideRequests {
    #[tracing::instrument(level = "debug", name = "side_request", skip_all)]
    async fn ask(
        &self,
        request: SideRequest,
        cancellation: &CancellationToken,
    ) -> Result<SideReply, SideRequestError> {
        let (model, mut config) = self.model.get().ok_or(SideRequestError::NoModel)?;
        if self.budget.exceeded_limit().is_some() {
            return Err(SideRequestError::BudgetExceeded);
        }
        let price = self.budget.price(&model.info.reference).await;
        let price = price.map_err(|error| SideRequestError::Failed(error.to_string()))?;
        config.max_tokens =
            Some(config.max_tokens.map_or(request.max_tokens, |most| most.min(request.max_tokens)));
        config.temperature = request.temperature.or(config.temperature);
        let id = MessageId::new(self.config.ids.next_id());
        let messages = [Arc::new(Message::User(UserMessage { id, content: request.content }))];
        let started = self.config.clock.monotonic();
        let model_request = ModelRequest {
            system: &request.system,
            tools: &[],
            messages: &messages,
            config: &config,
            tool_choice: ToolChoice::Auto,
        };
        let read = cancellation.run_until_cancelled(self.read(model_request, &model)).await;
        let (reply, request_bytes) = read.unwrap_or(Err(SideRequestError::Cancelled))?;
        // The usage counts like that of the agent's own requests.
        let mut usage = reply.usage;
        let mut estimator = TokenEstimator::new(&request.system, &[]);
        let estimated = usage.input_tokens == 0 || usage.output_tokens == 0;
        if usage.input_tokens == 0 {
            usage.input_tokens = estimator.request(&messages);
        }
        if usage.output_tokens == 0 {
            usage.output_tokens = estimator.reply(&reply.blocks);
        }
        self.budget.draw(usage, price);
        self.shared.tree.spend(model_of(&reply.origin), usage);
        let timing = Some(ModelCallTiming {
            duration_ms: self.config.millis_since(started),
            first_chunk_ms: None,
            retries: 0,
        });
        let reply_id = ReplyId::new(self.config.ids.next_id());
        let (prefix, origin) = (None, model_of(&reply.origin));
        self.events
            .record(AgentEvent::Usage { reply_id, usage, estimated, prefix, timing, request_bytes })
            .await;
        let texts = reply.blocks.iter().filter_map(|block| match &block.content {
            ReplyContent::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let mut text = texts.collect::<Vec<_>>().join("\n");
        self.config.redactor.redact_string(&mut text);
        Ok(SideReply { text, model: origin, stop: reply.stop })
    }
}

impl fmt::Debug for SideRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideRequests").field("model", &self.model).finish_non_exhaustive()
    }
}
