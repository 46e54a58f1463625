//! The limits as data.

use std::num::{NonZeroU32, NonZeroU64};

/// How much may be asked of a provider. What is not set is not limited.
///
/// Requests and tokens come from a bucket that holds one minute's worth and fills evenly: after a pause a minute's worth
/// may go out at once, and in the long run never more than the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// The requests in flight, each until its reply has ended.
    pub concurrency: Option<NonZeroU32>,
    /// The requests that begin in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The tokens of a minute, input and output together.
    pub tokens_per_minute: Option<NonZeroU64>,
}
