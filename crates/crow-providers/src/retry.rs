//! Retries of failed requests, and the waits before them.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use crow_core::model::{ProviderError, ProviderErrorKind, Retry};
use tokio::time::Instant;

/// Limits on the retries of a request.
///
/// Only transient errors are retried. If a provider requests a longer wait than the time that remains, the error is
/// returned at once and states the requested wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, the first one included.
    pub attempts: u32,
    /// Wait before the first retry. It doubles with each retry, and a random part of up to its length is added.
    pub first_wait: Duration,
    /// Maximum wait, unless the provider requests a longer one.
    pub longest_wait: Duration,
    /// Maximum sum of all waits of a request.
    pub total_wait: Duration,
    /// Time after the first attempt in which a provider that does not answer is retried.
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
    /// Returns a policy without retries.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Returns a policy of `attempts - 1` retries without waits, unless the provider requests them.
    pub fn without_waits(attempts: u32) -> Self {
        Self {
            attempts,
            first_wait: Duration::ZERO,
            longest_wait: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) error: ProviderError,
    pub(crate) progress: AttemptProgress,
}

/// Progress of a failed attempt, which determines if a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptProgress {
    /// A server answered.
    Answered,
    /// Nothing answered: the server may be starting.
    Unreachable,
    /// Something answered in a way that will not change, such as with a wrong certificate.
    Permanent,
}

/// State of the retries of a request.
#[derive(Debug)]
pub(crate) struct Schedule {
    policy: RetryPolicy,
    waits: ExponentialBackoff,
    began: Instant,
    waited: Duration,
    retries: u32,
    /// Number of retries after replies that could not be read.
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

    /// Returns the retry after this failure, or none if the request is not sent again.
    pub(crate) fn next_retry(&mut self, failure: &AttemptFailure) -> Option<Retry> {
        let AttemptFailure { error, progress: reach } = failure;
        // An unreadable reply may have been damaged on its way and is retried once; a second one was sent like that.
        let is_unreadable = error.kind == ProviderErrorKind::Decode;
        let may_pass = error.kind.is_transient() || (is_unreadable && self.unreadable == 0);
        if !may_pass || self.retries + 1 >= self.policy.attempts {
            return None;
        }
        // A timeout has used all the time that is allowed. It is retried once, if the reply had begun.
        if error.kind == ProviderErrorKind::Timeout && (self.retries > 0 || !error.mid_stream) {
            return None;
        }
        let remaining = match reach {
            AttemptProgress::Answered => self.policy.total_wait.checked_sub(self.waited)?,
            AttemptProgress::Unreachable => {
                self.policy.unreachable_within.checked_sub(self.began.elapsed())?
            }
            AttemptProgress::Permanent => return None,
        };
        // A pooled connection that the server had closed meanwhile: a new one is tried at once.
        let is_stale = self.retries == 0
            && *reach == AttemptProgress::Answered
            && error.kind == ProviderErrorKind::Network
            && !error.mid_stream;
        let wait = if is_stale {
            Duration::ZERO
        } else {
            self.waits.next()?.max(error.retry_after.unwrap_or_default())
        };
        if wait > remaining {
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

    fn failure(kind: ProviderErrorKind, reach: AttemptProgress) -> AttemptFailure {
        AttemptFailure { error: ProviderError::new(kind, "x"), progress: reach }
    }

    fn asking_for(seconds: u64) -> AttemptFailure {
        let mut failure = failure(ProviderErrorKind::RateLimited, AttemptProgress::Answered);
        failure.error.retry_after = Some(Duration::from_secs(seconds));
        failure
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_gets_five_attempts_with_growing_waits() {
        let mut schedule = Schedule::new(RetryPolicy::default());
        let failure = failure(ProviderErrorKind::Overloaded, AttemptProgress::Answered);
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
            let failure = failure(ProviderErrorKind::Network, AttemptProgress::Unreachable);
            while let Some(retry) = schedule.next_retry(&failure) {
                tokio::time::advance(retry.wait).await;
            }
            assert!(began.elapsed() <= Duration::from_secs(8));
            assert!(schedule.retries >= 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_requested_wait_is_kept_if_time_remains() {
        let mut schedule = Schedule::new(RetryPolicy::default());
        let retry = schedule.next_retry(&asking_for(40)).unwrap();
        assert_eq!((retry.wait, retry.attempt), (Duration::from_secs(40), 1));
        assert_eq!(schedule.next_retry(&asking_for(40)), None, "no time is left for a second one");
        assert_eq!(Schedule::new(RetryPolicy::default()).next_retry(&asking_for(3600)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_are_not_retried() {
        for (kind, reach) in [
            (ProviderErrorKind::Auth, AttemptProgress::Answered),
            (ProviderErrorKind::ContextLength, AttemptProgress::Answered),
            (ProviderErrorKind::Quota, AttemptProgress::Answered),
            (ProviderErrorKind::Network, AttemptProgress::Permanent),
            (ProviderErrorKind::Decode, AttemptProgress::Permanent),
        ] {
            let mut schedule = Schedule::new(RetryPolicy::default());
            assert_eq!(schedule.next_retry(&failure(kind, reach)), None, "{kind:?}");
        }
        let mut schedule = Schedule::new(RetryPolicy::never());
        let failure = failure(ProviderErrorKind::Overloaded, AttemptProgress::Answered);
        assert_eq!(schedule.next_retry(&failure), None);
    }

    #[tokio::test]
    async fn a_timeout_is_retried_once_if_the_reply_had_begun() {
        for (mid_stream, retries) in [(false, 0), (true, 1)] {
            let mut schedule = Schedule::new(RetryPolicy::without_waits(10));
            let mut failure = failure(ProviderErrorKind::Timeout, AttemptProgress::Answered);
            failure.error.mid_stream = mid_stream;
            assert_eq!(std::iter::from_fn(|| schedule.next_retry(&failure)).count(), retries);
        }
    }

    #[tokio::test]
    async fn an_unreadable_reply_is_retried_once() {
        let mut schedule = Schedule::new(RetryPolicy::without_waits(10));
        let unreadable = failure(ProviderErrorKind::Decode, AttemptProgress::Answered);
        assert!(schedule.next_retry(&unreadable).is_some());
        let overloaded = failure(ProviderErrorKind::Overloaded, AttemptProgress::Answered);
        assert!(schedule.next_retry(&overloaded).is_some());
        assert_eq!(schedule.next_retry(&unreadable), None);
    }

    #[tokio::test]
    async fn a_policy_without_waits_does_not_wait() {
        let mut schedule = Schedule::new(RetryPolicy::without_waits(3));
        let failure = failure(ProviderErrorKind::Server, AttemptProgress::Answered);
        for _ in 0..2 {
            assert_eq!(schedule.next_retry(&failure).unwrap().wait, Duration::ZERO);
        }
        assert_eq!(schedule.next_retry(&failure), None);
    }
}
