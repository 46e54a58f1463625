//! Network access of commands: allowed hosts through the proxy, and nothing else.

use std::time::Duration;

use crow_core::capability::{HostRefusal, ProcessEnd};
use crow_core::network::{AllowedHosts, Network};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::sandbox_fixture::{SandboxFixture, printed};

/// A server outside the sandbox. Returns the path and `Host` header of a request; `/away` and `/inside` redirect.
struct Server {
    port: u16,
    _task: JoinSet<()>,
}

impl Server {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream));
            }
        });
        Self { port, _task: task }
    }
}

async fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let answer = match head.split(' ').nth(1).unwrap() {
        "/away" => "HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n"
            .to_owned(),
        "/inside" => {
            "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n"
                .to_owned()
        }
        path => {
            let host = head.lines().find(|line| line.starts_with("Host: ")).unwrap();
            let body = format!("{path} {host}\n");
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
    };
    let end = if answer.contains("\r\n\r\n") { "" } else { "\r\n" };
    drop(stream.write_all(format!("{answer}{end}").as_bytes()).await);
}

fn fixture(hosts: &[&str]) -> SandboxFixture {
    let allowed = AllowedHosts::new(hosts.iter().map(|host| host.parse().unwrap()));
    SandboxFixture::with(|config, _| config.network = Network::Hosts(allowed))
}

/// Python helpers: `raw` sends bytes to the proxy and returns the first line of the answer, `fetch` opens a URL.
const RAW: &str = "
import os, socket, sys, urllib.request, urllib.error
proxy = ('127.0.0.1', int(os.environ['http_proxy'].rsplit(':', 1)[1]))
def raw(request):
    s = socket.create_connection(proxy); s.settimeout(5); s.sendall(request)
    return s.recv(4096).split(b'\\r\\n')[0].decode()
def fetch(url):
    try: return urllib.request.urlopen(url, timeout=5).read().decode().strip()
    except urllib.error.HTTPError as error: return f'{error.code}'
    except OSError as error: return 'no way'
";

fn python(script: &str) -> String {
    format!("no_proxy= NO_PROXY= python3 - <<'E'\n{RAW}{script}\nE")
}

#[tokio::test]
async fn an_allowed_host_is_reached_by_requests_and_by_tunnels() {
    let server = Server::new().await;
    let port = server.port;
    let fixture = fixture(&[&format!("localhost:{port}")]);
    let script = format!(
        "curl -sS --noproxy '' http://localhost:{port}/plain
         curl -sS --noproxy '' -p http://localhost:{port}/tunnel
         curl -sS --noproxy '' -H 'Host: evil.example' http://localhost:{port}/other
         {}",
        python(&format!("print(fetch('http://localhost:{port}/python'))"))
    );
    let outcome = fixture.run(&script).await;
    let lines = ["plain", "tunnel", "other", "python"];
    let expected = lines.map(|path| format!("/{path} Host: localhost:{port}\n")).concat();
    assert_eq!(printed(&outcome), expected);
    assert_eq!(outcome.refused_hosts, []);
}

#[tokio::test]
async fn hosts_that_are_not_allowed_and_malformed_requests_are_refused() {
    let (server, other) = (Server::new().await, Server::new().await);
    let (port, other) = (server.port, other.port);
    let fixture = fixture(&[&format!("localhost:{port}"), "good.example"]);
    let script = python(&format!(
        r"
for url in ('http://localhost:{other}/', 'http://127.0.0.1:{port}/', 'http://localhost.evil:{port}/', 'http://localhost/',
            'http://[::1]:{port}/', 'http://127.1:{port}/', 'http://2130706433:{port}/', 'http://169.254.169.254/'):
    print(fetch(url))
for target in (b'localhost:{other}', b'127.0.0.1:{port}', b'localhost\0.evil:{port}', b'localhost:{port}\0', b'localhost:{port}@evil:1',
               b'evil@localhost:{port}', b'localhost:{port} ', b'good.example:22', b'GOOD.EXAMPLE.evil:443'):
    print(raw(b'CONNECT ' + target + b' HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n'))
print(raw(b'GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n'))
print(raw(b'GET http://evil.example/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n'))
print(raw(b'\x05\x01\x00\r\n\r\n'))
try: socket.create_connection(('127.0.0.1', {port}), 1); print('direct')
except OSError: print('no way')
"
    ));
    let outcome = fixture.run(&script).await;
    let (refused, malformed) =
        ("HTTP/1.1 403 Host not allowed by the sandbox", "HTTP/1.1 400 Bad Request");
    let fetched = ["403", "403", "403", "403", "400", "400", "400", "403"];
    let tunnels =
        [refused, refused, malformed, malformed, malformed, malformed, malformed, refused, refused];
    let rest = [malformed, refused, malformed, "no way"];
    let expected = [&fetched[..], &tunnels, &rest].concat();
    assert_eq!(printed(&outcome).lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_redirect_to_a_host_that_is_not_allowed_is_refused() {
    let server = Server::new().await;
    let port = server.port;
    let fixture = fixture(&[&format!("localhost:{port}")]);
    let script = python(&format!(
        "for path in ('away', 'inside'): print(fetch(f'http://localhost:{port}/{{path}}'))"
    ));
    let outcome = fixture.run(&script).await;
    assert_eq!(printed(&outcome), "403\n403\n");
    let refused: Vec<_> = outcome.refused_hosts.iter().map(ToString::to_string).collect();
    assert_eq!(refused, ["evil.example:80", "169.254.169.254:80"]);
}

#[tokio::test]
async fn the_outcome_lists_refused_hosts_with_the_patterns_that_would_allow_them() {
    let fixture = fixture(&["good.example"]);
    let script = "curl -sS http://evil.example:81/; curl -sS https://evil.example/ 2>&1
        git ls-remote https://git.example/a.git >/dev/null 2>&1";
    let outcome = fixture.run(script).await;
    let text = printed(&outcome);
    assert!(text.contains("--allow-host evil.example:81"), "{text}");
    let refused: Vec<_> =
        outcome.refused_hosts.iter().map(|host| (host.pattern(), host.reason)).collect();
    let expected = ["evil.example:81", "evil.example", "git.example"];
    assert_eq!(refused, expected.map(|host| (host.to_owned(), HostRefusal::NotAllowed)));
    assert_eq!(fixture.run("true").await.refused_hosts, []);
}

#[tokio::test]
async fn an_allowed_name_that_resolves_to_the_local_machine_is_refused() {
    // The name is in `/etc/hosts`, so it resolves without a name server.
    let fixture = fixture(&["ip6-localhost", "localhost.localdomain"]);
    let outcome = fixture.run(&python("print(fetch('http://ip6-localhost/'))")).await;
    let text = printed(&outcome);
    // On systems without this name the proxy cannot resolve it and answers 502.
    assert!(matches!(text.trim(), "403" | "502"), "{text}");
    let is_private = outcome.refused_hosts.iter().all(|host| host.reason == HostRefusal::NotPublic);
    assert!(is_private, "{:?}", outcome.refused_hosts);
}

#[tokio::test]
async fn servers_that_commands_start_are_reached_without_the_proxy() {
    let fixture = fixture(&["good.example"]);
    let script = "echo here >file; python3 -m http.server --bind 127.0.0.1 8765 2>/dev/null &
        for try in $(seq 100); do curl -sf http://localhost:8765/file && break; sleep 0.05; done
        curl -sf http://127.0.0.1:8765/file; kill %1";
    assert_eq!(fixture.print(script).await, "here\nhere\n");
}

#[tokio::test]
async fn connections_beyond_the_proxys_limit_wait_until_another_one_closes() {
    let fixture = fixture(&["good.example"]);
    let script = python(
        "
held = [socket.create_connection(proxy) for _ in range(64)]
late = socket.create_connection(proxy); late.settimeout(0.3)
late.sendall(b'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n')
try: print(late.recv(12))
except TimeoutError: print('waits')
held.pop().close(); late.settimeout(5); print(late.recv(12).decode())
",
    );
    assert_eq!(fixture.print(&script).await, "waits\nHTTP/1.1 403\n");
    assert_eq!(fixture.print(&python("print(fetch('http://evil.example/'))")).await, "403\n");
}

#[tokio::test]
async fn a_tunnel_ends_with_the_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let fixture = fixture(&[&format!("localhost:{port}")]);
    let script = python(&format!(
        "raw(b'CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n'); import time; time.sleep(60)"
    ));
    let mut server = tokio::select! {
        accepted = listener.accept() => accepted.unwrap().0,
        outcome = fixture.run(&script) => panic!("{}", printed(&outcome)),
    };
    drop(fixture);
    let end = tokio::time::timeout(Duration::from_secs(10), server.read(&mut [0; 1])).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "{end:?}");
}

#[tokio::test]
async fn proxy_variables_are_set_only_if_there_is_a_proxy() {
    let names = "env | grep -io '^[a-z_]*proxy=' | sort -f | tr -d '\\n'";
    assert_eq!(SandboxFixture::new().print(names).await, "");
    let outcome = fixture(&["good.example"]).run(names).await;
    let text = printed(&outcome);
    for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy", "CARGO_HTTP_PROXY"] {
        assert!(text.contains(&format!("{name}=")), "{text}");
    }
    assert_eq!(outcome.end, ProcessEnd::Exited(0));
}
