//! The part of HTTP/1.1 that clients of the test servers use. Accepts HTTP/1.0 requests, too.

use std::time::Instant;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum size of a request's head or a chunk's size line, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// A request whose path and body have not been parsed.
#[derive(Debug)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) first_byte_at: Instant,
}

/// No request could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestReadError {
    /// The client disconnected.
    #[error("the client left")]
    Disconnected,
    /// The body exceeds the limit; it was read and discarded.
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    /// The request is not valid HTTP/1.1 or HTTP/1.0.
    #[error("malformed http: {0}")]
    Malformed(&'static str),
}

impl RawRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reader of requests that buffers bytes of later requests.
#[derive(Debug)]
pub(crate) struct RequestReader {
    buffer: BytesMut,
    limit: usize,
}

impl RequestReader {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::with_capacity(16 * 1024), limit }
    }

    /// Reads the head of a request.
    pub(crate) async fn read_head(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<RawRequest, RequestReadError> {
        if self.buffer.is_empty() {
            self.fill(stream).await?;
        }
        let first_byte_at = Instant::now();
        let head = self.take_until(stream, b"\r\n\r\n").await?;
        let head =
            str::from_utf8(&head).map_err(|_| RequestReadError::Malformed("head is not utf-8"))?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) =
            (words.next(), words.next(), words.next())
        else {
            return Err(RequestReadError::Malformed("request line"));
        };
        let headers = lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) =
                    line.split_once(':').ok_or(RequestReadError::Malformed("header line"))?;
                Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
            })
            .collect::<Result<Vec<_>, RequestReadError>>()?;
        let (method, target) = (method.to_owned(), target.to_owned());
        Ok(RawRequest { method, target, headers, body: Bytes::new(), first_byte_at })
    }

    /// Reads the body that the headers announce: chunked, of known length, or none.
    pub(crate) async fn read_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        request: &mut RawRequest,
    ) -> Result<(), RequestReadError> {
        let is_chunked = request
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        if is_chunked {
            request.body = self.read_chunked(stream).await?;
        } else if let Some(length) = request.header("content-length") {
            let length =
                length.parse().map_err(|_| RequestReadError::Malformed("content-length"))?;
            if length > self.limit {
                self.skip(stream, length).await?;
                return Err(RequestReadError::TooLarge { limit: self.limit });
            }
            request.body = self.take(stream, length).await?;
        }
        Ok(())
    }

    /// Waits until the client disconnects. Bytes that arrive before are buffered; ends if they exceed the body limit.
    pub(crate) async fn wait_for_disconnect(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        while self.buffer.len() <= self.limit && self.fill(stream).await.is_ok() {}
    }

    async fn read_chunked(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Bytes, RequestReadError> {
        let mut body = BytesMut::new();
        let mut total = 0_usize;
        loop {
            let line = self.take_until(stream, b"\r\n").await?;
            let size = str::from_utf8(&line)
                .ok()
                .and_then(|line| line.trim().split(';').next())
                .and_then(|size| usize::from_str_radix(size, 16).ok())
                .ok_or(RequestReadError::Malformed("chunk size"))?;
            if size == 0 {
                while self.take_until(stream, b"\r\n").await?.len() > 2 {}
                break;
            }
            total = total.saturating_add(size);
            if total > self.limit {
                self.skip(stream, size.saturating_add(2)).await?;
            } else {
                body.extend_from_slice(&self.take(stream, size).await?);
                self.skip(stream, 2).await?;
            }
        }
        if total > self.limit {
            return Err(RequestReadError::TooLarge { limit: self.limit });
        }
        Ok(body.freeze())
    }

    /// Reads up to and including `end`, within [`MAX_HEAD`] bytes.
    async fn take_until(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        end: &[u8],
    ) -> Result<Bytes, RequestReadError> {
        let mut searched = 0;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            if let Some(position) = unsearched.windows(end.len()).position(|window| window == end) {
                return Ok(self.buffer.split_to(searched + position + end.len()).freeze());
            }
            searched = self.buffer.len().saturating_sub(end.len() - 1);
            if self.buffer.len() > MAX_HEAD {
                return Err(RequestReadError::Malformed("head or chunk line too long"));
            }
            self.fill(stream).await?;
        }
    }

    /// Reads `length` bytes.
    async fn take(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        length: usize,
    ) -> Result<Bytes, RequestReadError> {
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            self.fill(stream).await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    /// Discards `length` bytes.
    async fn skip(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        length: usize,
    ) -> Result<(), RequestReadError> {
        let mut remaining = length;
        loop {
            let available = self.buffer.len().min(remaining);
            self.buffer.advance(available);
            remaining -= available;
            if remaining == 0 {
                return Ok(());
            }
            self.fill(stream).await?;
        }
    }

    /// Reads more bytes into the buffer.
    async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), RequestReadError> {
        match stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(RequestReadError::Disconnected),
            Ok(_) => Ok(()),
        }
    }
}

/// Renders the head of a 200 response with a chunked body.
pub(crate) fn chunked_head(headers: &[(String, String)]) -> Vec<u8> {
    let mut head = head(200, headers);
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    head.into_bytes()
}

/// Renders a complete response with a content length.
pub(crate) fn full_response(status: u16, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut head = head(status, headers);
    push_line(&mut head, "content-length", &body.len().to_string());
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Appends one HTTP chunk.
pub(crate) fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// End of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn head(status: u16, headers: &[(String, String)]) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        push_line(&mut head, name, value);
    }
    head
}

fn push_line(head: &mut String, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        head.push_str(part);
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Site is overloaded",
        _ => "Status",
    }
}
