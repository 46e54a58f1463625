//! The one HTTP client of the process, and the driver that turns a request into a stream of model events.
//!
//! Knows nothing of any wire format: what an event means is a decoder's business.

mod client;
mod exchange;
mod outgoing;
mod patience;
mod proxy;
mod reading;
mod requests;
mod timeouts;

pub use client::{HttpClient, HttpClientError};
pub use proxy::Proxies;
pub use timeouts::Timeouts;

pub(crate) use exchange::exchange;
pub(crate) use outgoing::{OutgoingRequest, shown};
