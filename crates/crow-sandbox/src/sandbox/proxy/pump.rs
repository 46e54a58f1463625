//! Relays bytes from a reader to a writer, a bounded amount at a time.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, sleep_until},
};

use super::request::{BodyFraming, MalformedRequest};

/// Longest line before a chunk, in bytes: 16 digits and CRLF.
const CHUNK_LINE: u64 = 18;

/// Timer that expires when no bytes were relayed for `limit`.
#[derive(Debug)]
pub(super) struct IdleTimer {
    start: Instant,
    /// Time of the last relayed bytes, in milliseconds since `start`.
    moved: AtomicU64,
    limit: Duration,
}

/// Reason why relaying a request body ended early.
#[derive(Debug)]
pub(super) enum BodyRelayError {
    /// The command closed the connection, or sent a malformed body.
    Source(io::Error),
    /// The host accepts no more data. It may have answered nevertheless.
    Sink,
}

impl IdleTimer {
    pub(super) fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), moved: AtomicU64::new(0), limit }
    }

    fn touch(&self) {
        let now = self.start.elapsed().as_millis();
        self.moved.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Waits until no bytes were relayed for the limit.
    pub(super) async fn passed(&self) -> io::Error {
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let deadline = self.start + moved + self.limit;
            if deadline <= Instant::now() {
                return io::ErrorKind::TimedOut.into();
            }
            sleep_until(deadline).await;
        }
    }
}

/// Relays all bytes, then shuts down the writer.
pub(super) async fn all(
    source: &mut (impl AsyncBufRead + Unpin),
    sink: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> io::Result<()> {
    loop {
        let bytes = source.fill_buf().await?;
        if bytes.is_empty() {
            return sink.shutdown().await;
        }
        let count = bytes.len();
        sink.write_all(bytes).await?;
        source.consume(count);
        idle.touch();
    }
}

/// Relays the body of a request, and no byte behind it.
pub(super) async fn body(
    body: BodyFraming,
    source: &mut (impl AsyncBufRead + Unpin),
    sink: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    match body {
        BodyFraming::None => Ok(()),
        BodyFraming::Length(length) => exactly(length, source, sink, idle).await,
        BodyFraming::Chunked => chunks(source, sink, idle).await,
    }
}

async fn exactly(
    mut remaining: u64,
    source: &mut (impl AsyncBufRead + Unpin),
    sink: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    while remaining > 0 {
        let bytes = source.fill_buf().await.map_err(BodyRelayError::Source)?;
        if bytes.is_empty() {
            return Err(BodyRelayError::Source(io::ErrorKind::UnexpectedEof.into()));
        }
        let count =
            usize::try_from(remaining).map_or(bytes.len(), |remaining| remaining.min(bytes.len()));
        let bytes = &bytes[..count];
        sink.write_all(bytes).await.map_err(|_| BodyRelayError::Sink)?;
        source.consume(count);
        remaining -= count as u64;
        idle.touch();
    }
    Ok(())
}

async fn chunks(
    source: &mut (impl AsyncBufRead + Unpin),
    sink: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    loop {
        let length = parse_chunk_line(&line(source).await?).map_err(malformed)?;
        let head = format!("{length:x}\r\n");
        sink.write_all(head.as_bytes()).await.map_err(|_| BodyRelayError::Sink)?;
        exactly(length, source, sink, idle).await?;
        if line(source).await? != b"\r\n" {
            let reason = "a chunk of its body has a wrong length, or data follows the last one";
            return Err(malformed(MalformedRequest(reason)));
        }
        sink.write_all(b"\r\n").await.map_err(|_| BodyRelayError::Sink)?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// Reads up to the end of a line, at most [`CHUNK_LINE`] bytes.
async fn line(source: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, BodyRelayError> {
    let mut line = Vec::new();
    source.take(CHUNK_LINE).read_until(b'\n', &mut line).await.map_err(BodyRelayError::Source)?;
    Ok(line)
}

fn parse_chunk_line(line: &[u8]) -> Result<u64, MalformedRequest> {
    let digits = line.strip_suffix(b"\r\n").and_then(|digits| std::str::from_utf8(digits).ok());
    let is_plain = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = digits.filter(is_plain).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    length.ok_or(MalformedRequest("a chunk of its body has no length"))
}

fn malformed(reason: MalformedRequest) -> BodyRelayError {
    BodyRelayError::Source(io::Error::new(io::ErrorKind::InvalidData, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn moved(
        kind: BodyFraming,
        bytes: &[u8],
    ) -> (Result<(), BodyRelayError>, Vec<u8>, Vec<u8>) {
        let (mut from, mut to) = (bytes, Vec::new());
        let result = body(kind, &mut from, &mut to, &IdleTimer::new(Duration::MAX / 4)).await;
        (result, to, from.to_vec())
    }

    #[tokio::test]
    async fn a_body_is_relayed_without_what_follows_it() {
        for (kind, given, passed) in [
            (BodyFraming::None, "GET http://evil/", ""),
            (BodyFraming::Length(4), "bodyGET http://evil/", "body"),
            (
                BodyFraming::Chunked,
                "4\r\nbody\r\n0\r\n\r\nGET http://evil/",
                "4\r\nbody\r\n0\r\n\r\n",
            ),
            (
                BodyFraming::Chunked,
                "00A\r\n0123456789\r\n00\r\n\r\nX",
                "a\r\n0123456789\r\n0\r\n\r\n",
            ),
        ] {
            let (result, to, rest) = moved(kind, given.as_bytes()).await;
            assert!(result.is_ok(), "{given:?}");
            assert_eq!(String::from_utf8(to).unwrap(), passed);
            assert!(rest.is_empty() || rest.starts_with(b"GET") || rest == b"X", "{given:?}");
        }
    }

    #[tokio::test]
    async fn a_malformed_body_is_refused() {
        for (kind, given) in [
            (BodyFraming::Length(5), "body"),
            (BodyFraming::Chunked, "4;name=value\r\nbody\r\n0\r\n\r\n"),
            (BodyFraming::Chunked, "4\nbody\n0\n\n"),
            (BodyFraming::Chunked, "-4\r\nbody\r\n0\r\n\r\n"),
            (BodyFraming::Chunked, "0x4\r\nbody\r\n0\r\n\r\n"),
            (BodyFraming::Chunked, "+4\r\nbody\r\n0\r\n\r\n"),
            (BodyFraming::Chunked, "11111111111111111\r\nbody"),
            (BodyFraming::Chunked, "4\r\nbodyGET\r\n0\r\n\r\n"),
            (BodyFraming::Chunked, "0\r\nHost: evil\r\n\r\n"),
            (BodyFraming::Chunked, "4\r\nbo"),
            (BodyFraming::Chunked, ""),
        ] {
            let (result, ..) = moved(kind, given.as_bytes()).await;
            assert!(matches!(result, Err(BodyRelayError::Source(_))), "{given:?}: {result:?}");
        }
    }
}
