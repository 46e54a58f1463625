//! A bucket that fills evenly. The current time is always passed in.

use std::{num::NonZeroU64, time::Duration};

use tokio::time::Instant;

/// Units of one piece: with a rate per minute, each nanosecond then adds a whole number of units.
const PIECE: i128 = 60_000_000_000;

/// A bucket with the amount of one minute, filled evenly. Exact: nothing is rounded.
///
/// The level may fall below zero; later requests wait for that.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    per_minute: i128,
    level: i128,
    as_of: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn full(per_minute: NonZeroU64, now: Instant) -> Self {
        let per_minute = i128::from(per_minute.get());
        Self { per_minute, level: per_minute * PIECE, as_of: now }
    }

    /// Returns the time until `amount` is available after `ahead` was taken. An amount above the capacity is available
    /// when the bucket is full.
    pub(super) fn ready_in(&self, now: Instant, ahead: u64, amount: u64) -> Duration {
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
    pub(super) fn take(&mut self, now: Instant, amount: u64) {
        self.level = self.level_at(now) - i128::from(amount) * PIECE;
        self.as_of = self.as_of.max(now);
    }

    /// Returns an amount that was taken and not used.
    pub(super) fn refund(&mut self, now: Instant, amount: u64) {
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
    use proptest::prelude::*;

    use super::*;

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
