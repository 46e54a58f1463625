//! How messages come and go: over the streams of a process, over HTTP or over a link; and what holds for both.

mod guarded;
mod http;
mod line;
mod link;
mod sse;

pub(crate) use guarded::{BoundedTransport, CallSlot, TransportState};
pub(crate) use http::transport;
pub(crate) use line::LineTransport;
pub(crate) use link::{BROKEN, LinkTransport};
