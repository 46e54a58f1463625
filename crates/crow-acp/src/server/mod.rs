//! Server side of the protocol: transports, connections, and the tasks of attached sessions.
//!
//! A transport (`wire`, `http`) carries the messages of a connection (`connection`). `v1` or `v2` parses
//! its requests. Each session that the connection has open is an attached session (`attached`) whose task, the
//! `pump`, handles requests and sends the updates that `view` makes of events.

mod attached;
mod connection;
mod convert;
mod http;
mod initialize;
mod links;
mod peer;
mod prompts;
mod providers;
mod published_state;
mod pump;
mod question;
mod serve;
mod setup;
mod v1;
mod v2;
mod wire;

pub use initialize::{AcpIdentity, TerminalLogin};
pub use serve::{AcpError, AcpServer};
