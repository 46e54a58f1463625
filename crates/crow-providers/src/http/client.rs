//! The client that all providers of a process share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::sync::OnceCell;

use super::Proxies;

/// Below the ten seconds after which a dead address must be given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(9);
/// Idle time after which a pooled connection is closed. It outlives a long tool call; a server that closes it earlier
/// costs a reconnect.
const KEPT: Duration = Duration::from_mins(5);

/// The HTTP client of a process. Clones share its connections.
///
/// Creating one does no work: TLS is set up, and the system's certificates are read, at the first request to an `https`
/// address. An `http` address needs neither.
#[derive(Clone)]
pub struct HttpClient(Arc<HttpClientState>);

struct HttpClientState {
    proxies: Proxies,
    connect_timeout: Duration,
    plain: OnceLock<Client>,
    secure: OnceCell<Client>,
}

/// Error of setting up the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("set up the HTTP client: {reason}")]
pub struct HttpClientError {
    reason: String,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new(Proxies::default())
    }
}

impl HttpClient {
    /// Creates a client that uses `proxies`.
    pub fn new(proxies: Proxies) -> Self {
        Self::with_connect_timeout(proxies, CONNECT_TIMEOUT)
    }

    /// Creates a client with this timeout for connecting.
    pub fn with_connect_timeout(proxies: Proxies, connect_timeout: Duration) -> Self {
        let (plain, secure) = (OnceLock::new(), OnceCell::new());
        Self(Arc::new(HttpClientState { proxies, connect_timeout, plain, secure }))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.0.connect_timeout
    }

    /// Returns the client for the scheme of an address; it is made at the first use.
    pub(crate) async fn for_url(&self, url: &Url) -> Result<Client, HttpClientError> {
        if url.scheme() == "https" {
            let proxies = self.0.proxies.clone();
            let connect_timeout = self.0.connect_timeout;
            // Blocks: it reads the certificates from disk.
            let make = || async move {
                let task = tokio::task::spawn_blocking(move || secure(&proxies, connect_timeout));
                task.await.map_err(|error| HttpClientError { reason: error.to_string() })?
            };
            return self.0.secure.get_or_try_init(make).await.cloned();
        }
        if let Some(client) = self.0.plain.get() {
            return Ok(client.clone());
        }
        let client = plain(&self.0.proxies, self.0.connect_timeout)?;
        Ok(self.0.plain.get_or_init(|| client).clone())
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

fn builder(proxies: &Proxies, timeout: Duration) -> Result<ClientBuilder, HttpClientError> {
    // Only the binary reads the environment.
    let mut builder = Client::builder()
        .no_proxy()
        .user_agent(concat!("crow-agent/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .pool_idle_timeout(KEPT);
    for proxy in proxies.to_reqwest().map_err(failed)? {
        builder = builder.proxy(proxy);
    }
    Ok(builder)
}

/// Makes the client for `http` addresses without reading certificates. Its proxy must be an `http` one, too.
fn plain(proxies: &Proxies, timeout: Duration) -> Result<Client, HttpClientError> {
    install_crypto();
    let proxies = Proxies { https: None, ..proxies.clone() };
    builder(&proxies, timeout)?.tls_certs_only([]).build().map_err(failed)
}

fn secure(proxies: &Proxies, timeout: Duration) -> Result<Client, HttpClientError> {
    install_crypto();
    // Fails if the system has no certificates.
    if let Ok(client) = builder(proxies, timeout)?.build() {
        return Ok(client);
    }
    with_bundled_roots(builder(proxies, timeout)?)
}

fn with_bundled_roots(builder: ClientBuilder) -> Result<Client, HttpClientError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    builder.tls_backend_preconfigured(tls).build().map_err(failed)
}

/// Installs the process-wide crypto provider, without which building a client panics.
fn install_crypto() {
    // An error means that one is installed already, which is fine.
    drop(ring::default_provider().install_default());
}

#[expect(clippy::needless_pass_by_value, reason = "is passed to map_err")]
fn failed(error: reqwest::Error) -> HttpClientError {
    HttpClientError { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_certificates_replace_missing_ones_of_the_system() {
        install_crypto();
        let builder = builder(&Proxies::default(), CONNECT_TIMEOUT).unwrap();
        assert!(with_bundled_roots(builder).is_ok());
    }

    #[test]
    fn an_invalid_proxy_address_is_refused() {
        let proxies = Proxies { http: Some("http://[".to_owned()), ..Proxies::default() };
        assert!(plain(&proxies, CONNECT_TIMEOUT).is_err());
    }

    #[tokio::test]
    async fn nothing_is_set_up_before_it_is_needed() {
        let client = HttpClient::default();
        assert!(client.0.plain.get().is_none() && client.0.secure.get().is_none());
        client.for_url(&Url::parse("http://a.test").unwrap()).await.unwrap();
        assert!(client.0.plain.get().is_some() && client.0.secure.get().is_none());
    }
}
