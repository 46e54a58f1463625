//! The client that all providers of a process share, its proxies, and requests other than those to models.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::capability::{Http, HttpError, HttpMethod, HttpReach, HttpRequest, HttpResponse};
use futures_util::StreamExt as _;
use reqwest::{
    Client, ClientBuilder, Method, NoProxy, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::sync::OnceCell;

use super::{
    WireLog,
    public_hosts::{self, PublicResolver},
};

/// Below the ten seconds after which a dead address must be given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(9);
/// Idle time after which a pooled connection is closed. It outlives a long tool call; a server that closes it earlier
/// costs a reconnect.
const KEPT: Duration = Duration::from_mins(5);

/// Hosts that never use a proxy: it could not reach a server on this machine.
const LOOPBACK: &str = "localhost,127.0.0.1,::1";

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
    /// Connects to public addresses only.
    public: OnceCell<Client>,
    wire_log: OnceLock<Arc<dyn WireLog>>,
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
        Self(Arc::new(HttpClientState {
            proxies,
            connect_timeout,
            plain: OnceLock::new(),
            secure: OnceCell::new(),
            public: OnceCell::new(),
            wire_log: OnceLock::new(),
        }))
    }

    /// Records what this client and its clones send to model providers, and what comes back, from here on. Only the first
    /// log counts.
    pub fn start_wire_log(&self, log: Arc<dyn WireLog>) {
        // An error means that there is one.
        drop(self.0.wire_log.set(log));
    }

    pub(super) fn wire_log(&self) -> Option<Arc<dyn WireLog>> {
        self.0.wire_log.get().cloned()
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

    /// Returns the client for hosts of the internet alone; it is made at the first use. It has connections of its own: one
    /// that another request opened may lead to a private address.
    async fn for_public(&self) -> Result<Client, HttpClientError> {
        let (proxies, connect_timeout) = (self.0.proxies.clone(), self.0.connect_timeout);
        let make = || async move {
            let task = tokio::task::spawn_blocking(move || public(&proxies, connect_timeout));
            task.await.map_err(|error| HttpClientError { reason: error.to_string() })?
        };
        self.0.public.get_or_try_init(make).await.cloned()
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// Addresses of proxies, as in the usual environment variables. They may contain a password and are not shown by
/// `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Proxy for `http` addresses.
    pub http: Option<String>,
    /// Proxy for `https` addresses.
    pub https: Option<String>,
    /// Hosts that use no proxy, separated by commas.
    pub exceptions: Option<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("exceptions", &self.exceptions)
            .finish()
    }
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; the same names in lower case take precedence.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let find = |name: &str| {
            lookup(&name.to_ascii_lowercase())
                .or_else(|| lookup(name))
                .filter(|value| !value.trim().is_empty())
        };
        let all = find("ALL_PROXY");
        Self {
            http: find("HTTP_PROXY").or_else(|| all.clone()),
            https: find("HTTPS_PROXY").or(all),
            exceptions: find("NO_PROXY"),
        }
    }

    /// Converts to the proxies of the HTTP library.
    fn to_reqwest(&self) -> Result<Vec<reqwest::Proxy>, reqwest::Error> {
        let exceptions = match &self.exceptions {
            Some(hosts) => format!("{LOOPBACK},{hosts}"),
            None => LOOPBACK.to_owned(),
        };
        let http = self.http.as_ref().map(reqwest::Proxy::http);
        let https = self.https.as_ref().map(reqwest::Proxy::https);
        let exempt = |proxy: reqwest::Proxy| proxy.no_proxy(NoProxy::from_string(&exceptions));
        http.into_iter().chain(https).map(|proxy| proxy.map(exempt)).collect()
    }
}

#[async_trait]
impl Http for HttpClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest { method, url, headers, body, reach } = request;
        let url = address(&url)?;
        let client = match reach {
            HttpReach::Any => self.for_url(&url).await,
            HttpReach::Public => {
                public_hosts::check(&url, &self.0.proxies).await?;
                self.for_public().await
            }
        };
        let client = client.map_err(|error| HttpError::Request(error.to_string()))?;
        let method = match method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
            HttpMethod::Delete => Method::DELETE,
        };
        let mut request = client.request(method, url).headers(header_map(&headers)?);
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.send().await.map_err(|error| match reach {
            HttpReach::Public => public_hosts::refusal(&error).unwrap_or_else(|| http_error(error)),
            HttpReach::Any => http_error(error),
        })?;
        let texts = response.headers().iter();
        let headers = texts
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let status = response.status().as_u16();
        let body = response.bytes_stream().map(|piece| match piece {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(http_error(error)),
        });
        Ok(HttpResponse { status, headers, body: Box::pin(body) })
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
    with_certificates(|| builder(proxies, timeout))
}

/// Makes the client that connects to public addresses, and to its proxies.
fn public(proxies: &Proxies, timeout: Duration) -> Result<Client, HttpClientError> {
    let resolver = Arc::new(PublicResolver::new(proxies));
    with_certificates(|| Ok(builder(proxies, timeout)?.dns_resolver(Arc::clone(&resolver))))
}

fn with_certificates(
    builder: impl Fn() -> Result<ClientBuilder, HttpClientError>,
) -> Result<Client, HttpClientError> {
    install_crypto();
    // Fails if the system has no certificates.
    if let Ok(client) = builder()?.build() {
        return Ok(client);
    }
    with_bundled_roots(builder()?)
}

fn with_bundled_roots(builder: ClientBuilder) -> Result<Client, HttpClientError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
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

fn address(text: &str) -> Result<Url, HttpError> {
    let invalid = |why: &str| HttpError::Request(format!("its address {why}"));
    let url = Url::parse(text).map_err(|error| invalid(&format!("is invalid: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(invalid("begins with neither http:// nor https://")),
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        // The value may be a secret.
        let invalid = || HttpError::Request(format!("the header {name} cannot be sent"));
        let name = name.parse::<HeaderName>().map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// Describes a failure with its causes, without the address, which may contain a secret.
fn http_error(error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    if error.is_connect() {
        HttpError::Connect(text)
    } else if error.is_builder() {
        HttpError::Request(text)
    } else {
        HttpError::Broken(text)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

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

    #[test]
    fn the_usual_variables_are_read() {
        for (variables, expected) in [
            (vec![], Proxies::default()),
            (
                vec![
                    ("https_proxy", "http://a:1"),
                    ("HTTPS_PROXY", "http://b:1"),
                    ("NO_PROXY", "x"),
                ],
                Proxies {
                    http: None,
                    https: Some("http://a:1".to_owned()),
                    exceptions: Some("x".to_owned()),
                },
            ),
            (
                vec![("ALL_PROXY", "http://c:1"), ("HTTP_PROXY", " ")],
                Proxies {
                    http: Some("http://c:1".to_owned()),
                    https: Some("http://c:1".to_owned()),
                    exceptions: None,
                },
            ),
        ] {
            let lookup = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Proxies::from_lookup(lookup), expected);
        }
    }

    fn request(url: String) -> HttpRequest {
        let headers = vec![("x-key".to_owned(), "hunter2".to_owned())];
        HttpRequest {
            method: HttpMethod::Post,
            url,
            headers,
            body: b"hello".to_vec(),
            reach: HttpReach::Any,
        }
    }

    #[tokio::test]
    async fn the_body_of_an_answer_is_streamed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"hello") {
                stream.read_buf(&mut seen).await.unwrap();
            }
            let head =
                b"HTTP/1.1 418 Teapot\r\nX-A: b\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
            stream.write_all(head).await.unwrap();
            (String::from_utf8(seen).unwrap().to_ascii_lowercase(), stream)
        };
        let ask = async {
            let client = HttpClient::default();
            let mut answer = client.send(request(format!("http://{address}/x"))).await.unwrap();
            assert_eq!(answer.status, 418);
            assert!(answer.headers.contains(&("x-a".to_owned(), "b".to_owned())));
            // The second piece has not been sent yet.
            assert_eq!(answer.body.next().await.unwrap().unwrap(), b"one");
            answer
        };
        let ((seen, stream), mut answer) = tokio::join!(serve, ask);
        assert!(seen.starts_with("post /x http/1.1") && seen.contains("x-key: hunter2"), "{seen}");
        drop(stream);
        assert!(matches!(answer.body.next().await, Some(Err(HttpError::Broken(_)))));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_a_connect_error_without_secrets() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/?token=hunter2");
        let error = HttpClient::default().send(request(url)).await.unwrap_err();
        assert!(matches!(error, HttpError::Connect(_)), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn an_invalid_request_is_refused_without_showing_values() {
        for url in ["ftp://a", "nothing"] {
            let error = HttpClient::default().send(request(url.to_owned())).await.unwrap_err();
            assert!(matches!(error, HttpError::Request(_)), "{error}");
        }
        let headers = vec![("a".to_owned(), "hunter2\n".to_owned())];
        let request = HttpRequest { headers, ..request("http://127.0.0.1:1".to_owned()) };
        let error = HttpClient::default().send(request).await.unwrap_err();
        assert_eq!(error, HttpError::Request("the header a cannot be sent".to_owned()));
    }
}
