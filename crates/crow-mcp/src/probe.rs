//! One-time connections for the setup of servers: listing the tools, and logging in.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::mcp::McpServerConfig;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    cache::SchemaCache,
    connection::{Lifetime, ServerConnection},
    failure::ConnectError,
    listed::{ListedPrompt, ToolListing},
    name::{server_names, tool_names},
    oauth::{
        self, LoginAccess, LoginChallenge, LoginDialog, LoginError, LoginOutcome, LoginStorage,
        LoginStorageError, OAuthGrant,
    },
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
    end(&lifetime).await;
    probed
}

/// Logs in at a server and stores the login in the storage of `outside`. An earlier login is replaced.
///
/// # Errors
/// Fails if the server cannot be reached or needs no login, if logins or a browser are missing in `outside`, if the user
/// declines or is not done in time, or if the authorization server refuses.
pub async fn log_in(
    settings: &McpSettings,
    outside: &ConnectionContext,
    dialog: &dyn LoginDialog,
    cancel: &CancellationToken,
) -> Result<LoginOutcome, LoginError> {
    let failed = |why: &str| LoginError::Failed(why.to_owned());
    let logins = outside.logins.as_ref().ok_or_else(|| failed("logins cannot be stored"))?;
    let browser = outside.browser.as_ref();
    if browser.is_none() && settings.oauth.grant == OAuthGrant::AuthorizationCode {
        return Err(failed("there is no browser"));
    }
    let lifetime = Lifetime { token: cancel.child_token(), tasks: TaskTracker::new() };
    let login = settings.login(outside, &lifetime.tasks).ok_or_else(|| {
        failed("only servers with a url and without a header `Authorization` have a login")
    })?;
    // The challenge of a request without a login: it names the authorization server and the scopes.
    let anonymous = ConnectionContext {
        logins: Some(LoginAccess { storage: Arc::new(NoLogins), ..logins.clone() }),
        ..outside.clone()
    };
    // It must not log in by itself.
    let mut anonymous_settings = settings.clone();
    anonymous_settings.oauth.grant = OAuthGrant::AuthorizationCode;
    let limit = settings.connect_limit();
    let logging_in = async {
        let opened =
            ServerConnection::open(&anonymous_settings, &anonymous, &lifetime, limit).await;
        let (challenge, is_optional) = match opened {
            Ok((connection, _)) => {
                connection.close().await;
                // It may still want a login for calls.
                (LoginChallenge::default(), true)
            }
            Err(ConnectError::LoginRequired { challenge, .. }) => (challenge, false),
            Err(ConnectError::Closed) => return Err(LoginError::Cancelled),
            Err(error) => return Err(LoginError::Failed(error.to_string())),
        };
        let name = crate::text::one_line(&settings.server.name, 60);
        oauth::log_in(&login, &name, &challenge, is_optional, browser, dialog, cancel).await
    };
    let logged_in = logging_in.await;
    end(&lifetime).await;
    logged_in
}

/// Ends what a probe started, in bounded time.
async fn end(lifetime: &Lifetime) {
    lifetime.token.cancel();
    lifetime.tasks.close();
    drop(tokio::time::timeout(CLOSE, lifetime.tasks.wait()).await);
}

/// A storage without logins.
#[derive(Debug)]
struct NoLogins;

#[async_trait]
impl LoginStorage for NoLogins {
    async fn load(&self, _url: &str) -> Result<Option<String>, LoginStorageError> {
        Ok(None)
    }

    async fn save(&self, _url: &str, _login: String) -> Result<(), LoginStorageError> {
        Err(LoginStorageError("logins cannot be stored".to_owned()))
    }

    async fn remove(&self, _url: &str) -> Result<bool, LoginStorageError> {
        Ok(false)
    }

    async fn lock_login(&self, _url: &str) -> Result<Box<dyn Send>, LoginStorageError> {
        Ok(Box::new(()))
    }
}

impl SchemaCache {
    /// Returns the tools that the cache has for a server, if any. Blocks.
    pub fn cached_tools(&self, server: &McpServerConfig) -> Option<Vec<ProbedTool>> {
        let listed = self.load(server)?;
        Some(to_probed_server(server, &listed, Duration::ZERO).tools)
    }

    /// Returns the prompts that the cache has for a server; empty if it was never seen. Blocks.
    pub fn cached_prompts(&self, server: &McpServerConfig) -> Vec<ListedServerPrompt> {
        let Some(listed) = self.load(server) else { return Vec::new() };
        let own: Vec<&str> = listed.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        let names = tool_names(&name_part(server), &own);
        let prompt = |(name, prompt): (String, &ListedPrompt)| ListedServerPrompt {
            name,
            usage: prompt.usage(),
            description: prompt.description.clone(),
        };
        names.into_iter().zip(&listed.prompts).map(prompt).collect()
    }
}

/// A prompt of a server, as last listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedServerPrompt {
    /// Its name for users: `mcp__SERVER__PROMPT`.
    pub name: String,
    /// The placeholder of the arguments, such as `PATH [LANGUAGE]`; empty if there are none.
    pub usage: String,
    /// Its description, on one line. It may be empty.
    pub description: String,
}

/// Returns the part of the names of tools and prompts that stands for a server.
fn name_part(server: &McpServerConfig) -> String {
    server_names([server.name.as_str()]).pop().expect("invariant: each server has a name")
}

fn to_probed_server(
    server: &McpServerConfig,
    listed: &ToolListing,
    took: Duration,
) -> ProbedServer {
    let part = name_part(server);
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
