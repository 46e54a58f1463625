//! Admission of requests: obstacles and their delays, from buckets that fill evenly. The current time is always passed in.

use std::{num::NonZeroU64, time::Duration};

use tokio::time::Instant;

use super::RateLimits;

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

/// Units of one piece: with a rate per minute, each nanosecond then adds a whole number of units.
const PIECE: i128 = 60_000_000_000;

/// A bucket with the amount of one minute, filled evenly. Exact: nothing is rounded.
///
/// The level may fall below zero; later requests wait for that.
#[derive(Debug, Clone)]
struct Bucket {
    per_minute: i128,
    level: i128,
    as_of: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    fn full(per_minute: NonZeroU64, now: Instant) -> Self {
        let per_minute = i128::from(per_minute.get());
        Self { per_minute, level: per_minute * PIECE, as_of: now }
    }

    /// Returns the time until `amount` is available after `ahead` was taken. An amount above the capacity is available
    /// when the bucket is full.
    fn ready_in(&self, now: Instant, ahead: u64, amount: u64) -> Duration {
        let needed = i128::from(ahead) + i128::from(amount).min(self.per_minute);
        let missing = needed * PIECE - self.level_at(now);
        if missing <= 0 {
            return Duration::ZERO;
        }
        // Rounded up, since one nanosecond less would be too early.
        let nanos = (missing + self.per_minute - 1) / self.per_minute;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes an amount, available or not.
    fn take(&mut self, now: Instant, amount: u64) {
        self.level = self.level_at(now) - i128::from(amount) * PIECE;
        self.as_of = self.as_of.max(now);
    }

    /// Returns an amount that was taken and not used.
    fn refund(&mut self, now: Instant, amount: u64) {
        let level = self.level_at(now) + i128::from(amount) * PIECE;
        self.level = level.min(self.per_minute * PIECE);
        self.as_of = self.as_of.max(now);
    }

    fn level_at(&self, now: Instant) -> i128 {
        let elapsed = now.saturating_duration_since(self.as_of).as_nanos();
        let elapsed = i128::try_from(elapsed).unwrap_or(i128::MAX);
        let fresh = elapsed.saturating_mul(self.per_minute);
        self.level.saturating_add(fresh).min(self.per_minute * PIECE)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

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

    fn bucket(per_minute: u64) -> (Bucket, Instant) {
        let now = Instant::now();
        (Bucket::full(NonZeroU64::new(per_minute).unwrap(), now), now)
    }

    #[test]
    fn a_missing_amount_becomes_available_evenly() {
        // (per minute, taken at once, milliseconds later, wanted, ahead, expected wait in milliseconds)
        for (per_minute, taken, later, amount, ahead, expected) in [
            (60, 0, 0, 1, 0, 0),
            (60, 60, 0, 1, 0, 1000),
            (60, 60, 400, 1, 0, 600),
            (60, 60, 1000, 1, 0, 0),
            (60, 60, 0, 1, 9, 10_000),
            (60, 0, 0, 61, 0, 0),
            (60, 30, 0, 1000, 0, 30_000),
            (60, 90, 0, 1, 0, 31_000),
            (60, 60, 600_000, 60, 1, 1000),
            (1, 1, 0, 1, 0, 60_000),
        ] {
            let (mut bucket, start) = bucket(per_minute);
            bucket.take(start, taken);
            let wait = bucket.ready_in(start + Duration::from_millis(later), ahead, amount);
            let row = (per_minute, taken, later, amount, ahead);
            assert_eq!(wait, Duration::from_millis(expected), "{row:?}");
        }
    }

    #[test]
    fn returned_amounts_are_available_up_to_the_capacity() {
        let (mut bucket, now) = bucket(60);
        bucket.take(now, 60);
        bucket.refund(now, 10);
        assert_eq!(bucket.ready_in(now, 0, 10), Duration::ZERO);
        bucket.refund(now, 1000);
        assert_eq!(bucket.ready_in(now, 60, 1), Duration::from_secs(1));
    }

    #[test]
    fn a_clock_that_goes_back_adds_nothing() {
        let (mut bucket, start) = bucket(60);
        let later = start + Duration::from_secs(5);
        bucket.take(later, 60);
        bucket.take(start, 1);
        assert_eq!(bucket.ready_in(later, 0, 1), Duration::from_secs(2));
    }

    proptest! {
        #[test]
        fn no_minute_sees_more_than_the_rate_beyond_the_burst(
            per_minute in 1_u64..200,
            requests in prop::collection::vec((0_u64..5_000, 1_u64..50), 1..200),
        ) {
            let (mut bucket, start) = bucket(per_minute);
            let mut now = start;
            let mut taken: Vec<(Instant, u64)> = Vec::new();
            for (idle, amount) in requests {
                now += Duration::from_millis(idle);
                now += bucket.ready_in(now, 0, amount);
                prop_assert_eq!(bucket.ready_in(now, 0, amount), Duration::ZERO);
                bucket.take(now, amount);
                taken.push((now, amount));
            }
            for (index, (from, _)) in taken.iter().enumerate() {
                let minute = taken[index..].iter().take_while(|(at, _)| at.duration_since(*from) < Duration::from_mins(1));
                let amounts: Vec<u64> = minute.map(|(_, amount)| *amount).collect();
                // The last request may be larger than the bucket: it is sent when the bucket is full.
                let last = amounts.last().copied().unwrap_or_default();
                let beyond = last.saturating_sub(per_minute);
                prop_assert!(amounts.iter().sum::<u64>() - beyond <= 2 * per_minute);
            }
        }
    }
}
