//! Server of the Agent Client Protocol (ACP), which editors speak, for any product that implements
//! [`AgentHost`](crow_runtime::AgentHost).
//!
//! [`AcpServer`] translates between the protocol and the host, and nothing else: history, snapshots, permissions and
//! cancellation belong to the runtime, and all adapters see the same sessions. MCP servers that a client serves itself
//! become [`McpLink`](crow_core::capability::McpLink)s of the product, which last as long as the connection.

mod server;
mod view;

pub use server::{AccessToken, AcpError, AcpIdentity, AcpServer, TerminalLogin};
