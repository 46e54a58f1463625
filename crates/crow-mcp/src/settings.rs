//! Settings of servers, and the capabilities through which they are reached.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crow_core::{
    capability::{Http, PipedProcesses},
    mcp::{McpServerConfig, McpTransport},
};
use rmcp::model::ProtocolVersion;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::oauth::{LoginAccess, OAuthSettings, ServerLogin, UserBrowser};

/// Default of [`McpSettings::startup_timeout`].
const STARTUP: Duration = Duration::from_secs(10);
/// Default timeout of a call without progress.
const SILENCE: Duration = Duration::from_mins(1);
/// Factor between the startup timeout and the time limit of an attempt to connect: the server may have to be downloaded
/// first.
const PATIENCE: u32 = 12;
/// Factor between the timeout of silence and the time limit of a call that reports progress.
const MOST_SILENCES: u32 = 10;

/// Configuration of a server, and limits of its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// The server.
    pub server: McpServerConfig,
    /// Time that the first model call of a session waits for a server whose tools are not cached.
    pub startup_timeout: Duration,
    /// Timeout of a call without progress. A call with progress may take ten times as long.
    pub tool_timeout: Duration,
    /// Tools to take, by their names on the server; all if absent.
    pub tools: Option<Vec<String>>,
    /// True if the user declared that its tools change no files of the project: files are not compared before and after
    /// calls.
    pub changes_no_files: bool,
    /// Settings of the login, for a server that wants one.
    pub oauth: OAuthSettings,
    /// Version of the protocol to use, for a server that does not negotiate, such as `2025-11-25`.
    pub protocol_version: Option<String>,
}

impl McpSettings {
    /// Returns the versions of the protocol that can be set, the oldest first.
    pub fn protocol_versions() -> impl Iterator<Item = &'static str> {
        // Older versions had another transport over HTTP.
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        known
            .filter(|version| **version >= ProtocolVersion::V_2025_03_26)
            .map(ProtocolVersion::as_str)
    }

    /// Returns the version of the protocol to use, if one is set and known.
    pub(crate) fn known_protocol_version(&self) -> Option<ProtocolVersion> {
        let wanted = self.protocol_version.as_deref()?;
        ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == wanted).cloned()
    }

    /// Returns the time limit of an attempt to connect.
    pub fn connect_limit(&self) -> Duration {
        self.startup_timeout.saturating_mul(PATIENCE)
    }

    /// Returns the login at the server; none for a server without a URL, without storage for logins, and where the user
    /// configured a header `Authorization` or a user in the URL.
    pub(crate) fn login(
        &self,
        context: &ConnectionContext,
        tasks: &TaskTracker,
    ) -> Option<ServerLogin> {
        let McpTransport::Http { url, headers } = &self.server.transport else { return None };
        let logins = context.logins.as_ref()?;
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let url = Url::parse(url).ok()?;
        if !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        let (storage, http) = (Arc::clone(&logins.storage), Arc::clone(&context.http));
        Some(ServerLogin::new(storage, http, url, self.oauth.clone(), tasks.clone()))
    }

    /// Returns the time limit of a call, with or without progress.
    pub(crate) fn call_limit(&self) -> Duration {
        self.tool_timeout.saturating_mul(MOST_SILENCES)
    }

    /// Returns true if calls may change files here. A server on another machine cannot.
    pub(crate) fn may_change_files(&self) -> bool {
        !self.changes_no_files && is_local(&self.server.transport)
    }
}

impl From<McpServerConfig> for McpSettings {
    fn from(server: McpServerConfig) -> Self {
        Self {
            server,
            startup_timeout: STARTUP,
            tool_timeout: SILENCE,
            tools: None,
            changes_no_files: false,
            oauth: OAuthSettings::default(),
            protocol_version: None,
        }
    }
}

/// The capabilities through which servers are reached from a session.
#[derive(Debug, Clone)]
pub struct ConnectionContext {
    /// Starts the servers that are programs.
    pub processes: Arc<dyn PipedProcesses>,
    /// Sends requests to the servers that speak HTTP.
    pub http: Arc<dyn Http>,
    /// Workspace roots of the session, the working directory first. Sent to servers that ask for them.
    pub roots: Vec<PathBuf>,
    /// Logins at servers that want one; `None` if they cannot be used.
    pub logins: Option<LoginAccess>,
    /// Browser of the user; `None` if there is no user whom a server could ask.
    pub browser: Option<Arc<dyn UserBrowser>>,
}

/// Returns true if a server runs on this machine, as far as its address shows.
fn is_local(transport: &McpTransport) -> bool {
    let url = match transport {
        McpTransport::Http { url, .. } => url,
        // A server of the client runs where the client does, possibly on the same files.
        McpTransport::Stdio { .. } | McpTransport::Client(_) => return true,
    };
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let local = host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        // A name without a dot belongs to the local network and may be this machine.
        || !host.contains(['.', ':']);
    local
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_server_on_another_machine_changes_no_files_here() {
        let at = |url: &str| {
            McpSettings::from(McpServerConfig {
                name: "x".to_owned(),
                transport: McpTransport::Http { url: url.to_owned(), headers: BTreeMap::new() },
            })
        };
        for near in [
            "http://localhost:3000/mcp",
            "http://127.0.0.1/mcp",
            "http://127.9.9.9:1",
            "http://[::1]:80/x",
            "http://user@localhost/x",
            "http://devbox/mcp",
            "http://0.0.0.0:1",
        ] {
            assert!(at(near).may_change_files(), "{near}");
        }
        for far in ["https://api.example.com/mcp", "http://10.0.0.1", "http://localhost@far.org/x"]
        {
            assert!(!at(far).may_change_files(), "{far}");
        }
    }
}
