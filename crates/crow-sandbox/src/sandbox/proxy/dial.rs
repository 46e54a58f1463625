//! From what is asked for to a connection: what is allowed, where it is, and whether it may be there.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use crow_core::capability::HostRefusal;
use futures_util::future;
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    super::hosts::AllowedHosts,
    address::is_public,
    proxy_error::ProxyError,
    request::{MalformedRequest, ProxyTarget},
};

/// How many addresses of a host are tried.
pub(super) const ADDRESSES: usize = 6;
/// How many names are looked up at once: each takes a thread of the program.
const LOOKUPS: usize = 16;
/// How much later the next address is tried, while the one before has not answered.
const STAGGER: Duration = Duration::from_millis(250);

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Finds the addresses of a name.
#[derive(Clone)]
pub(super) struct Resolver(Arc<dyn Fn(&ProxyTarget) -> LookupFuture + Send + Sync>);

/// Where a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AllowedAddresses {
    /// At these addresses, which the user has named.
    Named(Vec<IpAddr>),
    /// At public addresses, which are to be found.
    Public,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// Asks the system, which cannot be interrupted: what is given up goes on, and is counted until it ends.
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

/// Decides about a target, before anybody is asked where it is.
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

/// Returns whether the system may take a name for an address: `127.1`, `0x7f000001`, `2130706433`.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").unwrap_or("-");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Connects to a target that was decided about. Its name is resolved once.
pub(super) async fn connect(
    target: &ProxyTarget,
    place: AllowedAddresses,
    resolver: &Resolver,
    limit: Duration,
) -> Result<TcpStream, ProxyError> {
    let work = async {
        let unreachable = |source| ProxyError::Unreachable { target: target.clone(), source };
        let addresses = match place {
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

/// Returns the public ones of the addresses that were found.
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

/// Connects to whichever of the addresses answers first; the earlier ones get a start.
async fn connect_to(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut late = Duration::ZERO;
    let attempts: Vec<_> = addresses
        .iter()
        .map(|address| {
            let wait = late;
            late += STAGGER;
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
    // What is written should go at once; where that cannot be had, it goes all the same.
    drop(stream.set_nodelay(true));
    Ok(stream)
}
