//! HTTP/1.1, as much as model clients use, and questions in the version before it that end with their connection.

use std::time::Instant;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

const MAX_HEAD: usize = 64 * 1024;

/// A request before anyone has understood it.
#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
    pub(super) first_byte_at: Instant,
}

/// Why no request could be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestReadError {
    /// The client closed the connection.
    #[error("the client left")]
    Left,
    /// The body is over the limit; its bytes have been read and dropped.
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    /// This is not HTTP/1.1.
    #[error("malformed http: {0}")]
    Malformed(&'static str),
}

impl RawRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads requests from a stream, keeping what came too early.
#[derive(Debug)]
pub(super) struct RequestReader {
    buffer: BytesMut,
    limit: usize,
}

impl RequestReader {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::with_capacity(16 * 1024), limit }
    }

    /// Reads up to the end of a request's head.
    pub(super) async fn read_head(
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

    /// Reads the body that the head announces.
    pub(super) async fn read_body(
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

    /// Waits until the client leaves; bytes that come before are kept.
    pub(super) async fn client_left(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
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

    async fn skip(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        length: usize,
    ) -> Result<(), RequestReadError> {
        let mut left = length;
        loop {
            let here = self.buffer.len().min(left);
            self.buffer.advance(here);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.fill(stream).await?;
        }
    }

    async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), RequestReadError> {
        match stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(RequestReadError::Left),
            Ok(_) => Ok(()),
        }
    }
}

/// The head of an answer whose body comes in chunks.
pub(super) fn chunked_head(headers: &[(String, String)]) -> Vec<u8> {
    let mut head = head(200, headers);
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    head.into_bytes()
}

/// A whole answer of known length.
pub(super) fn whole(status: u16, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut head = head(status, headers);
    push_line(&mut head, "content-length", &body.len().to_string());
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Appends one HTTP chunk.
pub(super) fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

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
