//! The one HTTP client of the process, and the driver that turns a request into a stream of model events.
//!
//! It is independent of the wire formats: decoders interpret the events.

mod attempt;
mod body_reader;
mod client;
mod exchange;
mod public_hosts;
mod timeouts;
mod wire_log;

pub(crate) use attempt::{OutgoingRequest, redact_url};
pub use client::{HttpClient, HttpClientError, Proxies};
pub(crate) use exchange::exchange;
pub use timeouts::Timeouts;
pub(crate) use timeouts::is_loopback;
pub use wire_log::{WireExchange, WireLog};
