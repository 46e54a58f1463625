use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crow_core::network::AllowedHosts;
use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    super::{
        dial::Resolver,
        request::HEAD_LIMIT,
        server::{Proxy, ProxyLimits},
    },
    request::heads,
};

/// Proxy, and a server that it may reach as `localhost`.
struct Stage {
    proxy: Proxy,
    address: SocketAddr,
    server: tokio::net::TcpListener,
    port: u16,
}

impl Stage {
    async fn new() -> Self {
        Self::with(ProxyLimits::default()).await
    }

    async fn with(bounds: ProxyLimits) -> Self {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let allowed = AllowedHosts::new([format!("localhost:{port}").parse().unwrap()]);
        let (proxy, address) = start(allowed, Resolver::system(), bounds);
        Self { proxy, address, server, port }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut client = self.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    async fn tunnel(&self) -> (TcpStream, TcpStream) {
        let mut client =
            self.send(&format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", self.port)).await;
        let (server, _) = self.server.accept().await.unwrap();
        let mut answer = [0; 39];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 Connection established\r\n\r\n");
        (client, server)
    }

    /// Returns the answer to a request that fails.
    async fn answer(&self, request: &str) -> String {
        rest(&mut self.send(request).await).await
    }
}

fn start(allowed: AllowedHosts, resolver: Resolver, bounds: ProxyLimits) -> (Proxy, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Proxy::with(listener, allowed, resolver, bounds).unwrap(), address)
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_tunnel_moves_bytes_both_ways_and_each_way_ends_by_itself() {
    let stage = Stage::new().await;
    let (mut client, mut server) = stage.tunnel().await;
    let large = "x".repeat(1 << 20);
    let sent = async {
        client.write_all(large.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        rest(&mut client).await
    };
    let echo = async {
        let got = rest(&mut server).await;
        server.write_all(b"after your end").await.unwrap();
        server.shutdown().await.unwrap();
        got
    };
    let (answer, got) = tokio::join!(sent, echo);
    assert_eq!(answer, "after your end");
    assert!(got == large);
}

#[tokio::test]
async fn one_request_is_relayed_without_what_follows_it() {
    let stage = Stage::new().await;
    let port = stage.port;
    let request = format!(
        "POST http://localhost:{port}/a?b HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 4\r\n\r\nbody\
         GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    );
    let mut client = stage.send(&request).await;
    let (mut server, _) = stage.server.accept().await.unwrap();
    let head = format!(
        "POST /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    );
    let mut got = vec![0; head.len()];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), head);
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    server.shutdown().await.unwrap();
    let mut answer = [0; 27];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(rest(&mut server).await, "");
}

#[tokio::test]
async fn a_malformed_body_ends_the_connection() {
    let stage = Stage::new().await;
    let request = format!(
        "POST http://localhost:{}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nzz\r\n",
        stage.port
    );
    let mut client = stage.send(&request).await;
    let (mut server, _) = stage.server.accept().await.unwrap();
    assert!(rest(&mut server).await.ends_with("\r\n\r\n4\r\nbody\r\n"));
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn refusals_are_answered_with_the_reason_and_logged() {
    let bounds = ProxyLimits { head: Duration::from_millis(500), ..ProxyLimits::default() };
    let stage = Stage::with(bounds).await;
    let since = stage.proxy.refused_from_now();
    let long = format!("GET http://localhost/ HTTP/1.1\r\nA: {}", "a".repeat(HEAD_LIMIT));
    for (given, status, reason) in [
        ("CONNECT evil.example:443 HTTP/1.1\r\n\r\n", "403 Host", "--allow-host evil.example\n"),
        (
            "GET http://evil.example:81/ HTTP/1.1\r\n\r\n",
            "403 Host",
            "--allow-host evil.example:81\n",
        ),
        ("CONNECT localhost HTTP/1.1\r\n\r\n", "400 Bad Request", "no port"),
        (
            "GET http://localhost/ HTTP/1.1\nHost: a\n\n",
            "400 Bad Request",
            "does not end with CRLF",
        ),
        ("GET http://localhost/", "408 Request Timeout", "in time"),
        (&long, "431 Request", "too long"),
    ] {
        let answer = stage.answer(given).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.contains(reason), "{answer}");
    }
    let refused: Vec<_> = since.hosts().iter().map(ToString::to_string).collect();
    assert_eq!(refused, ["evil.example:443", "evil.example:81"]);
}

#[tokio::test]
async fn an_answer_reaches_a_command_that_is_still_sending() {
    let stage = Stage::new().await;
    let head = "POST http://evil.example/ HTTP/1.1\r\nContent-Length: 200000\r\n\r\n";
    let answer = stage.answer(&format!("{head}{}", "x".repeat(200_000))).await;
    assert!(answer.contains("--allow-host evil.example"), "{answer}");
}

#[tokio::test]
async fn an_unreachable_host_is_answered_with_502() {
    let stage = Stage::new().await;
    let port = stage.port;
    drop(stage.server);
    let mut client = TcpStream::connect(stage.address).await.unwrap();
    let request = format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let answer = rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_others_to_end() {
    let stage = Stage::with(ProxyLimits { connections: 2, ..ProxyLimits::default() }).await;
    let first = stage.tunnel().await;
    let _second = stage.tunnel().await;
    let mut third = stage.send("CONNECT evil.example:443 HTTP/1.1\r\n\r\n").await;
    let early = tokio::time::timeout(Duration::from_millis(100), third.readable());
    assert!(early.await.is_err(), "a third one was served");
    drop(first);
    assert!(rest(&mut third).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let stage =
        Stage::with(ProxyLimits { idle: Duration::from_millis(50), ..ProxyLimits::default() })
            .await;
    let (mut client, mut server) = stage.tunnel().await;
    assert_eq!((rest(&mut client).await, rest(&mut server).await), (String::new(), String::new()));
}

#[tokio::test]
async fn all_connections_end_with_the_proxy() {
    let stage = Stage::new().await;
    let (mut client, mut server) = stage.tunnel().await;
    let mut waiting = stage.connect().await;
    drop(stage.proxy);
    assert_eq!((rest(&mut client).await, rest(&mut server).await), (String::new(), String::new()));
    // It may have been accepted already; it is closed in both cases.
    assert!(matches!(waiting.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    assert!(TcpStream::connect(stage.address).await.is_err());
}

#[tokio::test]
async fn no_bytes_make_the_proxy_resolve_a_host_that_is_not_allowed() {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requested);
    let resolver = Resolver::new(move |target| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(target.to_string());
        Box::pin(async { Ok(Vec::new()) })
    });
    let allowed = AllowedHosts::new(["good.example".parse().unwrap()]);
    let bounds = ProxyLimits { head: Duration::from_millis(200), ..ProxyLimits::default() };
    let (_proxy, address) = start(allowed, resolver, bounds);
    let mut runner = TestRunner::default();
    for _ in 0..512 {
        let bytes = heads().new_tree(&mut runner).unwrap().current();
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut answer = Vec::new();
        // The connection may be closed before everything is sent.
        drop(client.write_all(&bytes).await);
        drop(client.shutdown().await);
        drop(client.read_to_end(&mut answer).await);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
    }
    let requested = requested.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!requested.is_empty());
    let is_good = |target: &String| matches!(&**target, "good.example:443" | "good.example:80");
    assert!(requested.iter().all(is_good), "{requested:?}");
}
