//! Figures of measured times and sizes.

use std::time::Duration;

/// Measured times, in ascending order.
pub(crate) struct Timings(Vec<Duration>);

impl Timings {
    pub(crate) fn new(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort();
        Self(times)
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn maximum(&self) -> Duration {
        self.percentile(100)
    }

    /// Returns the least time that so many percent of all do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        *self.0.get(rank - 1).unwrap()
    }
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn mb(size: f64) -> String {
    format!("{size:.1} MB")
}
