//! The Model Context Protocol: the tools of its servers as ordinary tools, and Crow as a server ([`TaskServer`]).
//!
//! [`McpTools`] is a [`ToolSource`](crow_core::tool::ToolSource) over the servers of one session. A server is connected
//! shortly before the first model call; until then its tools come from a cache, if it was connected before. Everything
//! that a server sends is bounded and sanitised, and nothing is trusted: its tools need permission, whatever it says of
//! them.
//!
//! No other crate depends on the library for the protocol. This one starts no process and opens no connection itself:
//! it uses [`PipedProcesses`](crow_core::capability::PipedProcesses), [`Http`](crow_core::capability::Http), and
//! [`McpLink`](crow_core::capability::McpLink) for a server that the client of the session serves itself.

mod browser_page;
mod cache;
mod client;
mod connection;
mod elicitation;
mod failure;
mod listed;
mod name;
mod oauth;
mod page;
mod probe;
mod prompts;
mod resources;
mod result;
mod sampling;
mod schema;
mod serve;
mod server;
mod settings;
mod text;
mod tool;
mod tools;
mod transport;

pub use cache::SchemaCache;
pub use oauth::{
    AuthorizationPage, ClientKey, ClientKeyError, LoginAccess, LoginDialog, LoginError,
    LoginOutcome, LoginStorage, LoginStorageError, OAuthGrant, OAuthSettings, RedirectListener,
    UserBrowser,
};
pub use probe::{ListedServerPrompt, ProbeFailure, ProbedServer, ProbedTool, log_in, probe};
pub use prompts::McpPrompt;
pub use serve::{ServeError, TaskServer};
pub use settings::{ConnectionContext, McpSettings};
pub use tools::{DEFAULT_DEFERRAL_THRESHOLD, McpTools, ServerState, ServerSummary};
