//! A connection to a server: handshake, listing, requests and shutdown.
//!
//! [`ServerConnection`] is built on the peer of the `rmcp` library, over one of three transports (the streams of a
//! process, HTTP, a link of the client). Each is wrapped in a [`BoundedTransport`](crate::transport::BoundedTransport),
//! which shares a [`TransportState`](crate::transport::TransportState) with the connection: the close token, the reason of
//! the close, the signal of changed lists, and the calls in flight.
//!
//! The waits for answers also end when the close token is cancelled. A call that certainly did not reach the server
//! fails with [`CallError::Unsent`](crate::failure::CallError::Unsent), so it can be sent again; if the connection fails
//! later, the error is [`CallError::Lost`](crate::failure::CallError::Lost), and the call is not retried.

mod exchange;
mod listing;
mod server_connection;

pub(crate) use exchange::Requester;
pub(crate) use server_connection::{Lifetime, ServerConnection};
