//! Connects to a requested target: checks it against the rules, resolves it, and checks the addresses.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::HostRefusal,
    network::{AllowedHosts, is_public},
};
use futures_util::future;
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    proxy_error::ProxyError,
    request::{MalformedRequest, ProxyTarget},
};

/// Maximum number of addresses tried per host.
pub(super) const ADDRESSES: usize = 6;
/// Maximum number of simultaneous name look-ups: each needs a thread.
const LOOKUPS: usize = 16;
/// Delay between attempts at successive addresses, while the earlier ones have not answered.
const STAGGER: Duration = Duration::from_millis(250);

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Name resolution, replaceable in tests.
#[derive(Clone)]
pub(super) struct Resolver(Arc<dyn Fn(&ProxyTarget) -> LookupFuture + Send + Sync>);

/// Addresses at which a target may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AllowedAddresses {
    /// These addresses, which the user has named.
    Named(Vec<IpAddr>),
    /// Public addresses, found by name resolution.
    Public,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// Uses the system's resolver. Its look-ups cannot be interrupted: an abandoned one keeps its permit
    /// until it ends.
    pub(super) fn system() -> Self {
        let room = Arc::new(Semaphore::new(LOOKUPS));
        Self::new(move |target| {
            let (address, room) = ((target.host.clone(), target.port), Arc::clone(&room));
            Box::pin(async move {
                let permit = room.acquire_owned().await.map_err(io::Error::other)?;
                let look_up = move || {
                    let found = address.to_socket_addrs().map(Iterator::collect);
                    drop(permit);
                    found
                };
                tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
            })
        })
    }

    pub(super) fn new(find: impl Fn(&ProxyTarget) -> LookupFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

/// Decides about a target, before its name is resolved.
pub(super) fn decide(
    target: &ProxyTarget,
    allowed: &AllowedHosts,
) -> Result<AllowedAddresses, ProxyError> {
    let refuse = || ProxyError::host(target, HostRefusal::NotAllowed);
    let ProxyTarget { host, port } = target;
    let is_named = allowed.names(host, *port);
    if let Ok(address) = host.parse() {
        return if is_named {
            Ok(AllowedAddresses::Named(vec![IpAddr::V4(address)]))
        } else {
            Err(refuse())
        };
    }
    if is_number(host) {
        return Err(MalformedRequest("its target is an address in an unusual form").into());
    }
    if host == "localhost" {
        let addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return if is_named { Ok(AllowedAddresses::Named(addresses)) } else { Err(refuse()) };
    }
    if allowed.allows(host, *port) { Ok(AllowedAddresses::Public) } else { Err(refuse()) }
}

/// Returns true if the system's resolver may take a name for an address: `127.1`, `0x7f000001`,
/// `2130706433`.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").unwrap_or("-");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Connects to a permitted target. Resolves its name exactly once.
pub(super) async fn connect(
    target: &ProxyTarget,
    allowed: AllowedAddresses,
    resolver: &Resolver,
    limit: Duration,
) -> Result<TcpStream, ProxyError> {
    let work = async {
        let unreachable = |source| ProxyError::Unreachable { target: target.clone(), source };
        let addresses = match allowed {
            AllowedAddresses::Named(addresses) => {
                addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect()
            }
            AllowedAddresses::Public => {
                let found = resolver.0(target).await.map_err(unreachable)?;
                public(target, &found)?
            }
        };
        connect_to(&addresses).await.map_err(unreachable)
    };
    timeout(limit, work).await.unwrap_or_else(|_| Err(ProxyError::TimedOut(target.clone())))
}

/// Returns the public addresses among `found`, at most [`ADDRESSES`]. Fails if there are only others.
pub(super) fn public(
    target: &ProxyTarget,
    found: &[SocketAddr],
) -> Result<Vec<SocketAddr>, ProxyError> {
    let is_usable = |address: &&SocketAddr| is_public(address.ip());
    let public: Vec<_> = found.iter().filter(is_usable).take(ADDRESSES).copied().collect();
    if public.is_empty() && !found.is_empty() {
        return Err(ProxyError::host(target, HostRefusal::NotPublic));
    }
    Ok(public)
}

/// Connects to the address that answers first; attempts start one after the other, [`STAGGER`] apart.
async fn connect_to(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut delay = Duration::ZERO;
    let attempts: Vec<_> = addresses
        .iter()
        .map(|address| {
            let wait = delay;
            delay += STAGGER;
            Box::pin(async move {
                if !wait.is_zero() {
                    sleep(wait).await;
                }
                TcpStream::connect(address).await
            })
        })
        .collect();
    if attempts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    let (stream, _) = future::select_ok(attempts).await?;
    // Sends data without delay; works without this option, too.
    drop(stream.set_nodelay(true));
    Ok(stream)
}
