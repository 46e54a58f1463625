//! A clock on tokio's time.

use std::time::Duration;

use crow_core::capability::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

/// A clock whose monotonic time is tokio's: it stops while a test pauses that. Its wall-clock time is the system's.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Starts a clock at zero. Needs a tokio runtime.
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
