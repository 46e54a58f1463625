//! The proxy of a session: what listens, and how much it does at once.

use std::{ffi::OsString, io, net::TcpListener, sync::Arc, time::Duration};

use tokio::{select, task::JoinSet, time::sleep};

use super::{
    super::hosts::AllowedHosts,
    connection,
    dial::Resolver,
    refused_hosts::{RefusalWindow, RefusedHosts},
};

/// Where programs look for a proxy. Some read only one of the forms; cargo prefers a setting of its own, and of git, to
/// the common ones.
const ADDRESS_VARIABLES: [&str; 7] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "CARGO_HTTP_PROXY",
];
/// Where they look for what is reached without it: the servers that commands start themselves.
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
const DIRECT: &str = "localhost,127.0.0.1,::1";
/// How long nothing is accepted when that has failed: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The proxy of a session. Its connections end with it.
#[derive(Debug)]
pub(in crate::sandbox) struct Proxy {
    port: u16,
    refused: Arc<RefusedHosts>,
    /// Those of the connections belong to the one task in it.
    _tasks: JoinSet<()>,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct ProxyContext {
    pub allowed: AllowedHosts,
    pub resolver: Resolver,
    pub refused: Arc<RefusedHosts>,
    pub bounds: ProxyLimits,
}

/// How much, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProxyLimits {
    /// How many connections there are at once; others wait.
    pub connections: usize,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long it may take to find a host and to connect to it.
    pub connect: Duration,
    /// How long nothing may move.
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
    /// Lets commands reach these hosts through what listens in their network. Must be called within a runtime.
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

    /// Returns what a command must know to find it.
    pub(in crate::sandbox) fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let address = OsString::from(format!("http://127.0.0.1:{}", self.port));
        let addresses = ADDRESS_VARIABLES.into_iter().map(move |name| (name, address.clone()));
        addresses.chain(DIRECT_VARIABLES.map(|name| (name, DIRECT.into())))
    }

    /// Begins to note what is refused.
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
