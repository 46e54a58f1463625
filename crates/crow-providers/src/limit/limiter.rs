//! Who may ask a provider, and when.

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

use super::{
    RateLimits,
    gate::{Obstacle, RateGate, RequestNeed},
};

/// A wait shorter than this is not worth a word.
const UNNOTICED: Duration = Duration::from_millis(10);

/// Keeps the requests of one provider within its limits. A copy is the same limiter.
///
/// Requests go out in the order in which they came, so none starves. A future that is dropped leaves the queue and has
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
/// // ... ask the provider ...
/// slot.used(420); // what the reply says that it cost
/// drop(slot); // the next one may go
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimiter(Arc<LimiterState>);

struct LimiterState {
    provider: String,
    limits: RateLimits,
    /// Who holds its one permit is the next to go out.
    turn: Semaphore,
    in_flight: Option<Arc<Semaphore>>,
    gate: Mutex<RateGate>,
    /// Wakes who has the turn: tokens were given back.
    given_back: Notify,
}

impl RateLimiter {
    /// Makes a limiter. The provider's name stands in what waiters are told.
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
            given_back: Notify::new(),
        }))
    }

    /// Returns the limits that it keeps.
    pub fn limits(&self) -> &RateLimits {
        &self.0.limits
    }

    /// Waits until a request of about so many tokens may go out.
    pub async fn acquire(&self, tokens: u64) -> RequestSlot {
        self.acquire_with(tokens, |_| {}).await
    }

    /// Waits like [`acquire`](Self::acquire) and tells what for: once for each reason, and not at all if there is
    /// nothing to wait for.
    pub async fn acquire_with(
        &self,
        tokens: u64,
        on_wait: impl FnMut(RateLimitWait) + Send,
    ) -> RequestSlot {
        let shared = &*self.0;
        let mut said = WaitNotice { shared, last: None, on_wait };
        let place = QueuePlace::join(shared, tokens);
        // Neither semaphore is ever closed, so there is no error to act on.
        let mut turn = pin!(shared.turn.acquire());
        let at_once = poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx))).await;
        let _turn = match at_once {
            Poll::Ready(turn) => turn,
            Poll::Pending => {
                said.say(shared.outlook(&place));
                turn.await
            }
        };
        let in_flight = shared.place_in_flight(&mut said).await;
        loop {
            let passed = shared.gate().pass(Instant::now(), tokens);
            let Err((obstacle, wait)) = passed else { break };
            said.say(Some((obstacle, Some(wait))));
            // Woken early or not: what is in the way is looked at again.
            drop(timeout(wait, shared.given_back.notified()).await);
        }
        RequestSlot { limiter: self.clone(), reserved: tokens, _in_flight: in_flight }
    }

    /// Lets no further request out for this long: the provider asked for it.
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

    /// What a request that has others before it waits for, as far as that can be said now.
    fn outlook(&self, place: &QueuePlace<'_>) -> Option<(Obstacle, Option<Duration>)> {
        let full = self.in_flight.as_ref().is_some_and(|places| places.available_permits() == 0);
        let known = self.gate().obstacle(Instant::now(), place.ahead, place.tokens);
        match known {
            // How long those in flight take is not known.
            Some((obstacle, wait)) => Some((obstacle, (!full).then_some(wait))),
            None => full.then_some((Obstacle::Concurrency, None)),
        }
    }

    async fn place_in_flight(
        &self,
        said: &mut WaitNotice<'_, impl FnMut(RateLimitWait)>,
    ) -> Option<OwnedSemaphorePermit> {
        let places = self.in_flight.as_ref()?;
        if places.available_permits() == 0 {
            said.say(Some((Obstacle::Concurrency, None)));
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
            Obstacle::Pause { asked } => format!("{provider} asked to wait {}", shown(asked)),
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

/// Writes whole seconds, or milliseconds where there is less than one.
fn shown(wait: Duration) -> String {
    match wait.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        millis => format!("{} s", millis.div_ceil(1000)),
    }
}

/// What a waiter was told.
struct WaitNotice<'a, F> {
    shared: &'a LimiterState,
    last: Option<Obstacle>,
    on_wait: F,
}

impl<F: FnMut(RateLimitWait)> WaitNotice<'_, F> {
    fn say(&mut self, obstacle: Option<(Obstacle, Option<Duration>)>) {
        let Some((obstacle, wait)) = obstacle else { return };
        if self.last == Some(obstacle) || wait.is_some_and(|wait| wait < UNNOTICED) {
            return;
        }
        self.last = Some(obstacle);
        (self.on_wait)(RateLimitWait { reason: self.shared.reason(obstacle), wait });
    }
}

/// A place in the queue. Only serves to tell those who come later how much is before them.
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

/// A request that may go out. It counts as in flight until this is dropped.
pub struct RequestSlot {
    limiter: RateLimiter,
    reserved: u64,
    _in_flight: Option<OwnedSemaphorePermit>,
}

impl RequestSlot {
    /// Puts the tokens that were really used in place of the estimate. Without it the estimate stands.
    pub fn used(&mut self, tokens: u64) {
        let shared = &self.limiter.0;
        shared.gate().correct(Instant::now(), self.reserved, tokens);
        if tokens < self.reserved {
            shared.given_back.notify_one();
        }
        self.reserved = tokens;
    }

    /// Counts one more request: this one is sent again. It does not wait for it; those who come later do.
    pub fn sent_again(&mut self) {
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
