//! Models that accept no tools: the first refusal of a request switches such a model to calls in text.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use crow_core::model::{ModelEvent, ModelRef, ModelStream, ProviderError, ProviderErrorKind};
use futures_util::Stream;

use crate::classify::refuses_tools;

/// The models of a provider that refused a request because of its tools.
///
/// They stay known as long as the provider: a further conversation with such a model begins in text.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelsWithoutTools(Arc<Mutex<BTreeSet<String>>>);

impl ModelsWithoutTools {
    pub(super) fn contains(&self, model: &ModelRef) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&model.model)
    }

    fn insert(&self, model: &ModelRef) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.model.clone());
    }
}

/// The request as text, made only when the one with tools is refused.
pub(super) type RequestInText = Box<dyn FnOnce() -> ModelStream + Send>;

/// The reply to a request with tools. If the server refuses the tools, it is that to the same request in text.
pub(super) struct ToolRefusalStream {
    reply: ModelStream,
    model: ModelRef,
    models: ModelsWithoutTools,
    /// Absent once it was sent, or a part of the reply has come: then an error is another one.
    in_text: Option<RequestInText>,
}

impl ToolRefusalStream {
    pub(super) fn new(
        reply: ModelStream,
        model: ModelRef,
        models: ModelsWithoutTools,
        in_text: RequestInText,
    ) -> Self {
        Self { reply, model, models, in_text: Some(in_text) }
    }
}

impl Stream for ToolRefusalStream {
    type Item = Result<ModelEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.reply.as_mut().poll_next(cx));
        match &item {
            Some(Err(error)) if is_refusal(error) => {
                if let Some(in_text) = self.in_text.take() {
                    let warning = warning(&self.model, &error.message);
                    self.models.insert(&self.model);
                    self.reply = in_text();
                    return Poll::Ready(Some(Ok(ModelEvent::Warning(warning))));
                }
            }
            Some(Ok(
                ModelEvent::TextDelta(_)
                | ModelEvent::ThinkingDelta(_)
                | ModelEvent::CallStarted { .. }
                | ModelEvent::Completed(_),
            )) => self.in_text = None,
            Some(
                Ok(
                    ModelEvent::Accepted { .. }
                    | ModelEvent::Waiting(_)
                    | ModelEvent::Warning(_)
                    | ModelEvent::Retrying(_),
                )
                | Err(_),
            )
            | None => {}
        }
        Poll::Ready(item)
    }
}

fn is_refusal(error: &ProviderError) -> bool {
    error.kind == ProviderErrorKind::InvalidRequest && refuses_tools(&error.message)
}

/// Returns what the user is told: why the model is asked in another way, and the setting that does so from the start.
fn warning(model: &ModelRef, reason: &str) -> String {
    let (reason, name) = (reason.trim_end_matches('.'), &model.model);
    format!(
        "{model} accepts no tools ({reason}), so from now on it calls them in text. To begin with that, set tool_calls = \
         \"text\" under [models.\"{name}\"] in the file of the provider {}.",
        model.provider
    )
}
