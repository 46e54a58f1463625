//! A clock that follows the time of tokio.

use std::time::Duration;

use crow_core::capability::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

/// A clock that follows the time of tokio: where a test has paused that, this stands still, too.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Starts a clock. Needs a tokio runtime.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
