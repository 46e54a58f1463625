//! The proxy of a session: listening socket and limits.
//!
//! This serves all commands, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

use std::{ffi::OsString, io, net::TcpListener, sync::Arc, time::Duration};

use crow_core::network::AllowedHosts;
use tokio::{select, task::JoinSet, time::sleep};

use super::{
    connection,
    dial::Resolver,
    refused_hosts::{RefusalWindow, RefusedHosts},
};

/// Environment variables for the proxy's address. Some programs read only one of the forms; cargo prefers a
/// variable of its own, and git's settings, to the common ones.
const ADDRESS_VARIABLES: [&str; 7] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "CARGO_HTTP_PROXY",
];
/// Environment variables for hosts reached directly: servers that commands start themselves.
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
const DIRECT: &str = "localhost,127.0.0.1,::1";
/// Pause after a failed `accept`: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Proxy of a session. Its connections end when it is dropped.
#[derive(Debug)]
pub(in crate::sandbox) struct Proxy {
    port: u16,
    refused: Arc<RefusedHosts>,
    /// The accepting task, which owns the tasks of the connections.
    _tasks: JoinSet<()>,
}

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct ProxyContext {
    pub allowed: AllowedHosts,
    pub resolver: Resolver,
    pub refused: Arc<RefusedHosts>,
    pub bounds: ProxyLimits,
}

/// Limits of the proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProxyLimits {
    /// Maximum number of simultaneous connections; others wait.
    pub connections: usize,
    /// Time limit for receiving the head of a request.
    pub head: Duration,
    /// Time limit for resolving a host and connecting to it.
    pub connect: Duration,
    /// Time without any relayed byte after which a connection is closed.
    pub idle: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_mins(5),
        }
    }
}

impl Proxy {
    /// Starts the proxy on a socket in the commands' network. Must be called within a Tokio runtime.
    pub(in crate::sandbox) fn start(
        listener: TcpListener,
        allowed: AllowedHosts,
    ) -> io::Result<Self> {
        Self::with(listener, allowed, Resolver::system(), ProxyLimits::default())
    }

    pub(super) fn with(
        listener: TcpListener,
        allowed: AllowedHosts,
        resolver: Resolver,
        bounds: ProxyLimits,
    ) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let refused = Arc::<RefusedHosts>::default();
        let shared = ProxyContext { allowed, resolver, refused: Arc::clone(&refused), bounds };
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::new(shared)));
        Ok(Self { port, refused, _tasks: tasks })
    }

    /// Returns the environment variables by which commands find the proxy.
    pub(in crate::sandbox) fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let address = OsString::from(format!("http://127.0.0.1:{}", self.port));
        let addresses = ADDRESS_VARIABLES.into_iter().map(move |name| (name, address.clone()));
        addresses.chain(DIRECT_VARIABLES.map(|name| (name, DIRECT.into())))
    }

    /// Starts a new window of refusals.
    pub(in crate::sandbox) fn refused_from_now(&self) -> RefusalWindow {
        RefusalWindow::now(&self.refused)
    }
}

async fn serve(listener: tokio::net::TcpListener, shared: Arc<ProxyContext>) {
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < shared.bounds.connections;
        select! {
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection of the sandbox broke down");
                }
            }
            accepted = listener.accept(), if has_room => match accepted {
                Ok((client, _)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { connection::serve(client, &shared).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of the sandbox cannot be accepted");
                    sleep(PAUSE).await;
                }
            },
        }
    }
}
