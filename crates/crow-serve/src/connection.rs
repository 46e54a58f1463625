//! Connections: their number and their patience are bounded.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// Maximum number of connections; more wait.
const MAX_CONNECTIONS: usize = 256;
/// Time in which the first bytes of a connection must arrive.
const FIRST_BYTES: Duration = Duration::from_secs(10);
/// Time for which a client may take nothing of what is sent to it.
const STALLED_WRITE: Duration = Duration::from_mins(2);

/// A listener whose connections are [`BoundedStream`]s.
#[derive(Debug)]
pub(crate) struct BoundedListener {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.expect("invariant: the semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Events are small and come one by one: each would be delayed by 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "events may come late");
        }
        (BoundedStream::new(stream, room), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends if nothing comes at its beginning, or if the client takes nothing for a long time.
#[derive(Debug)]
pub(crate) struct BoundedStream {
    stream: TcpStream,
    /// The limit for the first bytes; `None` after them.
    first_bytes: Option<Pin<Box<Sleep>>>,
    /// The limit for a write that waits.
    stalled_write: Option<Pin<Box<Sleep>>>,
    _room: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: TcpStream, room: OwnedSemaphorePermit) -> Self {
        let first_bytes = Some(Box::pin(sleep(FIRST_BYTES)));
        Self { stream, first_bytes, stalled_write: None, _room: room }
    }

    /// Passes on what a write says, and fails if it has waited for too long.
    fn limit<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled_write = None;
            return written;
        }
        let limit = self.stalled_write.get_or_insert_with(|| Box::pin(sleep(STALLED_WRITE)));
        ready!(limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.first_bytes = None;
            return read;
        }
        match &mut self.first_bytes {
            Some(limit) => {
                ready!(limit.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn connected() -> (TcpStream, BoundedStream) {
        let mut listener = BoundedListener::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await;
        assert!(server.stream.nodelay().unwrap());
        (client, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_at_first_ends() {
        let (_client, mut server) = connected().await;
        let error = server.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_client_takes_nothing_ends() {
        let (_client, mut server) = connected().await;
        let bytes = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = server.write(&bytes).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
