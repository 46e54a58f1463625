//! What an attempt is still waited for, and since when.

use std::time::Duration;

use crow_core::model::{ProviderError, ProviderErrorKind, RateLimitWait};
use tokio::time::Instant;

use super::Timeouts;

/// How long one attempt has been waited for.
#[derive(Debug)]
pub(super) struct Patience {
    timeouts: Timeouts,
    /// The last byte, or the beginning of the attempt.
    last_byte: Instant,
    /// The last part of the reply, or the beginning of the attempt.
    last_part: Instant,
    /// Whether bytes came since the last part.
    has_bytes: bool,
    /// Whether any part came.
    has_begun: bool,
    /// Whether it was told that nothing comes.
    told: bool,
}

/// What a moment is, see [`Patience::next`].
#[derive(Debug, PartialEq)]
pub(super) enum ExpiredTimeout {
    /// It is to be told that nothing comes.
    Notice(RateLimitWait),
    /// The server was waited for long enough.
    TimedOut(ProviderError),
    /// It is not over yet.
    Nothing,
}

impl Patience {
    /// Begins to wait.
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let (has_bytes, has_begun, told) = (false, false, false);
        Self { timeouts, last_byte: now, last_part: now, has_bytes, has_begun, told }
    }

    /// Bytes came, whatever they say.
    pub(super) fn on_bytes(&mut self) {
        self.last_byte = Instant::now();
        self.has_bytes = true;
    }

    /// A part of the reply came.
    pub(super) fn on_part(&mut self) {
        self.last_part = self.last_byte;
        self.has_begun = true;
        (self.has_bytes, self.told) = (false, false);
    }

    /// Returns the next moment at which something is to be done if nothing comes.
    pub(super) fn next(&self) -> Instant {
        let end = self.silent_until().min(self.part_until());
        if self.told { end } else { end.min(self.last_part + self.timeouts.notice) }
    }

    /// Returns what is to be done by now.
    pub(super) fn expired(&mut self) -> ExpiredTimeout {
        let now = Instant::now();
        if now >= self.silent_until() {
            return ExpiredTimeout::TimedOut(timeout(self.silence(self.timeouts.silence)));
        }
        if now >= self.part_until() {
            return ExpiredTimeout::TimedOut(timeout(self.silence(self.timeouts.progress)));
        }
        if self.told || now < self.last_part + self.timeouts.notice {
            return ExpiredTimeout::Nothing;
        }
        self.told = true;
        ExpiredTimeout::Notice(RateLimitWait {
            reason: self.silence(self.timeouts.notice),
            wait: None,
        })
    }

    /// Returns whether the whole time for a part of the reply is used up.
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

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Lets time pass as the driver does, with a keep-alive each second, and returns what was told and why it ended.
    async fn wait(patience: &mut Patience, keep_alives: bool) -> (Vec<String>, String, Duration) {
        let begun = Instant::now();
        let mut told = Vec::new();
        loop {
            match patience.expired() {
                ExpiredTimeout::Notice(wait) => told.push(wait.reason),
                ExpiredTimeout::TimedOut(error) => return (told, error.message, begun.elapsed()),
                ExpiredTimeout::Nothing => {}
            }
            tokio::time::advance(seconds(1)).await;
            if keep_alives {
                patience.on_bytes();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_nothing_is_told_of_after_ten_seconds_and_left_after_two_minutes() {
        let mut patience = Patience::new(Timeouts::default());
        assert_eq!(patience.next(), Instant::now() + seconds(10));
        let (told, why, time) = wait(&mut patience, false).await;
        assert_eq!(told, ["the server sent nothing for 10 s"]);
        assert_eq!((why.as_str(), time), ("the server sent nothing for 120 s", seconds(120)));
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alives_alone_are_waited_for_ten_minutes() {
        let mut patience = Patience::new(Timeouts::default());
        let (told, why, time) = wait(&mut patience, true).await;
        assert_eq!(told, ["the server sent keep-alives, but no part of a reply for 10 s"]);
        assert_eq!(why, "the server sent keep-alives, but no part of a reply for 600 s");
        assert_eq!(time, seconds(600));
        assert!(patience.is_used_up());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_the_reply_starts_the_wait_anew_and_a_later_silence_is_told_again() {
        let mut patience = Patience::new(Timeouts::default());
        for _ in 0..3 {
            tokio::time::advance(seconds(60)).await;
            assert!(matches!(patience.expired(), ExpiredTimeout::Notice(_)));
            assert_eq!(patience.expired(), ExpiredTimeout::Nothing);
            patience.on_bytes();
            patience.on_part();
        }
        let (told, why, time) = wait(&mut patience, false).await;
        assert_eq!(told, ["the reply stopped, and nothing came for 10 s"]);
        assert_eq!(why, "the reply stopped, and nothing came for 120 s");
        assert_eq!(time, seconds(120));
    }
}
