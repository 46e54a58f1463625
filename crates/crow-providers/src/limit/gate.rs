//! Admission of requests: obstacles and their delays. The current time is always passed in.

use std::{num::NonZeroU64, time::Duration};

use tokio::time::Instant;

use super::{RateLimits, bucket::Bucket};

/// Reason why a request may not be sent yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The provider requested a pause.
    Pause {
        /// The length of the pause as requested.
        asked: Duration,
    },
    /// The maximum of requests is in flight.
    Concurrency,
    /// The limit of requests per minute is reached.
    Requests,
    /// The limit of tokens per minute is reached.
    Tokens,
}

/// Amounts that requests take from the buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RequestNeed {
    pub(super) requests: u64,
    pub(super) tokens: u64,
}

/// Buckets, the pause of the provider, and the total need of the queue.
#[derive(Debug)]
pub(super) struct RateGate {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    pause: Option<(Instant, Duration)>,
    pub(super) queued: RequestNeed,
}

impl RateGate {
    pub(super) fn new(limits: &RateLimits, now: Instant) -> Self {
        let requests = limits.requests_per_minute.map(NonZeroU64::from);
        Self {
            requests: requests.map(|rate| Bucket::full(rate, now)),
            tokens: limits.tokens_per_minute.map(|rate| Bucket::full(rate, now)),
            pause: None,
            queued: RequestNeed::default(),
        }
    }

    /// Returns the obstacle that delays a request longest, with its delay. `ahead` is the need of the requests before
    /// it.
    pub(super) fn obstacle(
        &self,
        now: Instant,
        ahead: RequestNeed,
        tokens: u64,
    ) -> Option<(Obstacle, Duration)> {
        let pause = self.pause.map(|(until, asked)| {
            (Obstacle::Pause { asked }, until.saturating_duration_since(now))
        });
        let requests = self.requests.as_ref();
        let requests =
            requests.map(|bucket| (Obstacle::Requests, bucket.ready_in(now, ahead.requests, 1)));
        let bucket = self.tokens.as_ref();
        let tokens =
            bucket.map(|bucket| (Obstacle::Tokens, bucket.ready_in(now, ahead.tokens, tokens)));
        let obstacles = [pause, requests, tokens].into_iter().flatten();
        obstacles.filter(|(_, wait)| !wait.is_zero()).max_by_key(|(_, wait)| *wait)
    }

    /// Admits a request, or returns its obstacle and the delay.
    pub(super) fn admit(&mut self, now: Instant, tokens: u64) -> Result<(), (Obstacle, Duration)> {
        if let Some(obstacle) = self.obstacle(now, RequestNeed::default(), tokens) {
            return Err(obstacle);
        }
        self.pause = None;
        self.charge_request(now);
        if let Some(bucket) = &mut self.tokens {
            bucket.take(now, tokens);
        }
        Ok(())
    }

    /// Counts a request that is sent without admission.
    pub(super) fn charge_request(&mut self, now: Instant) {
        if let Some(bucket) = &mut self.requests {
            bucket.take(now, 1);
        }
    }

    /// Replaces the tokens that were reserved with those that were used.
    pub(super) fn replace_estimate(&mut self, now: Instant, reserved: u64, used: u64) {
        let Some(bucket) = &mut self.tokens else { return };
        if used > reserved {
            bucket.take(now, used - reserved);
        } else {
            bucket.refund(now, reserved - used);
        }
    }

    /// Blocks all requests for this long. A pause that ends later is kept.
    pub(super) fn pause(&mut self, now: Instant, asked: Duration) {
        let Some(until) = now.checked_add(asked) else { return };
        if asked > Duration::ZERO && self.pause.is_none_or(|(known, _)| known < until) {
            self.pause = Some((until, asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn gate(requests: u32, tokens: u64) -> (RateGate, Instant) {
        let limits = RateLimits {
            concurrency: None,
            requests_per_minute: NonZeroU32::new(requests),
            tokens_per_minute: NonZeroU64::new(tokens),
        };
        let now = Instant::now();
        (RateGate::new(&limits, now), now)
    }

    #[test]
    fn the_obstacle_with_the_longest_delay_is_returned() {
        for (requests, tokens, pause, used, expected) in [
            (0, 0, 0, 0, None),
            (0, 0, 7, 0, Some((Obstacle::Pause { asked: seconds(7) }, seconds(7)))),
            (1, 0, 7, 0, Some((Obstacle::Requests, seconds(60)))),
            (60, 60, 0, 60, Some((Obstacle::Tokens, seconds(10)))),
            (60, 60, 11, 60, Some((Obstacle::Pause { asked: seconds(11) }, seconds(11)))),
            (60, 60, 0, 0, None),
        ] {
            let (mut gate, now) = gate(requests, tokens);
            gate.admit(now, used).unwrap();
            gate.pause(now, seconds(pause));
            let row = (requests, tokens, pause, used);
            assert_eq!(gate.obstacle(now, RequestNeed::default(), 10), expected, "{row:?}");
        }
    }

    #[test]
    fn the_longer_of_two_pauses_is_kept() {
        let (mut gate, now) = gate(0, 0);
        gate.pause(now, seconds(9));
        gate.pause(now, seconds(3));
        assert_eq!(gate.admit(now + seconds(4), 0).unwrap_err().1, seconds(5));
        assert_eq!(gate.admit(now + seconds(9), 0), Ok(()));
    }

    #[test]
    fn a_blocked_request_takes_nothing() {
        let (mut gate, now) = gate(2, 60);
        gate.admit(now, 60).unwrap();
        for _ in 0..10 {
            assert_eq!(gate.admit(now, 30), Err((Obstacle::Tokens, seconds(30))));
        }
        assert_eq!(gate.admit(now + seconds(30), 30), Ok(()));
    }

    #[test]
    fn usage_replaces_the_estimate() {
        for (reserved, used, expected) in [(60, 60, 10), (60, 50, 0), (10, 60, 10), (0, 90, 40)] {
            let (mut gate, now) = gate(0, 60);
            gate.admit(now, reserved).unwrap();
            gate.replace_estimate(now, reserved, used);
            let wait = gate
                .obstacle(now, RequestNeed::default(), 10)
                .map_or(Duration::ZERO, |(_, wait)| wait);
            assert_eq!(wait, seconds(expected), "{reserved} reserved, {used} used");
        }
    }
}
