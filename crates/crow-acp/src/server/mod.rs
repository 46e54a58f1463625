//! Server side of the protocol: transports, connections, and the tasks of attached sessions.
//!
//! A transport (`wire`, `socket`, `http`) carries the messages of a connection (`connection`). `v1` or `v2` parses
//! its requests. Each session that the connection has open is an attached session (`attached`) whose task, the
//! `pump`, handles requests and sends the updates that `view` makes of events.

mod again;
mod asking;
mod attached;
mod client_wires;
mod connection;
mod convert;
mod events;
mod fault;
mod http;
mod identity;
mod initialize;
mod links;
mod list;
mod merge;
mod parsed;
mod peer;
mod prompts;
mod providers;
mod published_state;
mod pump;
mod question;
mod requests;
mod serve;
mod setup;
mod socket;
mod v1;
mod v2;
mod wire;

pub use http::AccessToken;
pub use identity::{AcpIdentity, TerminalLogin};
pub use serve::{AcpError, AcpServer};
