//! Time, injected so that a run can be replayed.

use std::{fmt, time::Duration};

use jiff::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the time of day.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment. Never decreases.
    fn monotonic(&self) -> Duration;
}
