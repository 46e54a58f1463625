//! The one HTTP client of the process, and the driver that turns a request into a stream of model events.
//!
//! It is independent of the wire formats: decoders interpret the events.

mod attempt_timeouts;
mod client;
mod exchange;
mod outgoing;
mod proxy;
mod reading;
mod requests;
mod timeouts;

pub use client::{HttpClient, HttpClientError};
pub use proxy::Proxies;
pub use timeouts::Timeouts;
pub(crate) use timeouts::is_loopback;

pub(crate) use exchange::exchange;
pub(crate) use outgoing::{OutgoingRequest, redact_url};
