//! The system clock.

use std::time::{Duration, Instant};

use crow_core::capability::Clock;
use jiff::Timestamp;

/// The system clock: wall-clock time, and a monotonic time since its creation.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
