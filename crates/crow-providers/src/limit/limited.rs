//! A provider with rate limits.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use crow_core::{
    context::TokenEstimator,
    ids::SessionId,
    model::{
        Conversation, ModelEvent, ModelInfo, ModelRequest, ModelStream, Provider, ProviderError,
        ProviderErrorKind, RateLimitWait, Retry, WindowAnswer,
    },
};
use futures_util::{Stream, future::BoxFuture};

use super::{RateLimiter, RequestSlot};

/// Longest pause that the failure of one request causes for the others. A request that is asked to wait longer gives up
/// at once instead, and so should each of the others.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Any provider, with limits that all its conversations share.
///
/// Each request waits for its turn before the provider's own stream is polled for the first time, so the provider must
/// not send before that. Waits are emitted as [`ModelEvent::Waiting`]. When the provider asks one request to wait, that
/// request emits a retry, and no other request is sent until the time is over.
///
/// ```
/// use std::{num::NonZeroU32, sync::Arc};
///
/// use crow_core::model::Provider;
/// use crow_providers::{RateLimitedProvider, RateLimiter, RateLimits};
///
/// fn with_limits(provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
///     let limits = RateLimits { requests_per_minute: NonZeroU32::new(30), ..RateLimits::default() };
///     let limiter = RateLimiter::new(provider.name(), limits);
///     Arc::new(RateLimitedProvider::new(provider, limiter))
/// }
/// ```
#[derive(Debug, Clone)]
pub struct RateLimitedProvider {
    provider: Arc<dyn Provider>,
    limiter: RateLimiter,
}

impl RateLimitedProvider {
    /// Applies the limits of a limiter, which may serve other providers too.
    pub fn new(provider: Arc<dyn Provider>, limiter: RateLimiter) -> Self {
        Self { provider, limiter }
    }
}

impl Provider for RateLimitedProvider {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(RateLimitedConversation {
            conversation: self.provider.conversation(model, session),
            limiter: self.limiter.clone(),
            estimator: None,
        })
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        self.provider.context_window(model)
    }
}

struct RateLimitedConversation {
    conversation: Box<dyn Conversation>,
    limiter: RateLimiter,
    /// Made at the first use, which is only where tokens are limited.
    estimator: Option<TokenEstimator>,
}

impl RateLimitedConversation {
    /// Estimates the tokens of a request. The usage of the reply corrects it, so tools that change meanwhile do no
    /// harm.
    fn estimate(&mut self, request: ModelRequest<'_>) -> u64 {
        if self.limiter.limits().tokens_per_minute.is_none() {
            return 0;
        }
        let new = || TokenEstimator::new(request.system, request.tools);
        self.estimator.get_or_insert_with(new).request(request.messages)
    }
}

impl Conversation for RateLimitedConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let tokens = self.estimate(request);
        let (limiter, told) = (self.limiter.clone(), PendingNotice::default());
        let tell = Arc::clone(&told);
        let turn = async move {
            let tell =
                move |wait| *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait);
            limiter.acquire_with(tokens, tell).await
        };
        Box::pin(RateLimitedStream {
            limiter: self.limiter.clone(),
            notice: told,
            phase: LimitedStreamPhase::Queued(Box::pin(turn)),
            reply: self.conversation.stream(request),
        })
    }
}

/// Notice of the waiting future that the stream has not emitted yet.
type PendingNotice = Arc<Mutex<Option<RateLimitWait>>>;

/// Waits for its turn, then forwards the provider's own stream.
struct RateLimitedStream {
    limiter: RateLimiter,
    notice: PendingNotice,
    phase: LimitedStreamPhase,
    reply: ModelStream,
}

enum LimitedStreamPhase {
    Queued(BoxFuture<'static, RequestSlot>),
    Open(RequestSlot),
    /// The slot is released, even if the stream is not dropped yet.
    Over,
}

impl Stream for RateLimitedStream {
    type Item = Result<ModelEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let LimitedStreamPhase::Queued(turn) = &mut self.phase {
            let Poll::Ready(slot) = turn.as_mut().poll(cx) else {
                let wait = self.notice.lock().unwrap_or_else(PoisonError::into_inner).take();
                return wait.map_or(Poll::Pending, |wait| {
                    Poll::Ready(Some(Ok(ModelEvent::Waiting(wait))))
                });
            };
            self.phase = LimitedStreamPhase::Open(slot);
        }
        let item = ready!(self.reply.as_mut().poll_next(cx));
        self.on_item(item.as_ref());
        Poll::Ready(item)
    }
}

impl RateLimitedStream {
    fn on_item(&mut self, item: Option<&Result<ModelEvent, ProviderError>>) {
        let LimitedStreamPhase::Open(slot) = &mut self.phase else { return };
        match item {
            Some(Ok(ModelEvent::Retrying(retry))) => {
                slot.count_retry();
                if let Some(wait) = asked_for(retry) {
                    self.limiter.pause(wait);
                }
            }
            Some(Ok(ModelEvent::Completed(reply))) => {
                slot.set_used_tokens(reply.usage.total());
                self.phase = LimitedStreamPhase::Over;
            }
            Some(Err(error)) => {
                if let Some(wait) = error.retry_after.filter(|wait| *wait <= LONGEST_PAUSE) {
                    self.limiter.pause(wait);
                }
                self.phase = LimitedStreamPhase::Over;
            }
            None => self.phase = LimitedStreamPhase::Over,
            Some(Ok(
                ModelEvent::TextDelta(_)
                | ModelEvent::ThinkingDelta(_)
                | ModelEvent::CallStarted { .. }
                | ModelEvent::Accepted { .. }
                | ModelEvent::Waiting(_)
                | ModelEvent::Warning(_),
            )) => {}
        }
    }
}

/// Returns the pause that a retry causes for all requests. A rate limit always causes one, another failure only if the
/// provider requested a delay.
fn asked_for(retry: &Retry) -> Option<Duration> {
    let is_limit = retry.error.kind == ProviderErrorKind::RateLimited;
    (is_limit || retry.error.retry_after.is_some()).then_some(retry.wait)
}
