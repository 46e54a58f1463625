//! How messages come and go: over the streams of a process, or over HTTP; and what holds for both.

mod guarded;
mod http;
mod line;
mod sse;

pub(crate) use guarded::{CallSlot, Guarded, Wire};
pub(crate) use http::transport;
pub(crate) use line::LineTransport;

/// The largest message that is taken from a server.
pub(crate) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
