use crow_core::network::normalize_host;
use proptest::prelude::*;

use super::super::request::{
    BodyFraming, HEAD_LIMIT, LINE_LIMIT, MalformedRequest, ProxyMode, ProxyRequest,
};

fn parse(head: &str) -> Result<ProxyRequest, MalformedRequest> {
    ProxyRequest::parse(head.as_bytes())
}

/// Returns the host, the port, and the head that is sent there.
fn forwarded(head: &str) -> (String, u16, String) {
    let request = parse(head).unwrap();
    let ProxyMode::Forward { head, .. } = request.mode else { panic!("{head:?}") };
    (request.target.host, request.target.port, head)
}

#[test]
fn a_tunnel_leads_to_the_host_of_the_first_line() {
    for (target, host, port) in [
        ("good.example:443", "good.example", 443),
        ("GOOD.Example.:8443", "good.example", 8443),
        ("localhost:1", "localhost", 1),
        ("1.2.3.4:65535", "1.2.3.4", 65535),
    ] {
        let request = parse(&format!("CONNECT {target} HTTP/1.1\r\nHost: evil\r\n\r\n")).unwrap();
        assert_eq!(request.mode, ProxyMode::Tunnel);
        assert_eq!((request.target.host.as_str(), request.target.port), (host, port));
    }
}

#[test]
fn a_request_is_written_anew_for_the_host_of_its_first_line() {
    let (host, port, head) = forwarded(
        "POST HTTP://Good.Example:8080?q=a HTTP/1.1\r\nhOst: evil.example\r\nConnection: keep-alive, X-Secret\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic abc\r\nX-Secret: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n\
         Accept:*/*\r\nContent-length: 007\r\n\r\n",
    );
    assert_eq!((host.as_str(), port), ("good.example", 8080));
    assert_eq!(
        head,
        "POST /?q=a HTTP/1.1\r\nHost: good.example:8080\r\nAccept: */*\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"
    );
    let (_, port, head) = forwarded(
        "GET http://good.example HTTP/1.0\r\nconnection: host, content-length\r\nCookie: é\r\n\r\n",
    );
    assert_eq!(port, 80);
    assert_eq!(
        head,
        "GET / HTTP/1.0\r\nHost: good.example\r\nCookie: é\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_body_goes_as_far_as_one_field_says() {
    for (fields, body) in [
        ("", BodyFraming::None),
        ("Content-Length: 0\r\n", BodyFraming::Length(0)),
        ("content-length:\t42 \r\n", BodyFraming::Length(42)),
        ("Transfer-Encoding: Chunked\r\n", BodyFraming::Chunked),
    ] {
        let request = parse(&format!("PUT http://a/ HTTP/1.1\r\n{fields}\r\n")).unwrap();
        assert!(matches!(request.mode, ProxyMode::Forward { body: found, .. } if found == body));
    }
}

#[test]
fn targets_that_two_readers_could_read_differently_are_refused() {
    for target in [
        "good.example",
        "good.example:",
        "good.example:0",
        "good.example:0443",
        "good.example:+443",
        "good.example:443:443",
        "good.example:65536",
        "good.example:443/",
        "good.example:443?x",
        "good.example\0.evil.example:443",
        "good.example%00.evil.example:443",
        "good.example%2eevil.example:443",
        "evil@good.example:443",
        "good.example:443@evil.example:443",
        "good.example\\@evil.example:443",
        "good.example\t:443",
        "http://good.example:443",
        "[::1]:443",
        "[::ffff:127.0.0.1]:443",
        "::1:443",
        ".good.example:443",
        "good..example:443",
        ":443",
        "*:443",
        "göod.example:443",
        "good.example\u{3002}evil:443",
        "",
        "good.example:443 x",
        " good.example:443",
    ] {
        let head = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
        assert!(parse(&head).is_err(), "{target:?}");
    }
    for target in [
        "/",
        "*",
        "good.example/",
        "https://good.example/",
        "ftp://good.example/",
        "//good.example/",
        "http:/good.example/",
        "http:good.example",
        "http:///good.example",
        "http://",
        "http://evil@good.example/",
        "http://good.example:80@evil.example/",
        "http://good.example#@evil.example/",
        "http://good.example\\.evil.example/",
        "http://good.example:/",
        "http://good.example:x/",
        "http://good.example/\0",
        "http://good.example/\u{7f}",
        "http://good.example/ü",
        "http://[::1]/",
        "xhttp://good.example/",
        "view-source:http://good.example/",
    ] {
        let head = format!("GET {target} HTTP/1.1\r\n\r\n");
        assert!(parse(&head).is_err(), "{target:?}");
    }
}

#[test]
fn heads_that_two_readers_could_read_differently_are_refused() {
    let first = "POST http://a/ HTTP/1.1\r\n";
    for head in [
        "",
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET http://a/\r\n\r\n",
        "GET  http://a/ HTTP/1.1\r\n\r\n",
        "GET\thttp://a/ HTTP/1.1\r\n\r\n",
        " GET http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1 \r\n\r\n",
        "GET http://a/ HTTP/2\r\n\r\n",
        "GET http://a/ http/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\n\n",
        "GET http://a/ HTTP/1.1\r\n",
        "G(T http://a/ HTTP/1.1\r\n\r\n",
        "G\0T http://a/ HTTP/1.1\r\n\r\n",
        "connect a:443 HTTP/1.1\r\n\r\n",
        "AMETHODWITHTOOMANYLETTERSINIT http://a/ HTTP/1.1\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        assert!(parse(head).is_err(), "{head:?}");
    }
    for fields in [
        "Host: a\r\nHost: a\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 1111111111111111111\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "Accept: a\r\n b\r\n",
        "Accept: a\r\n\tb\r\n",
        " Accept: a\r\n",
        "Accept\r\n",
        ": a\r\n",
        "Accept: a\0\r\n",
        "Accept: a\rHost: b\r\n",
        "Accept: a\nHost: b\r\n",
        "Accept: \u{85}\r\n",
        "Acc\u{e9}pt: a\r\n",
    ] {
        assert!(parse(&format!("{first}{fields}\r\n")).is_err(), "{fields:?}");
    }
    assert!(ProxyRequest::parse(b"GET http://a/ HTTP/1.1\r\nAccept: \xff\r\n\r\n").is_err());
    let many = format!("{first}{}\r\n", "A: b\r\n".repeat(LINE_LIMIT));
    assert_eq!(parse(&many).unwrap_err().0, "its head has too many lines");
    let long = format!("{first}A: {}\r\n\r\n", "b".repeat(HEAD_LIMIT));
    assert_eq!(parse(&long).unwrap_err().0, "its head is too long");
}

/// Generates valid heads, with random insertions at random positions.
pub(super) fn heads() -> impl Strategy<Value = Vec<u8>> {
    const WHOLE: [&str; 4] = [
        "CONNECT good.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
        "GET http://good.example/path?a=b HTTP/1.1\r\nHost: good.example\r\nAccept: */*\r\n\r\n",
        "POST http://good.example:80/ HTTP/1.1\r\nContent-Length: 4\r\nConnection: x\r\n\r\nbody",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
    ];
    const PARTS: [&str; 24] = [
        "evil.example",
        "good.example",
        ".",
        "@",
        ":",
        "/",
        "\\",
        "#",
        "?",
        "\0",
        "\r",
        "\n",
        "\r\n",
        " ",
        "\t",
        "%00",
        "%0d%0a",
        "Host: evil.example\r\n",
        "http://evil.example/",
        "GET http://evil.example/ HTTP/1.1\r\n",
        "[::1]",
        ":443",
        "Transfer-Encoding: chunked\r\n",
        "\r\n\r\n",
    ];
    let part = prop_oneof![
        4 => prop::sample::select(&PARTS[..]).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let change = (any::<prop::sample::Index>(), 0_usize..12, part);
    let changed = (prop::sample::select(&WHOLE[..]), prop::collection::vec(change, 0..4));
    let changed = changed.prop_map(|(head, changes)| {
        let mut bytes = head.as_bytes().to_vec();
        for (position, removed, part) in changes {
            let start = position.index(bytes.len() + 1);
            let end = (start + removed).min(bytes.len());
            bytes.splice(start..end, part);
        }
        bytes
    });
    prop_oneof![9 => changed, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_forwarded_head_is_one_request_for_the_checked_host(bytes in heads()) {
        let Ok(ProxyRequest { target, mode }) = ProxyRequest::parse(&bytes) else { return Ok(()) };
        prop_assert_eq!(normalize_host(&target.host).unwrap(), target.host.clone());
        let ProxyMode::Forward { head, .. } = mode else { return Ok(()) };
        let text = head.strip_suffix("\r\n\r\n").unwrap();
        let lines: Vec<_> = text.split("\r\n").collect();
        prop_assert!(lines.iter().all(|line| !line.is_empty() && !line.starts_with([' ', '\t'])));
        prop_assert!(!lines.concat().contains(['\r', '\n', '\0']));
        let words: Vec<_> = lines[0].split(' ').collect();
        prop_assert!(words.len() == 3 && words[1].starts_with('/'), "{:?}", lines[0]);
        let host = if target.port == 80 { target.host } else { target.to_string() };
        let named: Vec<_> = lines.iter().filter(|line| line.to_lowercase().starts_with("host:")).collect();
        prop_assert_eq!(named, [&format!("Host: {host}")]);
        let closes = lines.iter().filter(|line| line.to_lowercase().starts_with("connection:"));
        prop_assert_eq!(closes.count(), 1);
    }
}
