//! Servers of the Model Context Protocol: their tools as ordinary tools.
//!
//! [`McpTools`] is a [`ToolSource`](crow_core::tool::ToolSource) over the servers of one session. A server is connected
//! when the first model call is near; until then, and where it was seen before, its tools are those of a cache. What a
//! server says is bounded, cleaned and never believed: its tools need permission, whatever it says of them.
//!
//! The crate alone knows the library for the protocol. It starts no process and opens no connection: that is done by
//! [`PipedProcesses`](crow_core::capability::PipedProcesses) and [`Http`](crow_core::capability::Http), and a
//! [`McpLink`](crow_core::capability::McpLink) leads to a server that the client of the session serves itself.

mod cache;
mod client;
mod connection;
mod failure;
mod listed;
mod name;
mod page;
mod probe;
mod result;
mod schema;
mod server;
mod settings;
mod text;
mod tool;
mod tools;
mod transport;

pub use cache::SchemaCache;
pub use probe::{ProbeFailure, ProbedServer, ProbedTool, probe};
pub use settings::{McpSettings, Outside};
pub use tools::{McpTools, ServerState, ServerSummary};
