//! The live view: a page on this machine that shows sessions while they run.
//!
//! [`LiveServer`] serves one page and an interface for it. The page shows the sessions of the server's own
//! [`AgentHost`](crow_runtime::AgentHost), which can be started, answered, steered, cancelled and undone from it, and those that other
//! programs write, whose logs it follows. Transcripts and charts are those of reports
//! ([`crow_telemetry::report`]), rendered and escaped here; what the page itself builds is text.
//!
//! Access: the server listens on a loopback address. The page itself is public and empty; everything else needs a token
//! in the `Authorization` header, which no page of another origin can send. The token comes to the page in the fragment
//! of its address, which browsers do not send, and is kept in the storage of its origin. Cookies would also be sent to
//! other ports of this machine. A token is as good as the port: whoever takes the port after the server has ended is
//! sent it by pages that are still open. So it should be a new one at each start.

mod access;
mod actions;
mod assets;
mod connection;
mod error;
mod hosted;
mod message;
mod overview;
mod server;
mod server_state;
mod session_feed;
mod stored_log;
mod stream;

pub use access::AccessRules;
pub use server::{LiveServer, LiveServerParts};
