//! Parser for the head of a proxy request: bytes in, target and rewritten head, or the reason for a
//! refusal, out. No I/O.
//!
//! Anything that two parsers could understand differently is refused, so that the host cannot see another
//! request than the one that was checked.

use std::fmt;

use crow_core::network::normalize_host;

/// Maximum size of a head in bytes.
pub(super) const HEAD_LIMIT: usize = 16 * 1024;
/// Maximum number of lines of a head.
pub(super) const LINE_LIMIT: usize = 128;
/// Maximum length of a method; the longest registered one has 17 letters.
const METHOD_LIMIT: usize = 24;
/// Maximum number of digits of a content length.
const LENGTH_LIMIT: usize = 18;
const HTTP_PORT: u16 = 80;
/// Header fields for this hop only, which are not forwarded. The last three are written anew.
const NOT_PASSED_ON: [&str; 12] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
    "host",
    "content-length",
    "transfer-encoding",
];

/// Parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub target: ProxyTarget,
    pub mode: ProxyMode,
}

/// Requested host and port. The name is normalized, as it is compared and resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyTarget {
    pub host: String,
    pub port: u16,
}

/// Kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProxyMode {
    /// `CONNECT`: bytes are relayed in both directions.
    Tunnel,
    /// One request is sent with a rewritten head, and its answer is relayed.
    Forward { head: String, body: BodyFraming },
}

/// Length of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// Reason why a head is invalid or ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct MalformedRequest(pub &'static str);

impl fmt::Display for ProxyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl ProxyRequest {
    /// Parses a head up to and including the empty line.
    pub(super) fn parse(head: &[u8]) -> Result<Self, MalformedRequest> {
        if head.len() > HEAD_LIMIT {
            return Err(MalformedRequest("its head is too long"));
        }
        let text =
            std::str::from_utf8(head).map_err(|_| MalformedRequest("its head is not text"))?;
        let text = text.strip_suffix("\r\n\r\n").ok_or(MalformedRequest("its head has no end"))?;
        if text.split("\r\n").count() > LINE_LIMIT {
            return Err(MalformedRequest("its head has too many lines"));
        }
        // 1) Request line.
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(MalformedRequest("its first line is not a method, a target and a version"));
        };
        if !is_token(method) || method.len() > METHOD_LIMIT {
            return Err(MalformedRequest("its method has invalid characters"));
        }
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(MalformedRequest("its version is neither HTTP/1.1 nor HTTP/1.0"));
        }
        // 2) Header fields.
        let fields = HeaderFields::read(lines)?;
        if version == "HTTP/1.0" && fields.body == BodyFraming::Chunked {
            return Err(MalformedRequest("HTTP/1.0 has no chunks"));
        }
        // 3) A tunnel, or a request with a new head for its target.
        if method == "CONNECT" {
            if !matches!(fields.body, BodyFraming::None | BodyFraming::Length(0)) {
                return Err(MalformedRequest("a tunnel has no body"));
            }
            return Ok(Self { target: ProxyTarget::parse(target, None)?, mode: ProxyMode::Tunnel });
        }
        let (target, path) = split(target)?;
        let head = format!("{method} {path} {version}\r\n{}", fields.for_host(&target));
        Ok(Self { target, mode: ProxyMode::Forward { head, body: fields.body } })
    }
}

impl ProxyTarget {
    /// Parses `host:port`; the port may be missing if there is a `fallback`.
    fn parse(text: &str, fallback: Option<u16>) -> Result<Self, MalformedRequest> {
        if text.contains('@') {
            return Err(MalformedRequest("an address may not contain a user name or password"));
        }
        if text.starts_with('[') {
            return Err(MalformedRequest("addresses of IPv6 cannot be allowed"));
        }
        let (host, port) = match (text.split_once(':'), fallback) {
            (Some((host, port)), _) => (host, parse_port(port)?),
            (None, Some(port)) => (text, port),
            (None, None) => return Err(MalformedRequest("its target has no port")),
        };
        let host = normalize_host(host).map_err(|_| MalformedRequest("its target has no host"))?;
        Ok(Self { host, port })
    }
}

fn parse_port(text: &str) -> Result<u16, MalformedRequest> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = is_plain.then(|| text.parse().ok()).flatten();
    port.ok_or(MalformedRequest("its port is not a number from 1 to 65535"))
}

/// Splits `http://host/path` into the target and the path with the query.
fn split(target: &str) -> Result<(ProxyTarget, String), MalformedRequest> {
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
        return Err(MalformedRequest("its target has invalid characters"));
    }
    let (scheme, rest) = target.split_once("://").unwrap_or_default();
    if scheme.eq_ignore_ascii_case("https") {
        return Err(MalformedRequest("HTTPS hosts need CONNECT"));
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(MalformedRequest("its target does not begin with http://"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((ProxyTarget::parse(host, Some(HTTP_PORT))?, format!("{slash}{path}")))
}

/// Header fields after the request line.
#[derive(Debug)]
struct HeaderFields<'a> {
    all: Vec<(&'a str, &'a str)>,
    body: BodyFraming,
}

impl<'a> HeaderFields<'a> {
    fn read(lines: impl Iterator<Item = &'a str>) -> Result<Self, MalformedRequest> {
        let all = lines.map(read_field).collect::<Result<Vec<_>, _>>()?;
        let mut fields = Self { all, body: BodyFraming::None };
        if fields.values("host").count() > 1 {
            return Err(MalformedRequest("it names more than one host"));
        }
        fields.body = fields.read_body()?;
        Ok(fields)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.all.iter().filter(move |field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1)
    }

    fn read_body(&self) -> Result<BodyFraming, MalformedRequest> {
        let (mut lengths, mut encodings) =
            (self.values("content-length"), self.values("transfer-encoding"));
        let (length, encoding) = (lengths.next(), encodings.next());
        if lengths.next().is_some() || encodings.next().is_some() {
            return Err(MalformedRequest("it gives the length of its body more than once"));
        }
        match (length, encoding) {
            (None, None) => Ok(BodyFraming::None),
            (Some(_), Some(_)) => {
                Err(MalformedRequest("it has both Content-Length and Transfer-Encoding"))
            }
            (None, Some(encoding)) if encoding.eq_ignore_ascii_case("chunked") => {
                Ok(BodyFraming::Chunked)
            }
            (None, Some(_)) => Err(MalformedRequest("its body has an unknown encoding")),
            (Some(length), None) => {
                let is_plain = length.bytes().all(|byte| byte.is_ascii_digit());
                let length =
                    (is_plain && length.len() <= LENGTH_LIMIT).then(|| length.parse().ok());
                length
                    .flatten()
                    .map(BodyFraming::Length)
                    .ok_or(MalformedRequest("its length is not a number"))
            }
        }
    }

    /// Writes the header fields for the host: without hop-by-hop fields, with `Connection: close`.
    fn for_host(&self, target: &ProxyTarget) -> String {
        let connection_options: Vec<_> =
            self.values("connection").flat_map(|value| value.split(',')).collect();
        let is_passed_on = |name: &str| {
            !NOT_PASSED_ON.iter().any(|other| other.eq_ignore_ascii_case(name))
                && !connection_options.iter().any(|other| other.trim().eq_ignore_ascii_case(name))
        };
        let mut text = match target.port {
            HTTP_PORT => format!("Host: {}\r\n", target.host),
            _ => format!("Host: {target}\r\n"),
        };
        for (name, value) in self.all.iter().filter(|field| is_passed_on(field.0)) {
            text.extend([*name, ": ", *value, "\r\n"]);
        }
        let length = match self.body {
            BodyFraming::None => String::new(),
            BodyFraming::Length(length) => format!("Content-Length: {length}\r\n"),
            BodyFraming::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        text.extend([&length, "Connection: close\r\n\r\n"]);
        text
    }
}

fn read_field(line: &str) -> Result<(&str, &str), MalformedRequest> {
    if line.starts_with([' ', '\t']) {
        return Err(MalformedRequest("a header line is folded"));
    }
    let (name, value) =
        line.split_once(':').ok_or(MalformedRequest("a header line has no name"))?;
    if !is_token(name) {
        return Err(MalformedRequest("a header name has invalid characters"));
    }
    let value = value.trim_matches([' ', '\t']);
    if value.chars().any(|char| char.is_control() && char != '\t') {
        return Err(MalformedRequest("its head has control characters"));
    }
    Ok((name, value))
}

fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}
