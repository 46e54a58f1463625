//! A raw HTTP/1.1 client that preserves chunk boundaries and reports how a body ends.

use std::io::ErrorKind;
use std::time::Duration;

use crow_testkit::{ModelServer, WireDialect};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A client with one connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// End of a response body or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Closed,
    Reset,
}

/// A response, body included.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) end: End,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        events(&self.text())
    }
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: Value,
}

/// Decodes an event stream; `[DONE]` becomes a JSON string.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    text.split("\n\n")
        .filter_map(|block| {
            let line = |field: &str| block.lines().find_map(|line| line.strip_prefix(field));
            let data = line("data: ")?;
            let data = serde_json::from_str(data).unwrap_or(Value::String(data.to_owned()));
            Some(Event { name: line("event: ").map(str::to_owned), data })
        })
        .collect()
}

impl Client {
    pub(crate) async fn connect(server: &ModelServer) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Sends a model request as the vendor's clients do.
    pub(crate) async fn send(&mut self, dialect: WireDialect, body: &Value) {
        self.send_text(dialect, &body.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, dialect: WireDialect, body: &str) {
        let path = dialect.path("test-model");
        self.write(&format!(
            "POST {path} HTTP/1.1\r\nHost: loopback\r\nContent-Type: application/json\r\nanthropic-version: \
             2023-06-01\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a request and reads the complete response.
    pub(crate) async fn ask(&mut self, dialect: WireDialect, body: &Value) -> Response {
        self.send(dialect, body).await;
        self.response().await
    }

    pub(crate) async fn response(&mut self) -> Response {
        let (status, headers) = self.head().await;
        let mut response = Response { status, headers, chunks: Vec::new(), end: End::Complete };
        if let Some(length) = response.header("content-length") {
            let length = length.parse().unwrap();
            let body = self.take(length).await.unwrap();
            response.chunks.push(body);
            return response;
        }
        loop {
            match self.chunk().await {
                Ok(Some(chunk)) => response.chunks.push(chunk),
                Ok(None) => return response,
                Err(end) => {
                    response.end = end;
                    return response;
                }
            }
        }
    }

    pub(crate) async fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let head = self.line_block().await.unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        (status, headers)
    }

    /// Reads the next HTTP chunk; `None` at the end of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, End> {
        let size = self.until(b"\r\n").await?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = self.take(size + 2).await?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// Returns true if nothing arrives within 30 ms.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.buffer.is_empty()
            && tokio::time::timeout(Duration::from_millis(30), self.fill()).await.is_err()
    }

    /// Returns how the connection ends; panics if more data arrives.
    pub(crate) async fn end(&mut self) -> End {
        self.fill().await.unwrap_err()
    }

    async fn line_block(&mut self) -> Result<String, End> {
        self.until(b"\r\n\r\n").await
    }

    async fn until(&mut self, end: &[u8]) -> Result<String, End> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(position) = found {
                let taken = self.take(position + end.len()).await?;
                return Ok(String::from_utf8(taken).unwrap());
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, End> {
        while self.buffer.len() < length {
            self.fill().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn fill(&mut self) -> Result<(), End> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(End::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(End::Reset),
            Err(error) => panic!("{error}"),
        }
    }
}
