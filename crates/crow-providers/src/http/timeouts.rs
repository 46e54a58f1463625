//! Timeouts for a server, and their state during one attempt.

use std::time::Duration;

use crow_core::model::{ProviderError, ProviderErrorKind, RateLimitWait};
use reqwest::Url;
use tokio::time::Instant;

/// Timeouts of the driver for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time without a byte, before the answer and within it.
    pub silence: Duration,
    /// Maximum time without a part of the reply, with or without keep-alives.
    pub progress: Duration,
    /// Time without a part of the reply after which that is reported.
    pub notice: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            silence: Duration::from_mins(2),
            progress: Duration::from_mins(10),
            notice: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    /// Returns the timeouts for the server at an address. One on this machine may first load a model or read a long
    /// prompt, so both limits are 30 minutes.
    pub fn at(address: &str) -> Self {
        let long = Duration::from_mins(30);
        match Url::parse(address) {
            Ok(url) if is_loopback(&url) => {
                Self { silence: long, progress: long, ..Self::default() }
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

/// Returns true if an address is that of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    address.map_or_else(
        |_| host == "localhost" || host.ends_with(".localhost"),
        |address| address.is_loopback(),
    )
}

/// State of one attempt's timeouts.
#[derive(Debug)]
pub(super) struct AttemptTimeouts {
    timeouts: Timeouts,
    /// Time of the last byte, or of the start of the attempt.
    last_byte: Instant,
    /// Time of the last part of the reply, or of the start of the attempt.
    last_part: Instant,
    /// True if bytes arrived since the last part.
    has_bytes: bool,
    /// True if any part arrived.
    has_begun: bool,
    /// True if the silence since the last part was reported.
    is_reported: bool,
}

/// Action that is due, see [`AttemptTimeouts::next`].
#[derive(Debug, PartialEq)]
pub(super) enum ExpiredTimeout {
    /// Report that nothing arrives.
    Notice(RateLimitWait),
    /// Fail: a timeout has expired.
    TimedOut(ProviderError),
    /// None yet.
    Nothing,
}

impl AttemptTimeouts {
    /// Starts an attempt.
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let (has_bytes, has_begun, told) = (false, false, false);
        Self { timeouts, last_byte: now, last_part: now, has_bytes, has_begun, is_reported: told }
    }

    /// Records the arrival of any bytes.
    pub(super) fn on_bytes(&mut self) {
        self.last_byte = Instant::now();
        self.has_bytes = true;
    }

    /// Records the arrival of a part of the reply.
    pub(super) fn on_part(&mut self) {
        self.last_part = self.last_byte;
        self.has_begun = true;
        (self.has_bytes, self.is_reported) = (false, false);
    }

    /// Returns the next time at which an action is due if nothing arrives.
    pub(super) fn next(&self) -> Instant {
        let end = self.silent_until().min(self.part_until());
        if self.is_reported { end } else { end.min(self.last_part + self.timeouts.notice) }
    }

    /// Returns the action that is due now.
    pub(super) fn expired(&mut self) -> ExpiredTimeout {
        let now = Instant::now();
        if now >= self.silent_until() {
            return ExpiredTimeout::TimedOut(timeout(self.silence(self.timeouts.silence)));
        }
        if now >= self.part_until() {
            return ExpiredTimeout::TimedOut(timeout(self.silence(self.timeouts.progress)));
        }
        if self.is_reported || now < self.last_part + self.timeouts.notice {
            return ExpiredTimeout::Nothing;
        }
        self.is_reported = true;
        ExpiredTimeout::Notice(RateLimitWait {
            reason: self.silence(self.timeouts.notice),
            wait: None,
        })
    }

    /// Returns true if the time for a part of the reply is used up.
    pub(super) fn is_used_up(&self) -> bool {
        Instant::now() >= self.part_until()
    }

    fn silent_until(&self) -> Instant {
        self.last_byte + self.timeouts.silence
    }

    fn part_until(&self) -> Instant {
        self.last_part + self.timeouts.progress
    }

    fn silence(&self, time: Duration) -> String {
        let seconds = time.as_secs_f32();
        match (self.has_begun, self.has_bytes) {
            (false, false) => format!("the server sent nothing for {seconds} s"),
            (false, true) => {
                format!("the server sent keep-alives, but no part of a reply for {seconds} s")
            }
            (true, false) => format!("the reply stopped, and nothing came for {seconds} s"),
            (true, true) => {
                format!("the reply stopped, and only keep-alives came for {seconds} s")
            }
        }
    }
}

fn timeout(message: String) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Timeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_has_longer_timeouts() {
        for address in ["http://127.0.0.1:8080/v1", "http://[::1]:1", "http://localhost:11434"] {
            let timeouts = Timeouts::at(address);
            let long = Duration::from_mins(30);
            assert_eq!((timeouts.silence, timeouts.progress), (long, long), "{address}");
        }
        for address in ["https://api.anthropic.com", "http://10.0.0.1", "nothing"] {
            assert_eq!(Timeouts::at(address), Timeouts::default(), "{address}");
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Advances the time as the driver does, with a keep-alive each second if wanted. Returns the notices, the error,
    /// and the time until it.
    async fn wait(
        patience: &mut AttemptTimeouts,
        keep_alives: bool,
    ) -> (Vec<String>, String, Duration) {
        let start = Instant::now();
        let mut notes = Vec::new();
        loop {
            match patience.expired() {
                ExpiredTimeout::Notice(wait) => notes.push(wait.reason),
                ExpiredTimeout::TimedOut(error) => return (notes, error.message, start.elapsed()),
                ExpiredTimeout::Nothing => {}
            }
            tokio::time::advance(seconds(1)).await;
            if keep_alives {
                patience.on_bytes();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_reported_after_ten_seconds_and_fails_after_two_minutes() {
        let mut patience = AttemptTimeouts::new(Timeouts::default());
        assert_eq!(patience.next(), Instant::now() + seconds(10));
        let (notes, why, time) = wait(&mut patience, false).await;
        assert_eq!(notes, ["the server sent nothing for 10 s"]);
        assert_eq!((why.as_str(), time), ("the server sent nothing for 120 s", seconds(120)));
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alives_alone_fail_after_ten_minutes() {
        let mut patience = AttemptTimeouts::new(Timeouts::default());
        let (notes, why, time) = wait(&mut patience, true).await;
        assert_eq!(notes, ["the server sent keep-alives, but no part of a reply for 10 s"]);
        assert_eq!(why, "the server sent keep-alives, but no part of a reply for 600 s");
        assert_eq!(time, seconds(600));
        assert!(patience.is_used_up());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_the_reply_restarts_the_timeouts_and_the_notice() {
        let mut patience = AttemptTimeouts::new(Timeouts::default());
        for _ in 0..3 {
            tokio::time::advance(seconds(60)).await;
            assert!(matches!(patience.expired(), ExpiredTimeout::Notice(_)));
            assert_eq!(patience.expired(), ExpiredTimeout::Nothing);
            patience.on_bytes();
            patience.on_part();
        }
        let (notes, why, time) = wait(&mut patience, false).await;
        assert_eq!(notes, ["the reply stopped, and nothing came for 10 s"]);
        assert_eq!(why, "the reply stopped, and nothing came for 120 s");
        assert_eq!(time, seconds(120));
    }
}
