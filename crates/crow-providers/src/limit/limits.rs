//! The limits of a provider.

use std::num::{NonZeroU32, NonZeroU64};

/// Limits on the requests to a provider. Absent ones do not apply.
///
/// Requests and tokens are each taken from a bucket that contains the amount of one minute and fills evenly: after a
/// pause that amount may be used at once, and in the long run never more than the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Maximum requests in flight, each until its reply has ended.
    pub concurrency: Option<NonZeroU32>,
    /// Maximum requests that start in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum tokens in a minute, input and output together.
    pub tokens_per_minute: Option<NonZeroU64>,
}
