//! Requests that may go to public addresses only: a page of the web must not make the program ask the router, a server
//! of this machine or the metadata of a cloud.
//!
//! A name is resolved once, by the resolver of the client's own connections, so that it cannot mean another address
//! when it is connected to. An address in a URL never reaches the resolver, and is checked before. Behind a proxy the proxy
//! resolves: then the name is checked here first, as far as it can be resolved here.

use std::{error::Error, fmt, net::SocketAddr};

use crow_core::{capability::HttpError, network::is_public};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use super::client::Proxies;

/// Resolves names to public addresses. Hosts of proxies may have any: the user chose them.
#[derive(Debug)]
pub(super) struct PublicResolver {
    proxies: Vec<String>,
}

/// A name has an address that is not public.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NotPublicError {
    host: String,
}

impl fmt::Display for NotPublicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no host of the internet", self.host)
    }
}

impl Error for NotPublicError {}

impl PublicResolver {
    pub(super) fn new(proxies: &Proxies) -> Self {
        let proxies = proxies.http.iter().chain(&proxies.https);
        let hosts = proxies.filter_map(|address| host_of(address));
        Self { proxies: hosts.collect() }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(&host));
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            // If one of several addresses is not public, the name is a trap or a mistake.
            if !is_proxy && !found.iter().all(|address| is_public(address.ip())) {
                return Err(NotPublicError { host }.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Checks the host of a URL, as far as the resolver of the connection does not.
pub(super) async fn check(url: &Url, proxies: &Proxies) -> Result<(), HttpError> {
    let not_public = |host: &str| HttpError::NotPublic(host.to_owned());
    let name = match url.host() {
        Some(url::Host::Ipv4(address)) if is_public(address.into()) => return Ok(()),
        Some(url::Host::Ipv6(address)) if is_public(address.into()) => return Ok(()),
        Some(url::Host::Domain(name)) => name,
        Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | None => {
            return Err(not_public(url.host_str().unwrap_or_default()));
        }
    };
    if proxies.http.is_none() && proxies.https.is_none() {
        return Ok(());
    }
    match tokio::net::lookup_host((name, 0)).await {
        Ok(mut found) => {
            let is_hidden = found.any(|address| !is_public(address.ip()));
            if is_hidden { Err(not_public(name)) } else { Ok(()) }
        }
        // Behind some proxies no name can be resolved.
        Err(error) => {
            tracing::debug!(host = name, %error, "the proxy alone resolves the name");
            Ok(())
        }
    }
}

/// Returns the refusal of the resolver, if that is why a request failed.
pub(super) fn refusal(error: &reqwest::Error) -> Option<HttpError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(NotPublicError { host }) = error.downcast_ref() {
            return Some(HttpError::NotPublic(host.clone()));
        }
        cause = error.source();
    }
    None
}

fn host_of(address: &str) -> Option<String> {
    // Without a scheme, `proxy.test:3128` is read as one.
    let with_host = |url: Url| url.host_str().map(str::to_owned);
    let whole = Url::parse(address).ok().and_then(with_host);
    whole.or_else(|| Url::parse(&format!("http://{address}")).ok().and_then(with_host))
}

#[cfg(test)]
mod tests {
    use crow_core::capability::{Http as _, HttpMethod, HttpReach, HttpRequest};
    use tokio::net::TcpListener;

    use super::*;
    use crate::HttpClient;

    #[test]
    fn the_host_of_a_proxy_is_found_with_and_without_a_scheme() {
        for (address, host) in [
            ("http://proxy.test:3128", "proxy.test"),
            ("proxy.test:3128", "proxy.test"),
            ("localhost:3128", "localhost"),
            ("http://user:key@10.0.0.1:8080/", "10.0.0.1"),
        ] {
            assert_eq!(host_of(address).as_deref(), Some(host), "{address}");
        }
    }

    #[tokio::test]
    async fn a_request_for_the_internet_reaches_no_private_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients = [
            HttpClient::default(),
            // Behind a proxy the name is checked before the proxy is asked.
            HttpClient::new(Proxies {
                http: Some(format!("http://127.0.0.1:{port}")),
                ..Proxies::default()
            }),
        ];
        for client in clients {
            for host in [
                "127.0.0.1",
                "localhost",
                "[::1]",
                "169.254.169.254",
                "0.0.0.0",
                "[::ffff:10.0.0.1]",
            ] {
                let request = HttpRequest {
                    method: HttpMethod::Get,
                    url: format!("http://{host}:{port}/"),
                    headers: Vec::new(),
                    body: Vec::new(),
                    reach: HttpReach::Public,
                };
                let error = client.send(request).await.unwrap_err();
                assert!(matches!(error, HttpError::NotPublic(_)), "{host}: {error}");
            }
        }
        let connected = std::pin::pin!(listener.accept());
        assert!(
            futures_util::FutureExt::now_or_never(connected).is_none(),
            "nothing was connected"
        );
    }
}
