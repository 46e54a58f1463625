//! Retries of failed requests, and the waits before them: computed, and as providers request them.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use crow_core::model::{ProviderError, ProviderErrorKind, Retry};
use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{HeaderMap, RETRY_AFTER};
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

/// Maximum delay. Longer ones are cut to it: they are as good as endless.
const LONGEST_WAIT: Duration = Duration::from_hours(7 * 24);

/// Parses `retry-after-ms` and `retry-after`: seconds or a date.
pub(crate) fn wait_in_headers(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return seconds(milliseconds, 0.001);
    }
    let value = text(RETRY_AFTER.as_str())?;
    let wait = value.parse().map_or_else(|_| until(value, now), |number| seconds(number, 1.0));
    wait.map(|wait| wait.min(LONGEST_WAIT))
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let then = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    // A date in the past means no delay.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

/// Finds "try again in 1m2.5s" or "retry in 300ms" in a message.
pub(crate) fn wait_in_message(message: &str) -> Option<Duration> {
    let folded = message.to_ascii_lowercase();
    let (_, rest) =
        folded.split_once("try again in ").or_else(|| folded.split_once("retry in "))?;
    wait_span(rest)
}

/// Parses a span such as `1m2.5s`, `300ms`, `32s` or `7 seconds`.
pub(crate) fn wait_span(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(digits)?;
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else { break };
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let factor = match unit {
            "ms" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        total = Some(total.unwrap_or(Duration::ZERO) + seconds(number, factor)?);
        rest = tail;
    }
    total.map(|wait: Duration| wait.min(LONGEST_WAIT))
}

fn seconds(number: f64, factor: f64) -> Option<Duration> {
    Duration::try_from_secs_f64((number * factor).min(LONGEST_WAIT.as_secs_f64())).ok()
}

/// Formats the requested delay and its end, for a request that is given up.
pub(crate) fn wait_in_words(wait: Duration, now: Timestamp) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    let span = match minutes {
        0 | 1 => format!("{} s", wait.as_secs_f64().ceil()),
        2..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    };
    match now.checked_add(wait) {
        Ok(then) => {
            format!("it asks for a wait of {span}, until {}", then.strftime("%Y-%m-%d %H:%M UTC"))
        }
        Err(_) => format!("it asks for a wait of {span}"),
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

    #[test]
    fn waits_are_read_from_headers() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        for (name, value, expected) in [
            ("retry-after", "2", Some(2000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT", Some(30_000)),
            ("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT", Some(0)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "inf", Some(604_800_000)),
            ("retry-after-ms", "1500", Some(1500)),
            ("x-other", "5", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            let expected = expected.map(Duration::from_millis);
            assert_eq!(wait_in_headers(&headers, now), expected, "{name}: {value}");
        }
    }

    #[test]
    fn milliseconds_take_precedence_over_seconds() {
        let headers = HeaderMap::from_iter([
            ("retry-after".parse().unwrap(), "2".parse().unwrap()),
            ("retry-after-ms".parse().unwrap(), "1250".parse().unwrap()),
        ]);
        assert_eq!(
            wait_in_headers(&headers, Timestamp::UNIX_EPOCH),
            Some(Duration::from_millis(1250))
        );
    }

    #[test]
    fn a_wait_is_formatted_with_its_end() {
        let now: Timestamp = "2026-11-21T23:30:10Z".parse().unwrap();
        for (wait, expected) in [
            (Duration::from_millis(1500), "2 s, until 2026-11-21 23:30 UTC"),
            (Duration::from_mins(10), "10 min, until 2026-11-21 23:40 UTC"),
            (Duration::from_hours(1), "1 h 0 min, until 2026-11-22 00:30 UTC"),
        ] {
            assert_eq!(wait_in_words(wait, now), format!("it asks for a wait of {expected}"));
        }
    }

    #[test]
    fn waits_are_read_from_messages() {
        for (message, expected) in [
            ("Rate limit reached. Please try again in 1.5s. Visit", Some(1500)),
            ("Please try again in 20ms.", Some(20)),
            ("try again in 6m0s", Some(360_000)),
            ("Please retry in 41.25s.", Some(41_250)),
            ("Try again in 7 seconds", Some(7000)),
            ("please try again in a while", None),
            ("no", None),
        ] {
            assert_eq!(wait_in_message(message), expected.map(Duration::from_millis), "{message}");
        }
    }
}
