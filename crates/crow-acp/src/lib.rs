//! Server of the Agent Client Protocol (ACP), which editors speak, for any product that implements
//! [`AgentHost`](crow_runtime::AgentHost).
//!
//! [`AcpServer`] translates between the protocol and the host, and nothing else: history, snapshots, permissions and
//! cancellation belong to the runtime, and all adapters see the same sessions. MCP servers that a client serves itself
//! become [`McpLink`](crow_core::capability::McpLink)s of the product, which last as long as the connection.
//!
//! The crate runs outside of calls: a panic would end the connection with all its sessions, so nothing in it may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod server;
mod view;

pub use server::{AcpError, AcpIdentity, AcpServer, TerminalLogin};
