//! The Agent Client Protocol over any product: sessions, events and questions as editors know them.
//!
//! [`AcpServer`] serves clients with what an [`AgentHost`](crow_runtime::AgentHost) gives out. It translates and nothing
//! else: history, snapshots, permission and cancellation are the runtime's, and a session that is seen here is the one
//! that every other adapter sees. Servers of tools that a client serves itself become links of the product's
//! ([`McpLink`](crow_core::capability::McpLink)), which hold as long as the connection.

mod server;
mod view;

pub use server::{AccessToken, AcpError, AcpIdentity, AcpServer, TerminalLogin};
