//! How messages come and go: over the streams of a process, or over HTTP; and what holds for both.

mod guarded;
mod http;
mod line;
mod sse;

pub(crate) use guarded::{CallSlot, Guarded, Wire};
pub(crate) use http::transport;
pub(crate) use line::LineTransport;
