//! Limits on rate and concurrency that all conversations with a provider share.
//!
//! A limiter is independent of HTTP and starts no task: callers wait in their own futures.

mod bucket;
mod gate;
mod limited;
mod limiter;
mod limits;

pub use limited::RateLimitedProvider;
pub use limiter::{RateLimiter, RequestSlot};
pub use limits::RateLimits;
