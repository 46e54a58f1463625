//! The HTTP requests of a login: discovery, registration and tokens.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crow_core::capability::{Http, HttpError, HttpMethod, HttpReach, HttpRequest};
use futures_util::StreamExt as _;
use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture,
    OAuthHttpRequest,
};
use tokio::time::timeout;
use url::{Host, Url};

use super::client_key::ClientKey;
use crate::text;

/// The form of assertions that are signed tokens, in RFC 7523.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Maximum size of a body in bytes.
const LARGEST_BODY: usize = 1024 * 1024;
/// Maximum number of requests of one login.
const MOST_REQUESTS: usize = 40;
/// Time limit of a request, including its body.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends the requests of a login through the HTTP client of the process.
///
/// The user configured the server, but the server names the hosts of its authorization. A server on the internet
/// therefore cannot direct requests to addresses that are not public, unless the user permits it. No redirect is
/// followed: the library follows those of discovery itself, within the origin, and a redirect of a registration or a
/// token request could send secrets elsewhere.
pub(super) struct OAuthHttp {
    http: Arc<dyn Http>,
    server: Url,
    reach: HttpReach,
    /// Authentication by a key, once the authorization server is known.
    client_authentication: OnceLock<KeyAuthentication>,
    /// Number of requests sent.
    sent: AtomicUsize,
    /// Error of the last request that failed.
    last_error: Mutex<Option<String>>,
}

impl OAuthHttp {
    pub(super) fn new(http: Arc<dyn Http>, server: Url, may_be_private: bool) -> Self {
        let reach =
            if may_be_private || is_nearby(&server) { HttpReach::Any } else { HttpReach::Public };
        Self {
            http,
            server,
            reach,
            client_authentication: OnceLock::new(),
            sent: AtomicUsize::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Authenticates requests for tokens by a key from now on.
    pub(super) fn authenticate_by_key(&self, authentication: KeyAuthentication) {
        drop(self.client_authentication.set(authentication));
    }

    /// Returns the body of a page with JSON; none if there is no such page.
    pub(super) async fn get(&self, url: &Url) -> Option<Vec<u8>> {
        let request = ::http::Request::get(url.as_str()).header("accept", "application/json");
        let answer = self.exchange(request.body(Vec::new()).ok()?, LIMIT).await.ok()?;
        answer.status().is_success().then(|| answer.into_body())
    }

    /// Returns the text of an error of the library, with that of the request that caused it, on one line.
    pub(super) fn describe(&self, error: &AuthError) -> String {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last.filter(|last| !text.contains(last.as_str())) {
            text = format!("{text}: {last}");
        }
        text::one_line(&text, 500)
    }

    async fn exchange(
        &self,
        request: ::http::Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<::http::Response<Vec<u8>>, OAuthHttpClientError> {
        let exchanged = self.exchange_once(request, limit).await;
        if let Err(error) = &exchanged {
            let text = error.to_string();
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        exchanged
    }

    async fn exchange_once(
        &self,
        request: ::http::Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<::http::Response<Vec<u8>>, OAuthHttpClientError> {
        if self.sent.fetch_add(1, Ordering::Relaxed) >= MOST_REQUESTS {
            return Err(format!("the login took more than {MOST_REQUESTS} requests").into());
        }
        let (mut head, mut body) = request.into_parts();
        if let Some(authentication) = self.client_authentication.get()
            && head.method == ::http::Method::POST
            && authentication.is_for(&head.uri.to_string())
        {
            head.headers.remove(::http::header::AUTHORIZATION);
            body = authentication.form(&body);
        }
        let method = match head.method {
            ::http::Method::GET => HttpMethod::Get,
            ::http::Method::POST => HttpMethod::Post,
            other => return Err(format!("unexpected method {other}").into()),
        };
        let url = head.uri.to_string();
        let headers = head.headers.iter().map(|(name, value)| {
            Ok((name.to_string(), value.to_str().map_err(|error| error.to_string())?.to_owned()))
        });
        let headers = headers.collect::<Result<Vec<_>, String>>()?;
        let reach = self.reach(&url);
        let exchange = async {
            let request = HttpRequest { method, url, headers, body, reach };
            let answer = self.http.send(request).await.map_err(|error| match error {
                HttpError::NotPublic(_) => {
                    format!("{error}; `oauth.private_network = true` of the server permits it")
                }
                error => error.to_string(),
            })?;
            let mut response = ::http::Response::builder().status(answer.status);
            for (name, value) in &answer.headers {
                response = response.header(name, value);
            }
            let is_events = |(name, value): &(String, String)| {
                name.eq_ignore_ascii_case("content-type") && value.starts_with("text/event-stream")
            };
            let (mut chunks, mut body) = (answer.body, Vec::new());
            if answer.headers.iter().any(is_events) {
                // It may never end, and is no answer to a login.
                return Ok(response.body(body)?);
            }
            while let Some(bytes) = chunks.next().await {
                let bytes = bytes?;
                if body.len() + bytes.len() > LARGEST_BODY {
                    return Err(format!("the answer has more than {LARGEST_BODY} bytes").into());
                }
                body.extend_from_slice(&bytes);
            }
            Ok(response.body(body)?)
        };
        let late = || format!("no answer within {} s", limit.as_secs());
        timeout(limit, exchange).await.unwrap_or_else(|_| Err(late().into()))
    }

    fn reach(&self, url: &str) -> HttpReach {
        let is_of_server = Url::parse(url).is_ok_and(|url| url.origin() == self.server.origin());
        if is_of_server { HttpReach::Any } else { self.reach }
    }
}

/// Authentication of Crow by a signed assertion in requests for tokens.
///
/// The library knows only secrets. What it puts into a request is therefore replaced on the way.
pub(super) struct KeyAuthentication {
    key: ClientKey,
    client_id: String,
    token_endpoint: Option<Url>,
    audience: String,
}

impl KeyAuthentication {
    /// Makes the authentication of a client at an authorization server. The audience of assertions is the server's issuer
    /// identifier, or the address for tokens of a server without one.
    pub(super) fn new(key: ClientKey, client_id: &str, metadata: &AuthorizationMetadata) -> Self {
        let endpoint = &metadata.token_endpoint;
        let audience = metadata.issuer.clone().unwrap_or_else(|| endpoint.clone());
        let token_endpoint = Url::parse(endpoint).ok();
        Self { key, client_id: client_id.to_owned(), token_endpoint, audience }
    }

    /// Returns true for the address of requests for tokens, however it is written.
    fn is_for(&self, address: &str) -> bool {
        self.token_endpoint.is_some() && Url::parse(address).ok() == self.token_endpoint
    }

    /// Returns the form of a request with a new assertion in place of a secret.
    fn form(&self, body: &[u8]) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let fields = url::form_urlencoded::parse(body).filter(|(name, _)| name != "client_secret");
        let assertion = self.key.assertion(&self.client_id, &self.audience, now);
        url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .append_pair("client_assertion_type", ASSERTION_TYPE)
            .append_pair("client_assertion", &assertion)
            .finish()
            .into_bytes()
    }
}

impl fmt::Debug for OAuthHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthHttp").field("server", &self.server.as_str()).finish_non_exhaustive()
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let limit = request.timeout.unwrap_or(LIMIT).min(LIMIT);
        Box::pin(self.exchange(request.request, limit))
    }
}

/// Returns true if a URL names, by its text, a host of this machine or of a network around it.
fn is_nearby(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => !crow_core::network::is_public(address.into()),
        Some(Host::Ipv6(address)) => !crow_core::network::is_public(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let is_local = |suffix: &str| name.ends_with(suffix);
            !name.contains('.')
                || [".localhost", ".local", ".internal", ".lan", ".home.arpa"]
                    .iter()
                    .any(|s| is_local(s))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_of_the_neighbourhood_may_name_private_addresses() {
        for (url, expected) in [
            ("http://localhost:1/mcp", true),
            ("http://127.0.0.1/mcp", true),
            ("http://[::1]/mcp", true),
            ("http://10.1.2.3/mcp", true),
            ("https://git.internal/mcp", true),
            ("https://devbox/mcp", true),
            ("https://mcp.example.com/mcp", false),
            ("https://93.184.216.34/mcp", false),
            ("https://localhost.example.com/", false),
        ] {
            assert_eq!(is_nearby(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
