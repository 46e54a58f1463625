//! Limits on rate and concurrency that all conversations with a provider share.
//!
//! A limiter is independent of HTTP and starts no task: callers wait in their own futures.

mod gate;
mod limited;
mod limiter;

pub use limited::RateLimitedProvider;
pub use limiter::{RateLimiter, RateLimits, RequestSlot};
