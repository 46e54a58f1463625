//! When a failed request is sent again, and how long is waited before.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use crow_core::model::{ProviderError, ProviderErrorKind, Retry};
use tokio::time::Instant;

/// How often and how patiently a request is sent again.
///
/// Only errors that may pass are retried. A provider that asks for a longer wait than is left is not waited for: the
/// error is returned at once and says how long the provider asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent at most, the first time included.
    pub attempts: u32,
    /// The wait before the first retry. It doubles with each, and up to as much again is added by chance.
    pub first_wait: Duration,
    /// The longest wait, unless the provider asks for more.
    pub longest_wait: Duration,
    /// The most that all waits of one request may add up to.
    pub total_wait: Duration,
    /// How long after the first attempt a provider that nobody answers for is given up.
    pub unreachable_within: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(16),
            total_wait: Duration::from_mins(1),
            unreachable_within: Duration::from_secs(8),
        }
    }
}

impl RetryPolicy {
    /// Sends each request once.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Retries `attempts - 1` times without waiting, unless the provider asks for it.
    pub fn without_waits(attempts: u32) -> Self {
        Self {
            attempts,
            first_wait: Duration::ZERO,
            longest_wait: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) error: ProviderError,
    pub(crate) reach: AttemptReach,
}

/// How far an attempt came, which says what may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptReach {
    /// Something answered.
    Answered,
    /// Nothing answered: it may be starting.
    Nobody,
    /// Something answered that will never do, such as a wrong certificate.
    Wrong,
}

/// The retries of one request.
#[derive(Debug)]
pub(crate) struct Schedule {
    policy: RetryPolicy,
    waits: ExponentialBackoff,
    began: Instant,
    waited: Duration,
    retries: u32,
    /// Retries after replies that could not be read.
    unreadable: u32,
}

impl Schedule {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        let waits = ExponentialBuilder::new()
            .with_min_delay(policy.first_wait)
            .with_max_delay(policy.longest_wait)
            .without_max_times()
            .with_jitter()
            .build();
        Self {
            policy,
            waits,
            began: Instant::now(),
            waited: Duration::ZERO,
            retries: 0,
            unreadable: 0,
        }
    }

    /// Decides whether the request is sent again after this failure.
    pub(crate) fn next_retry(&mut self, failure: &AttemptFailure) -> Option<Retry> {
        let AttemptFailure { error, reach } = failure;
        // A reply that was spoiled on its way is asked for once more; one that is so again was written so.
        let is_unreadable = error.kind == ProviderErrorKind::Decode;
        let may_pass = error.kind.is_transient() || (is_unreadable && self.unreadable == 0);
        if !may_pass || self.retries + 1 >= self.policy.attempts {
            return None;
        }
        // Such an attempt took as long as the timeouts allow. A reply that had begun is asked for once more.
        if error.kind == ProviderErrorKind::Timeout && (self.retries > 0 || !error.mid_stream) {
            return None;
        }
        let left = match reach {
            AttemptReach::Answered => self.policy.total_wait.checked_sub(self.waited)?,
            AttemptReach::Nobody => {
                self.policy.unreachable_within.checked_sub(self.began.elapsed())?
            }
            AttemptReach::Wrong => return None,
        };
        // A kept connection that the other side had closed meanwhile: a new one will do at once.
        let is_stale = self.retries == 0
            && *reach == AttemptReach::Answered
            && error.kind == ProviderErrorKind::Network
            && !error.mid_stream;
        let wait = if is_stale {
            Duration::ZERO
        } else {
            self.waits.next()?.max(error.retry_after.unwrap_or_default())
        };
        if wait > left {
            return None;
        }
        self.waited += wait;
        self.retries += 1;
        self.unreadable += u32::from(is_unreadable);
        Some(Retry { error: error.clone(), attempt: self.retries, wait })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: ProviderErrorKind, reach: AttemptReach) -> AttemptFailure {
        AttemptFailure { error: ProviderError::new(kind, "x"), reach }
    }

    fn asking_for(seconds: u64) -> AttemptFailure {
        let mut failure = failure(ProviderErrorKind::RateLimited, AttemptReach::Answered);
        failure.error.retry_after = Some(Duration::from_secs(seconds));
        failure
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_is_asked_five_times_with_growing_waits() {
        let mut schedule = Schedule::new(RetryPolicy::default());
        let failure = failure(ProviderErrorKind::Overloaded, AttemptReach::Answered);
        let waits: Vec<_> =
            std::iter::from_fn(|| schedule.next_retry(&failure)).map(|retry| retry.wait).collect();
        assert_eq!(waits.len(), 4);
        for (wait, least) in waits.iter().zip([500, 1000, 2000, 4000].map(Duration::from_millis)) {
            assert!((least..=least * 2).contains(wait), "{waits:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_address_is_given_up_within_eight_seconds() {
        for _ in 0..100 {
            let mut schedule = Schedule::new(RetryPolicy::default());
            let began = Instant::now();
            let failure = failure(ProviderErrorKind::Network, AttemptReach::Nobody);
            while let Some(retry) = schedule.next_retry(&failure) {
                tokio::time::advance(retry.wait).await;
            }
            assert!(began.elapsed() <= Duration::from_secs(8));
            assert!(schedule.retries >= 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_the_provider_asks_for_is_kept_if_there_is_time() {
        let mut schedule = Schedule::new(RetryPolicy::default());
        let retry = schedule.next_retry(&asking_for(40)).unwrap();
        assert_eq!((retry.wait, retry.attempt), (Duration::from_secs(40), 1));
        assert_eq!(schedule.next_retry(&asking_for(40)), None, "no time is left for a second one");
        assert_eq!(Schedule::new(RetryPolicy::default()).next_retry(&asking_for(3600)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_retried() {
        for (kind, reach) in [
            (ProviderErrorKind::Auth, AttemptReach::Answered),
            (ProviderErrorKind::ContextLength, AttemptReach::Answered),
            (ProviderErrorKind::Quota, AttemptReach::Answered),
            (ProviderErrorKind::Network, AttemptReach::Wrong),
            (ProviderErrorKind::Decode, AttemptReach::Wrong),
        ] {
            let mut schedule = Schedule::new(RetryPolicy::default());
            assert_eq!(schedule.next_retry(&failure(kind, reach)), None, "{kind:?}");
        }
        let mut schedule = Schedule::new(RetryPolicy::never());
        let failure = failure(ProviderErrorKind::Overloaded, AttemptReach::Answered);
        assert_eq!(schedule.next_retry(&failure), None);
    }

    #[tokio::test]
    async fn a_silent_provider_is_asked_once_and_one_that_had_begun_twice() {
        for (mid_stream, retries) in [(false, 0), (true, 1)] {
            let mut schedule = Schedule::new(RetryPolicy::without_waits(10));
            let mut failure = failure(ProviderErrorKind::Timeout, AttemptReach::Answered);
            failure.error.mid_stream = mid_stream;
            assert_eq!(std::iter::from_fn(|| schedule.next_retry(&failure)).count(), retries);
        }
    }

    #[tokio::test]
    async fn an_unreadable_reply_is_asked_for_once_more() {
        let mut schedule = Schedule::new(RetryPolicy::without_waits(10));
        let unreadable = failure(ProviderErrorKind::Decode, AttemptReach::Answered);
        assert!(schedule.next_retry(&unreadable).is_some());
        let overloaded = failure(ProviderErrorKind::Overloaded, AttemptReach::Answered);
        assert!(schedule.next_retry(&overloaded).is_some());
        assert_eq!(schedule.next_retry(&unreadable), None);
    }

    #[tokio::test]
    async fn a_policy_without_waits_does_not_wait() {
        let mut schedule = Schedule::new(RetryPolicy::without_waits(3));
        let failure = failure(ProviderErrorKind::Server, AttemptReach::Answered);
        for _ in 0..2 {
            assert_eq!(schedule.next_retry(&failure).unwrap().wait, Duration::ZERO);
        }
        assert_eq!(schedule.next_retry(&failure), None);
    }
}
