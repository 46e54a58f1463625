//! Transport with one message per line over a pair of byte streams, with limits on line length and on unwritten
//! updates.
//!
//! Flow control: a [`ClientWire`] counts the updates handed to the library and those that the transport wrote. The
//! difference is the number in the library's queue, which has no bound of its own. There is one for the connection, or
//! one for each session ([`ClientWires`]).

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
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

/// Largest message that is read, in bytes: it may contain images as base64.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;

/// Replacement for a line that cannot be a message: the library answers it with a parse error.
pub(super) const UNPARSABLE_LINE: &str = "{";

/// Number of unwritten updates at which [`ClientWire::wait_for_room`] waits.
const WAIT_LIMIT: u64 = 256;

/// Number of unwritten updates at which further ones are dropped. It bounds wires on which no task waits for room:
/// those of child sessions, which have streams of their own over HTTP. The log has what a client that does not read
/// loses.
const DROP_LIMIT: u64 = 4096;

/// Text that identifies an update near the beginning of its line.
const UPDATE: &[u8] = b"\"method\":\"session/update\"";
/// Length in bytes of the beginning of a line that is searched for [`UPDATE`].
const UPDATE_WITHIN: usize = 64;

/// State of the transport to a client: counts of updates sent and written, so that a client that does not read costs
/// little memory, and whether the client is gone.
///
/// The library queues without a bound. A task that sends many updates waits for [`wait_for_room`](Self::wait_for_room)
/// before each.
#[derive(Debug, Default)]
pub(super) struct ClientWire {
    sent: AtomicU64,
    written: AtomicU64,
    moved: Notify,
    ended: CancellationToken,
}

impl ClientWire {
    /// Waits until one more update may be sent. Returns at once if fewer than [`WAIT_LIMIT`] are unwritten.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let moved = self.moved.notified();
            if self.waiting() < WAIT_LIMIT {
                return;
            }
            moved.await;
        }
    }

    /// Waits until the client has closed its side, or writing to it has failed.
    pub(super) async fn wait_for_end(&self) {
        self.ended.cancelled().await;
    }

    /// Records that the client has closed its side, or that writing to it has failed.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns true if the client is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns true if so many updates are unwritten that further ones must be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= DROP_LIMIT
    }

    /// Counts an update that was handed to the library.
    pub(super) fn count_sent(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    fn waiting(&self) -> u64 {
        self.sent.load(Ordering::Acquire).saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// Counts a message that the transport writes, if it is an update.
    pub(super) fn count_written(&self, message: &[u8]) {
        let head = message.get(..UPDATE_WITHIN).unwrap_or(message);
        if head.windows(UPDATE.len()).any(|part| part == UPDATE) {
            self.written.fetch_add(1, Ordering::AcqRel);
            self.moved.notify_waiters();
        }
    }
}

/// Creates a transport from two byte streams.
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

/// Reads a line without its line ending; `None` at the end of the stream. A line that is too long or not UTF-8 becomes
/// [`UNPARSABLE_LINE`], and empty lines are skipped.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let buffer = match reader.fill_buf().await {
                Ok(buffer) => buffer,
                // The client is gone: the same as the end of the stream.
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
            let length = end.unwrap_or(buffer.len());
            if line.len() + length > MAX_LINE_BYTES {
                (is_too_long, line) = (true, Vec::new());
            } else if !is_too_long {
                line.extend(buffer.iter().take(length));
            }
            reader.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        if is_too_long {
            return Ok(Some(UNPARSABLE_LINE.to_owned()));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Some(
                String::from_utf8(line).unwrap_or_else(|_| UNPARSABLE_LINE.to_owned()),
            ));
        }
    }
}

/// Writes lines, and counts the updates among them.
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
                // The client no longer reads: it is gone.
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
        self.wire.count_written(line.as_bytes());
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

/// The [`ClientWire`]s of a connection.
#[derive(Debug)]
pub(super) enum ClientWires {
    /// One for all sessions: standard streams and WebSocket.
    Shared(Arc<ClientWire>),
    /// One for each session, by its id: over HTTP every session has its own stream of server-sent events.
    PerSession(Mutex<HashMap<String, Arc<ClientWire>>>),
}

impl ClientWires {
    /// Creates the wires of a client that opens a stream for each session.
    pub(super) fn of_sessions() -> Self {
        Self::PerSession(Mutex::default())
    }

    /// Returns the wire that carries the updates of a session.
    pub(super) fn wire_of(&self, session: &str) -> Arc<ClientWire> {
        match self {
            Self::Shared(wire) => Arc::clone(wire),
            Self::PerSession(wires) => {
                let mut wires = wires.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(wire) = wires.get(session) {
                    return Arc::clone(wire);
                }
                Arc::clone(wires.entry(session.to_owned()).or_default())
            }
        }
    }

    /// Drops the wire of a closed session: its next stream is a new one, and updates that were not read are lost.
    pub(super) fn remove(&self, session: &str) {
        match self {
            Self::Shared(_) => {}
            Self::PerSession(wires) => {
                wires.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
            }
        }
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
    async fn both_line_endings_are_read_and_empty_lines_are_skipped() {
        assert_eq!(read(b"one\r\n\n  \ntwo and more\nlast").await, ["one", "two and more", "last"]);
        assert_eq!(read(b"").await, [""; 0]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_or_not_utf8_is_replaced_and_the_next_one_is_read() {
        assert_eq!(read(b"\xff\xfe\nok\n").await, [UNPARSABLE_LINE, "ok"]);
        let mut long = vec![b'x'; MAX_LINE_BYTES + 1];
        long.extend(b"\nok\n");
        let mut reader = BufReader::new(long.as_slice());
        assert_eq!(next_line(&mut reader).await.unwrap().as_deref(), Some(UNPARSABLE_LINE));
        assert_eq!(next_line(&mut reader).await.unwrap().as_deref(), Some("ok"));
    }

    #[test]
    fn a_wire_is_full_at_the_limit_even_if_no_task_waits_for_room() {
        let wire = ClientWire::default();
        let sent =
            (0..2 * DROP_LIMIT).filter(|_| !wire.is_full()).map(|_| wire.count_sent()).count();
        assert_eq!(sent as u64, DROP_LIMIT);
    }

    #[tokio::test]
    async fn a_sender_waits_for_room_until_an_update_is_written() {
        let wire = ClientWire::default();
        for _ in 0..WAIT_LIMIT {
            wire.wait_for_room().await;
            wire.count_sent();
        }
        let mut room = std::pin::pin!(wire.wait_for_room());
        assert!(futures_util::poll!(room.as_mut()).is_pending());
        wire.count_written(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        assert!(futures_util::poll!(room.as_mut()).is_pending(), "an answer is no update");
        wire.count_written(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}");
        assert!(futures_util::poll!(room.as_mut()).is_ready());
    }
}
