//! How often a provider is asked, and by how many at once: limits that all its conversations share.
//!
//! A limiter knows nothing of HTTP and starts no task: who waits for it does the waiting.

mod bucket;
mod gate;
mod limited;
mod limiter;
mod limits;

pub use limited::RateLimitedProvider;
pub use limiter::{RateLimiter, RequestSlot};
pub use limits::RateLimits;
