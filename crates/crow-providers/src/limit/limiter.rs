//! Queue and limits for the requests to a provider.

use std::{
    fmt,
    future::{Future as _, poll_fn},
    num::{NonZeroU32, NonZeroU64},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use crow_core::model::RateLimitWait;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use super::gate::{Obstacle, RateGate, RequestNeed};

/// Limits on the requests to a provider. Absent ones do not apply.
///
/// Requests and tokens are each taken from a bucket that contains the amount of one minute and fills evenly: after a
/// pause that amount may be used at once, and in the long run never more than the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Maximum requests in flight, each until its reply has ended.
    pub concurrency: Option<NonZeroU32>,
    /// Maximum requests that start in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum tokens in a minute, input and output together.
    pub tokens_per_minute: Option<NonZeroU64>,
}

/// Shorter waits are not reported.
const UNNOTICED: Duration = Duration::from_millis(10);

/// Keeps the requests to one provider within its limits. Clones are the same limiter.
///
/// Requests are sent in the order of their arrival, so none starves. A future that is dropped leaves the queue and has
/// taken nothing.
///
/// ```
/// use std::num::NonZeroU32;
///
/// use crow_providers::{RateLimiter, RateLimits};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let two_at_once = RateLimits { concurrency: NonZeroU32::new(2), ..RateLimits::default() };
/// let limiter = RateLimiter::new("openai", two_at_once);
///
/// let mut slot = limiter.acquire_with(500, |wait| eprintln!("waiting: {}", wait.reason)).await;
/// // ... send the request ...
/// slot.set_used_tokens(420); // the usage of the reply
/// drop(slot); // the next request may be sent
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimiter(Arc<LimiterState>);

struct LimiterState {
    provider: String,
    limits: RateLimits,
    /// The request with its single permit is the next one to be sent.
    turn: Semaphore,
    in_flight: Option<Arc<Semaphore>>,
    gate: Mutex<RateGate>,
    /// Wakes the request whose turn it is when tokens are returned.
    tokens_refunded: Notify,
}

impl RateLimiter {
    /// Creates a limiter. Reasons of waits contain the provider's name.
    pub fn new(provider: impl Into<String>, limits: RateLimits) -> Self {
        let in_flight = limits.concurrency.map(|most| {
            let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
            Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
        });
        Self(Arc::new(LimiterState {
            provider: provider.into(),
            limits,
            turn: Semaphore::new(1),
            in_flight,
            gate: Mutex::new(RateGate::new(&limits, Instant::now())),
            tokens_refunded: Notify::new(),
        }))
    }

    /// Returns its limits.
    pub fn limits(&self) -> &RateLimits {
        &self.0.limits
    }

    /// Waits until a request of about this many tokens may be sent.
    pub async fn acquire(&self, tokens: u64) -> RequestSlot {
        self.acquire_with(tokens, |_| {}).await
    }

    /// Waits like [`acquire`](Self::acquire) and reports the reason to `on_wait`: once for each reason, and not at all
    /// if there is no wait.
    pub async fn acquire_with(
        &self,
        tokens: u64,
        on_wait: impl FnMut(RateLimitWait) + Send,
    ) -> RequestSlot {
        let shared = &*self.0;
        let mut notice = WaitNotice { shared, last: None, on_wait };
        // 1) The queue, so that requests are sent in the order of their arrival.
        let place = QueuePlace::join(shared, tokens);
        // Neither semaphore is ever closed, so there is no error to handle.
        let mut turn = pin!(shared.turn.acquire());
        let at_once = poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx))).await;
        let _turn = match at_once {
            Poll::Ready(turn) => turn,
            Poll::Pending => {
                notice.report(shared.expected_obstacle(&place));
                turn.await
            }
        };
        // 2) The requests in flight.
        let in_flight = shared.acquire_in_flight(&mut notice).await;
        // 3) The rates per minute, and a pause of the provider.
        loop {
            let passed = shared.gate().admit(Instant::now(), tokens);
            let Err((obstacle, wait)) = passed else { break };
            notice.report(Some((obstacle, Some(wait))));
            // Whether woken early or not, the obstacles are checked again.
            drop(timeout(wait, shared.tokens_refunded.notified()).await);
        }
        RequestSlot { limiter: self.clone(), reserved: tokens, _in_flight: in_flight }
    }

    /// Blocks further requests for this long, because the provider requested it.
    pub fn pause(&self, wait: Duration) {
        self.0.gate().pause(Instant::now(), wait);
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateLimiter({}, {:?})", self.0.provider, self.0.limits)
    }
}

impl LimiterState {
    fn gate(&self) -> MutexGuard<'_, RateGate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the obstacle of a request in the queue, with its delay if that is known.
    fn expected_obstacle(&self, place: &QueuePlace<'_>) -> Option<(Obstacle, Option<Duration>)> {
        let is_full = self.in_flight.as_ref().is_some_and(|places| places.available_permits() == 0);
        let known = self.gate().obstacle(Instant::now(), place.ahead, place.tokens);
        match known {
            // The time that requests in flight take is unknown.
            Some((obstacle, wait)) => Some((obstacle, (!is_full).then_some(wait))),
            None => is_full.then_some((Obstacle::Concurrency, None)),
        }
    }

    async fn acquire_in_flight(
        &self,
        notice: &mut WaitNotice<'_, impl FnMut(RateLimitWait)>,
    ) -> Option<OwnedSemaphorePermit> {
        let places = self.in_flight.as_ref()?;
        if places.available_permits() == 0 {
            notice.report(Some((Obstacle::Concurrency, None)));
        }
        Arc::clone(places).acquire_owned().await.ok()
    }

    fn reason(&self, obstacle: Obstacle) -> String {
        let provider = &self.provider;
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let requests = |count: Option<NonZeroU32>| {
            let count = count.map_or(0, |count| u64::from(count.get()));
            format!("{count} request{}", plural(count))
        };
        match obstacle {
            Obstacle::Pause { asked } => format!("{provider} asked to wait {}", format_wait(asked)),
            Obstacle::Concurrency => {
                format!("{} at once at {provider}", requests(self.limits.concurrency))
            }
            Obstacle::Requests => {
                format!("{} per minute at {provider}", requests(self.limits.requests_per_minute))
            }
            Obstacle::Tokens => {
                let count = self.limits.tokens_per_minute.map_or(0, NonZeroU64::get);
                format!("{count} token{} per minute at {provider}", plural(count))
            }
        }
    }
}

/// Formats as whole seconds, or as milliseconds below one second.
fn format_wait(wait: Duration) -> String {
    match wait.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        millis => format!("{} s", millis.div_ceil(1000)),
    }
}

/// Reporter of waits, which skips repetitions of the last reason.
struct WaitNotice<'a, F> {
    shared: &'a LimiterState,
    last: Option<Obstacle>,
    on_wait: F,
}

impl<F: FnMut(RateLimitWait)> WaitNotice<'_, F> {
    fn report(&mut self, obstacle: Option<(Obstacle, Option<Duration>)>) {
        let Some((obstacle, wait)) = obstacle else { return };
        if self.last == Some(obstacle) || wait.is_some_and(|wait| wait < UNNOTICED) {
            return;
        }
        self.last = Some(obstacle);
        (self.on_wait)(RateLimitWait { reason: self.shared.reason(obstacle), wait });
    }
}

/// A place in the queue. It only serves to compute the need ahead of later requests.
struct QueuePlace<'a> {
    shared: &'a LimiterState,
    ahead: RequestNeed,
    tokens: u64,
}

impl<'a> QueuePlace<'a> {
    fn join(shared: &'a LimiterState, tokens: u64) -> Self {
        let mut gate = shared.gate();
        let ahead = gate.queued;
        gate.queued.requests = ahead.requests.saturating_add(1);
        gate.queued.tokens = ahead.tokens.saturating_add(tokens);
        drop(gate);
        Self { shared, ahead, tokens }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut gate = self.shared.gate();
        gate.queued.requests = gate.queued.requests.saturating_sub(1);
        gate.queued.tokens = gate.queued.tokens.saturating_sub(self.tokens);
    }
}

/// Permission to send one request, which counts as in flight until this is dropped.
pub struct RequestSlot {
    limiter: RateLimiter,
    reserved: u64,
    _in_flight: Option<OwnedSemaphorePermit>,
}

impl RequestSlot {
    /// Replaces the estimate with the tokens that were used. Otherwise the estimate remains.
    pub fn set_used_tokens(&mut self, tokens: u64) {
        let shared = &self.limiter.0;
        shared.gate().replace_estimate(Instant::now(), self.reserved, tokens);
        if tokens < self.reserved {
            shared.tokens_refunded.notify_one();
        }
        self.reserved = tokens;
    }

    /// Counts a repetition of this request. The repetition does not wait for its turn; later requests do.
    pub fn count_retry(&mut self) {
        self.limiter.0.gate().charge_request(Instant::now());
    }
}

impl fmt::Debug for RequestSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}, {} tokens)", self.limiter.0.provider, self.reserved)
    }
}

#[cfg(test)]
#[path = "limiter_tests.rs"]
mod tests;
