//! Transports: the streams of a process, HTTP, and a link to the client; and the limits common to all of them.
//!
//! A panic here would end a connection with all its calls, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod guarded;
mod http;
mod line;
mod link;
mod server_transport;
mod sse;

pub(crate) use guarded::{BoundedTransport, CallSlot, TransportState};
pub(crate) use http::{error_text, transport};
pub(crate) use line::LineTransport;
pub(crate) use link::{LINK_FAILED, LinkTransport};
pub(crate) use server_transport::{ServerTransport, TransportError};
