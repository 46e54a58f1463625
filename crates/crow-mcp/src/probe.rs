//! A one-time connection to a server that lists its tools, for the setup of servers.

use std::time::Duration;

use crow_core::mcp::McpServerConfig;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    cache::SchemaCache,
    connection::{Lifetime, ServerConnection},
    listed::ToolListing,
    name::{server_names, tool_names},
    settings::{ConnectionContext, McpSettings},
};

/// Timeout of ending the server after the probe.
const CLOSE: Duration = Duration::from_secs(2);

/// The result of probing a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedServer {
    /// Time taken to connect and to list the tools.
    pub took: Duration,
    /// Its tools.
    pub tools: Vec<ProbedTool>,
    /// Number of tools omitted because of the limits.
    pub left_out: usize,
    /// Names of the tools omitted because their definition is invalid.
    pub invalid: Vec<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedTool {
    /// Name under which a model calls it.
    pub name: String,
    /// Name on the server, on one line and cut to 100 bytes.
    pub own_name: String,
    /// The description that the model reads.
    pub description: String,
}

/// Error of a server that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ProbeFailure {
    /// The error, with the end of the server's standard error.
    pub why: String,
}

/// Connects to a server, lists its tools and ends it again. Stores the list in `cache`, if given.
pub async fn probe(
    settings: &McpSettings,
    outside: &ConnectionContext,
    cache: Option<&SchemaCache>,
    cancel: &CancellationToken,
) -> Result<ProbedServer, ProbeFailure> {
    let lifetime = Lifetime { token: cancel.child_token(), tasks: TaskTracker::new() };
    let start = Instant::now();
    let opened =
        ServerConnection::open(settings, outside, &lifetime, settings.connect_limit()).await;
    let took = start.elapsed();
    let probed = match opened {
        Ok((connection, listed)) => {
            connection.close().await;
            if let Some(cache) = cache {
                let (cache, server, listing) =
                    (cache.clone(), settings.server.clone(), listed.clone());
                let store = move || cache.store(&server, &listing);
                if let Ok(Err(error)) = lifetime.tasks.spawn_blocking(store).await {
                    tracing::debug!(%error, "what a server listed could not be kept");
                }
            }
            Ok(to_probed_server(&settings.server, &listed, took))
        }
        Err(error) => Err(ProbeFailure { why: error.to_string() }),
    };
    lifetime.token.cancel();
    lifetime.tasks.close();
    drop(tokio::time::timeout(CLOSE, lifetime.tasks.wait()).await);
    probed
}

impl SchemaCache {
    /// Returns the tools that the cache has for a server, if any. Blocks.
    pub fn cached_tools(&self, server: &McpServerConfig) -> Option<Vec<ProbedTool>> {
        let listed = self.load(server)?;
        Some(to_probed_server(server, &listed, Duration::ZERO).tools)
    }
}

fn to_probed_server(
    server: &McpServerConfig,
    listed: &ToolListing,
    took: Duration,
) -> ProbedServer {
    let part = server_names([server.name.as_str()]).pop();
    let part = part.expect("invariant: each server has a name");
    let own: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
    let names = tool_names(&part, &own);
    let probed = names.into_iter().zip(&listed.tools).map(|(name, tool)| ProbedTool {
        name,
        own_name: crate::text::one_line(&tool.name, 100),
        description: tool.description.clone(),
    });
    ProbedServer {
        took,
        tools: probed.collect(),
        left_out: listed.left_out,
        invalid: listed.invalid.iter().cloned().collect(),
    }
}
