//! Lines of protocol over any pair of byte streams, with a bound on each line and on what waits to be written.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use agent_client_protocol::Lines;
use futures_util::{Sink, Stream, stream};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

/// The longest message that is read, in bytes: pictures come as base64 in one.
pub(super) const LONGEST_LINE: usize = 64 << 20;

/// What stands in place of a line that cannot be one: the library answers it with a parse error.
pub(super) const JUNK: &str = "{";

/// How many updates may wait to be written before those who make more of them wait.
const WAITING_UPDATES: u64 = 256;

/// How many may wait on a way on which nobody waits for room: that of a session below the one that is shown, which has a
/// stream of its own over HTTP. What comes on top of it is lost to a client that does not take it: the log has it.
const MOST_UPDATES: u64 = 4096;

/// How the line of an update begins, after the opening brace.
const UPDATE: &[u8] = b"\"method\":\"session/update\"";
/// Where that stands at the latest.
const UPDATE_WITHIN: usize = 64;

/// What is known of the way to a client: how many updates were sent and how many written, so that a client that does not
/// read costs little, and whether it said its last word.
///
/// The library queues without a bound. Whoever sends many waits for [`room`](Self::room) before each.
#[derive(Debug, Default)]
pub(super) struct ClientWire {
    sent: AtomicU64,
    written: AtomicU64,
    moved: Notify,
    ended: CancellationToken,
}

impl ClientWire {
    /// Waits until one more update may be sent. Returns at once where nothing waits.
    pub(super) async fn room(&self) {
        loop {
            let moved = self.moved.notified();
            if self.waiting() < WAITING_UPDATES {
                return;
            }
            moved.await;
        }
    }

    /// Waits until the client has said its last word, or takes nothing any more.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Keeps in mind that the client has said its last word, or takes nothing any more.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns whether the client is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns whether so much waits that nothing may be added.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= MOST_UPDATES
    }

    /// Counts an update that is sent.
    pub(super) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    fn waiting(&self) -> u64 {
        self.sent.load(Ordering::Acquire).saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// Counts a message that is written, if it is an update.
    pub(super) fn written(&self, message: &[u8]) {
        let head = message.get(..UPDATE_WITHIN).unwrap_or(message);
        if head.windows(UPDATE.len()).any(|part| part == UPDATE) {
            self.written.fetch_add(1, Ordering::AcqRel);
            self.moved.notify_waiters();
        }
    }
}

/// Makes a transport of two streams of bytes.
pub(super) fn lines(
    incoming: impl AsyncRead + Send + Unpin + 'static,
    outgoing: impl AsyncWrite + Send + Unpin + 'static,
    wire: Arc<ClientWire>,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let reader = BufReader::with_capacity(64 << 10, incoming);
    let ended = wire.ended.clone();
    let incoming = stream::try_unfold((reader, ended), |(mut reader, ended)| async move {
        let line = next_line(&mut reader).await;
        if !matches!(line, Ok(Some(_))) {
            ended.cancel();
        }
        Ok(line?.map(|line| (line, (reader, ended))))
    });
    Lines::new(LineSink { writer: outgoing, line: Vec::new(), written: 0, wire }, incoming)
}

/// Reads a line without its end; none at the end of the stream. A line that is too long or no UTF-8 becomes [`JUNK`], and
/// empty lines are passed over.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let buffer = match reader.fill_buf().await {
                Ok(buffer) => buffer,
                // A client that is gone, whichever way.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                if line.is_empty() && !is_too_long {
                    return Ok(None);
                }
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(buffer.len());
            if line.len() + taken > LONGEST_LINE {
                (is_too_long, line) = (true, Vec::new());
            } else if !is_too_long {
                line.extend(buffer.iter().take(taken));
            }
            reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        if is_too_long {
            return Ok(Some(JUNK.to_owned()));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Some(String::from_utf8(line).unwrap_or_else(|_| JUNK.to_owned())));
        }
    }
}

/// Writes lines, and counts them.
struct LineSink<W> {
    writer: W,
    line: Vec<u8>,
    written: usize,
    wire: Arc<ClientWire>,
}

impl<W: AsyncWrite + Unpin> LineSink<W> {
    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.line.get(self.written..).filter(|rest| !rest.is_empty()) {
            let written = std::task::ready!(Pin::new(&mut self.writer).poll_write(cx, rest));
            match written {
                Ok(count) if count > 0 => self.written += count,
                // A client that takes nothing any more is gone.
                failed => {
                    self.wire.ended.cancel();
                    failed?;
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> Sink<String> for LineSink<W> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_all(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, line: String) -> io::Result<()> {
        self.wire.written(line.as_bytes());
        self.line = line.into_bytes();
        self.line.push(b'\n');
        self.written = 0;
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_write_all(cx))?;
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_write_all(cx))?;
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Vec<String> {
        let mut reader = BufReader::with_capacity(7, bytes);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_end_as_they_like_and_empty_ones_are_none() {
        assert_eq!(read(b"one\r\n\n  \ntwo and more\nlast").await, ["one", "two and more", "last"]);
        assert_eq!(read(b"").await, [""; 0]);
    }

    #[tokio::test]
    async fn what_is_no_text_and_what_is_too_long_is_junk_and_the_next_line_is_read() {
        assert_eq!(read(b"\xff\xfe\nok\n").await, [JUNK, "ok"]);
        let mut long = vec![b'x'; LONGEST_LINE + 1];
        long.extend(b"\nok\n");
        let mut reader = BufReader::new(long.as_slice());
        assert_eq!(next_line(&mut reader).await.unwrap().as_deref(), Some(JUNK));
        assert_eq!(next_line(&mut reader).await.unwrap().as_deref(), Some("ok"));
    }

    #[test]
    fn what_nobody_waits_for_is_bounded_as_well() {
        let wire = ClientWire::default();
        let sent = (0..2 * MOST_UPDATES).filter(|_| !wire.is_full()).map(|_| wire.sent()).count();
        assert_eq!(sent as u64, MOST_UPDATES);
    }

    #[tokio::test]
    async fn whoever_sends_much_waits_until_it_is_written() {
        let wire = ClientWire::default();
        for _ in 0..WAITING_UPDATES {
            wire.room().await;
            wire.sent();
        }
        let mut room = std::pin::pin!(wire.room());
        assert!(futures_util::poll!(room.as_mut()).is_pending());
        wire.written(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        assert!(futures_util::poll!(room.as_mut()).is_pending(), "an answer is no update");
        wire.written(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}");
        assert!(futures_util::poll!(room.as_mut()).is_ready());
    }
}
