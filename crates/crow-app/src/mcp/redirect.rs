//! The address on this machine to which the browser is redirected at the end of a login.

use std::{io, net::Ipv4Addr, time::Duration};

use async_trait::async_trait;
use crow_mcp::RedirectListener;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use url::Url;

/// Maximum size of the head of a request in bytes.
const LARGEST_HEAD: usize = 16 * 1024;
/// Time limit of a connection.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of simultaneous connections; browsers open some in advance.
const MOST_CONNECTIONS: usize = 16;
/// Path of the redirect.
const PATH: &str = "/callback";

/// A listener at a port of the loopback interface.
#[derive(Debug)]
pub(super) struct LoopbackListener {
    listener: TcpListener,
    redirect_uri: String,
}

impl LoopbackListener {
    /// Listens at `port`, or at any free one. The error is a sentence.
    pub(super) async fn bind(port: Option<u16>) -> Result<Self, String> {
        let failed = |error: io::Error| match port {
            Some(port) => format!(
                "cannot listen at port {port} for the redirect: {error}; `oauth.redirect_port` of the server sets it"
            ),
            None => format!("cannot listen for the redirect: {error}"),
        };
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let listener = bound.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, redirect_uri: format!("http://127.0.0.1:{port}{PATH}") })
    }
}

#[async_trait]
impl RedirectListener for LoopbackListener {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    async fn wait_for_redirect(&mut self, state: &str) -> String {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MOST_CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => {
                            connections.push(timeout(LIMIT, answer(stream, &self.redirect_uri, state)));
                        }
                        // Out of file descriptors, for example: the user can still paste the address.
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
                Some(done) = connections.next() => {
                    if let Ok(Ok(Some(address))) = done {
                        return address;
                    }
                }
            }
        }
    }
}

/// Answers one request. Returns its address if it is the redirect of the login with this state.
async fn answer(
    mut stream: TcpStream,
    redirect_uri: &str,
    state: &str,
) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut chunk = [0; 2048];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut chunk).await?;
        if count == 0 || head.len() + count > LARGEST_HEAD {
            return Ok(None);
        }
        head.extend(chunk.iter().take(count));
    }
    let found = redirect_address(&head, redirect_uri, state);
    let (status, text) = match &found {
        Some(address) if has_code(address) => {
            ("200 OK", "Crow received the login. You can close this page.")
        }
        Some(_) => ("200 OK", "The login was refused. Crow shows the reason."),
        None => ("400 Bad Request", "This address belongs to no login that is in progress."),
    };
    let body = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Crow</title><body style=\"font:1.1em sans-serif;margin:3em\"><p>{text}</p></body></html>"
    );
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncontent-security-policy: default-src 'none'; style-src 'unsafe-inline'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The browser may be gone already; the address counts all the same.
    let _is_shown = stream.write_all(answer.as_bytes()).await.is_ok();
    let _is_closed = stream.shutdown().await.is_ok();
    Ok(found)
}

/// Returns the address of a request if it is a GET of the redirect address with this state.
fn redirect_address(head: &[u8], redirect_uri: &str, state: &str) -> Option<String> {
    // The other lines belong to the browser, and may not be UTF-8.
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.split(' ').next()?;
    let address = Url::parse(redirect_uri).ok()?.join(target).ok()?;
    let expected = Url::parse(redirect_uri).ok()?;
    if address.origin() != expected.origin() || address.path() != PATH {
        return None;
    }
    let mut states = address.query_pairs().filter(|(name, _)| name == "state");
    let is_own = states.next()?.1 == state && states.next().is_none();
    is_own.then(|| address.to_string())
}

fn has_code(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| url.query_pairs().any(|(name, _)| name == "code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(uri: &str, target: &str) -> String {
        let url = Url::parse(uri).unwrap();
        let address = (url.host_str().unwrap(), url.port().unwrap());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_redirect_of_the_login_ends_the_wait() {
        let mut listener = LoopbackListener::bind(None).await.unwrap();
        let uri = listener.redirect_uri().to_owned();
        let browser = async {
            for other in [
                "/",
                "/callback",
                "/callback?code=a",
                "/callback?code=a&state=other",
                "/callback?code=a&state=own&state=other",
                "/other?code=a&state=own",
                "http://evil.test/callback?code=a&state=own",
            ] {
                let answer = get(&uri, other).await;
                assert!(answer.starts_with("HTTP/1.1 400"), "{other}: {answer}");
            }
            // A connection that the browser opened in advance.
            let url = Url::parse(&uri).unwrap();
            let _idle =
                TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).await.unwrap();
            get(&uri, "/callback?code=a%20b&state=own").await
        };
        let (address, answer) = tokio::join!(listener.wait_for_redirect("own"), browser);
        assert!(address.ends_with("/callback?code=a%20b&state=own"), "{address}");
        assert!(answer.contains("You can close this page"), "{answer}");
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_it() {
        let first = LoopbackListener::bind(None).await.unwrap();
        let port = first.listener.local_addr().unwrap().port();
        let error = LoopbackListener::bind(Some(port)).await.unwrap_err();
        assert!(error.contains(&port.to_string()), "{error}");
    }
}
