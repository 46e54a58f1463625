//! Moves bytes from one end to the other, a bounded amount at a time.

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

/// The longest line before a chunk: 16 digits and the end of the line.
const CHUNK_LINE: u64 = 18;

/// Watches over a connection on which nothing may move for too long.
#[derive(Debug)]
pub(super) struct IdleTimer {
    start: Instant,
    /// When something moved last, in milliseconds since the start.
    moved: AtomicU64,
    limit: Duration,
}

/// Why the body of a request does not go on.
#[derive(Debug)]
pub(super) enum BodyRelayError {
    /// The command broke off, or sent what has no meaning.
    Source(io::Error),
    /// The host takes no more. It may have answered all the same.
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

    /// Waits until nothing has moved for too long.
    pub(super) async fn passed(&self) -> io::Error {
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let until = self.start + moved + self.limit;
            if until <= Instant::now() {
                return io::ErrorKind::TimedOut.into();
            }
            sleep_until(until).await;
        }
    }
}

/// Moves all bytes, and then tells the other end that there are no more.
pub(super) async fn all(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> io::Result<()> {
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let count = bytes.len();
        to.write_all(bytes).await?;
        from.consume(count);
        idle.touch();
    }
}

/// Moves the body of a request, and not a byte of what may follow it.
pub(super) async fn body(
    body: BodyFraming,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    match body {
        BodyFraming::None => Ok(()),
        BodyFraming::Length(length) => exactly(length, from, to, idle).await,
        BodyFraming::Chunked => chunks(from, to, idle).await,
    }
}

async fn exactly(
    mut left: u64,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    while left > 0 {
        let bytes = from.fill_buf().await.map_err(BodyRelayError::Source)?;
        if bytes.is_empty() {
            return Err(BodyRelayError::Source(io::ErrorKind::UnexpectedEof.into()));
        }
        let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let bytes = bytes.get(..count).unwrap_or_default();
        to.write_all(bytes).await.map_err(|_| BodyRelayError::Sink)?;
        from.consume(count);
        left -= count as u64;
        idle.touch();
    }
    Ok(())
}

async fn chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    idle: &IdleTimer,
) -> Result<(), BodyRelayError> {
    loop {
        let length = parse_chunk_line(&line(from).await?).map_err(malformed)?;
        let head = format!("{length:x}\r\n");
        to.write_all(head.as_bytes()).await.map_err(|_| BodyRelayError::Sink)?;
        exactly(length, from, to, idle).await?;
        if line(from).await? != b"\r\n" {
            let reason = "a chunk of its body does not end where it should, or something follows the last one";
            return Err(malformed(MalformedRequest(reason)));
        }
        to.write_all(b"\r\n").await.map_err(|_| BodyRelayError::Sink)?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// Reads up to the end of a line, or as far as a line may go.
async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, BodyRelayError> {
    let mut line = Vec::new();
    from.take(CHUNK_LINE).read_until(b'\n', &mut line).await.map_err(BodyRelayError::Source)?;
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
    async fn a_body_goes_on_and_what_follows_it_does_not() {
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
    async fn a_body_without_one_meaning_does_not_go_on() {
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
