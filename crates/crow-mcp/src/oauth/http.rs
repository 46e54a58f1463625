//! The HTTP requests of a login: discovery, registration and tokens.

use std::{fmt, sync::Arc, time::Duration};

use crow_core::capability::{Http, HttpMethod, HttpReach, HttpRequest};
use futures_util::StreamExt as _;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use tokio::time::timeout;
use url::{Host, Url};

/// Maximum size of a body in bytes.
const LARGEST_BODY: usize = 1024 * 1024;
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
}

impl OAuthHttp {
    pub(super) fn new(http: Arc<dyn Http>, server: Url, may_be_private: bool) -> Self {
        let reach =
            if may_be_private || is_nearby(&server) { HttpReach::Any } else { HttpReach::Public };
        Self { http, server, reach }
    }

    /// Returns the body of a page with JSON; none if there is no such page.
    pub(super) async fn get(&self, url: &Url) -> Option<Vec<u8>> {
        let request = ::http::Request::get(url.as_str()).header("accept", "application/json");
        let answer = self.exchange(request.body(Vec::new()).ok()?, LIMIT).await.ok()?;
        answer.status().is_success().then(|| answer.into_body())
    }

    async fn exchange(
        &self,
        request: ::http::Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<::http::Response<Vec<u8>>, OAuthHttpClientError> {
        let (head, body) = request.into_parts();
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
            let answer = self.http.send(request).await?;
            let mut response = ::http::Response::builder().status(answer.status);
            for (name, value) in &answer.headers {
                response = response.header(name, value);
            }
            let (mut chunks, mut body) = (answer.body, Vec::new());
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
