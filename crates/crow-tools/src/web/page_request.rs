//! Requests for pages: addresses that may be asked for, redirects, and limits of time and length.

use std::{sync::Arc, time::Duration};

use crow_core::{
    capability::{Http, HttpError, HttpMethod, HttpReach, HttpRequest, HttpResponse},
    network::{HostAddress, Network, is_public},
};
use crow_text::shorten;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Maximum length of an address in bytes.
pub(super) const ADDRESS_BYTES: usize = 2_000;
/// Bytes of an address that an error shows.
const ADDRESS_SHOWN: usize = 200;
/// Maximum bytes of a body that are read.
pub(super) const BODY_BYTES: usize = 5 << 20;
/// Maximum number of redirects that are followed.
const REDIRECTS: usize = 5;
/// Time for the whole request, redirects and body included.
const TIME: Duration = Duration::from_secs(30);
/// Media types in the order in which they are preferred.
const ACCEPT: &str =
    "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5";

/// An address that a web tool may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageAddress {
    pub(super) url: Url,
    pub(super) host: HostAddress,
}

impl PageAddress {
    /// Parses an address. The error text is for the model.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // As people write it: `docs.rs/serde`, `example.org:8080`.
        let whole = if has_scheme(text) {
            text.to_owned()
        } else {
            let is_local =
                text.starts_with("localhost") || text.starts_with(|c: char| c.is_ascii_digit());
            format!("{}://{text}", if is_local { "http" } else { "https" })
        };
        let url = Url::parse(&whole).map_err(|error| {
            format!("`{}` is not an address of the web: {error}", shorten(text, ADDRESS_SHOWN))
        })?;
        Self::of_url(url)
    }

    fn of_url(mut url: Url) -> Result<Self, String> {
        if url.as_str().len() > ADDRESS_BYTES {
            return Err(format!("the address has more than {ADDRESS_BYTES} bytes"));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "the address begins with {}:, only http and https can be read",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address has a user name or password, which is never sent".to_owned());
        }
        // It is not sent, and the same page has many.
        url.set_fragment(None);
        let name = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(_)) => {
                return Err("addresses of IP version 6 cannot be read, only host names".to_owned());
            }
            None => return Err("the address names no host".to_owned()),
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let host = HostAddress::new(&name, port).map_err(|error| error.to_string())?;
        Ok(Self { url, host })
    }

    /// Returns true if a redirect from here to `next` needs no permission of its own: the same host and port, or from http
    /// to https of the same name.
    fn keeps_host(&self, next: &Self) -> bool {
        let is_same = self.host == next.host && self.url.scheme() == next.url.scheme();
        let is_upgrade = self.url.scheme() == "http"
            && next.url.scheme() == "https"
            && (self.host.port(), next.host.port()) == (80, 443)
            && self.host.name() == next.host.name();
        is_same || is_upgrade
    }

    /// Returns true if the host is an address of its own or `localhost`, and no name that is resolved.
    fn is_literal(&self) -> bool {
        matches!(self.url.host(), Some(Host::Ipv4(_))) || self.host.name() == "localhost"
    }

    /// Returns true if the user named this very address, or `localhost`, with its port. A name that is resolved may lead
    /// elsewhere tomorrow, so it is never exempt.
    pub(super) fn is_named_in(&self, network: &Network) -> bool {
        self.is_literal() && network.names(&self.host)
    }

    /// Returns true if the address can only be a private one.
    pub(super) fn is_private(&self) -> bool {
        match self.url.host() {
            Some(Host::Ipv4(address)) => !is_public(address.into()),
            Some(Host::Domain(_) | Host::Ipv6(_)) | None => self.is_literal(),
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum PageAnswer {
    /// A body.
    Body(PageBody),
    /// The page is at another host, which needs a permission of its own.
    MovedTo(Url),
}

/// Response body with the metadata of its headers.
#[derive(Debug)]
pub(super) struct PageBody {
    pub(super) url: Url,
    pub(super) status: u16,
    /// The media type with its parameters; empty if there is none.
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// True if there was more.
    pub(super) is_cut: bool,
    /// True if it may be shown again later without asking for it.
    pub(super) may_be_kept: bool,
}

/// Asks for pages.
#[derive(Debug, Clone)]
pub(super) struct PageRequester {
    pub(super) http: Arc<dyn Http>,
    /// The network of the session. Only hosts that the user named may have private addresses.
    pub(super) network: Network,
}

impl PageRequester {
    /// Reads a page. The error text is for the model.
    pub(super) async fn get(&self, address: PageAddress) -> Result<PageAnswer, String> {
        let deadline = Instant::now() + TIME;
        let late = |_| format!("no complete answer within {} s", TIME.as_secs());
        let mut address = address;
        for _ in 0..=REDIRECTS {
            let response = timeout_at(deadline, self.send(&address)).await.map_err(late)??;
            if let Some(location) = redirect(&response) {
                // The Location header is untrusted text, so the error does not contain it.
                let next = address.url.join(location).ok().map(PageAddress::of_url);
                let Some(Ok(next)) = next else {
                    return Err("the page redirects to an address that cannot be read".to_owned());
                };
                if !address.keeps_host(&next) {
                    return Ok(PageAnswer::MovedTo(next.url));
                }
                address = next;
                continue;
            }
            let body = timeout_at(deadline, read_body(address.url, response)).await;
            return body.map_err(late)?.map(PageAnswer::Body);
        }
        Err(format!("more than {REDIRECTS} redirects"))
    }

    async fn send(&self, address: &PageAddress) -> Result<HttpResponse, String> {
        let is_named = address.is_named_in(&self.network);
        let request = HttpRequest {
            method: HttpMethod::Get,
            url: address.url.to_string(),
            headers: vec![("accept".to_owned(), ACCEPT.to_owned())],
            body: Vec::new(),
            reach: if is_named { HttpReach::Any } else { HttpReach::Public },
        };
        self.http.send(request).await.map_err(|error| match error {
            HttpError::NotPublic(host) => not_public(&host),
            HttpError::Request(_) | HttpError::Connect(_) | HttpError::Broken(_) => {
                error.to_string()
            }
        })
    }
}

/// Returns true if an address begins with a scheme, such as `https://`.
fn has_scheme(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.split_once("://").is_some_and(|(name, _)| is_name(name)) || text.starts_with("file:")
}

/// Describes the refusal of an address that is not on the internet.
pub(super) fn not_public(host: &str) -> String {
    format!(
        "{host} is an address of this machine or of the network around it. For a server that your commands started use curl in the shell; the user can allow an address with --allow-host ADDRESS:PORT"
    )
}

/// Returns where a response redirects to.
fn redirect(response: &HttpResponse) -> Option<&str> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    header(response, "location")
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    let found = response.headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

async fn read_body(url: Url, response: HttpResponse) -> Result<PageBody, String> {
    let content_type = header(&response, "content-type").unwrap_or_default().to_owned();
    let headers = response.headers.iter();
    let cache =
        headers.filter(|(name, _)| name == "cache-control").map(|(_, value)| value.as_str());
    let cache = cache.collect::<Vec<_>>().join(",").to_ascii_lowercase();
    let may_be_kept =
        !["no-store", "no-cache", "max-age=0"].iter().any(|word| cache.contains(word));
    let HttpResponse { status, mut body, .. } = response;
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        let room = BODY_BYTES - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            is_cut = true;
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(PageBody { url, status, content_type, bytes, is_cut, may_be_kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_without_credentials_are_read() {
        for (text, expected) in [
            ("https://docs.rs/serde#top", Ok("https://docs.rs/serde docs.rs")),
            (" docs.rs/serde ", Ok("https://docs.rs/serde docs.rs")),
            ("HTTP://Example.ORG:8080/a b", Ok("http://example.org:8080/a%20b example.org:8080")),
            ("http://2130706433/", Ok("http://127.0.0.1/ 127.0.0.1")),
            ("http://0x7f.1/", Ok("http://127.0.0.1/ 127.0.0.1")),
            ("https://bücher.example/", Ok("https://xn--bcher-kva.example/ xn--bcher-kva.example")),
            ("file:///etc/passwd", Err("begins with file:")),
            ("https://user:key@a.test/", Err("user name or password")),
            ("http://[::1]/", Err("version 6")),
            ("http://[::ffff:127.0.0.1]/", Err("version 6")),
            ("https://", Err("is not an address")),
            ("", Err("is not an address")),
            ("example.org:8080/x", Ok("https://example.org:8080/x example.org:8080")),
            ("javascript://x/%0aalert(1)", Err("begins with javascript:")),
            ("a.test/x/https://b.test/", Ok("https://a.test/x/https://b.test/ a.test")),
            ("localhost:3000", Ok("http://localhost:3000/ localhost:3000")),
            ("8.8.8.8:8080/x", Ok("http://8.8.8.8:8080/x 8.8.8.8:8080")),
        ] {
            let parsed = PageAddress::parse(text);
            match expected {
                Ok(expected) => {
                    let address = parsed.unwrap();
                    assert_eq!(format!("{} {}", address.url, address.host), expected);
                }
                Err(part) => {
                    let error = parsed.unwrap_err();
                    assert!(error.contains(part), "{text}: {error}");
                }
            }
        }
        assert!(PageAddress::parse(&format!("https://a.test/{}", "x".repeat(2000))).is_err());
    }

    #[test]
    fn a_redirect_stays_on_a_host_only_without_loss() {
        let address = |text: &str| PageAddress::parse(text).unwrap();
        for (from, to, stays) in [
            ("http://a.test/", "https://a.test/x", true),
            ("https://a.test/", "https://www.a.test/", false),
            ("https://a.test/x", "https://a.test/y", true),
            ("https://a.test/", "http://a.test:443/", false),
            ("https://a.test/", "http://a.test/", false),
            ("https://a.test/", "https://b.test/", false),
            ("https://a.test/", "https://a.test.b.test/", false),
            ("https://a.test/", "https://a.test:8443/", false),
            ("http://a.test:8080/", "http://a.test:8080/y", true),
        ] {
            assert_eq!(address(from).keeps_host(&address(to)), stays, "{from} {to}");
        }
    }
}
