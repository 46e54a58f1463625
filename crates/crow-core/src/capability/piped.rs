//! Processes with piped standard streams. Only the runtime starts them.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures_io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{ProcessEnd, ProcessError};

/// A process to communicate with over its standard streams.
#[derive(Debug, Clone)]
pub struct PipedSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Variables in addition to the environment that the runtime gives to every process.
    pub env: BTreeMap<String, String>,
    /// Receives the end of its standard error.
    pub stderr_tail: OutputTail,
}

/// A running process.
pub struct PipedProcess {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Runs it to its end, and ends its group when the token is cancelled. It also reads standard error, so it must
    /// be polled all the time. Dropping it kills the process and its group.
    pub end: Pin<Box<dyn Future<Output = Result<ProcessEnd, ProcessError>> + Send>>,
}

impl fmt::Debug for PipedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProcess").finish_non_exhaustive()
    }
}

/// The last bytes of a stream, readable while it is written.
#[derive(Debug, Clone)]
pub struct OutputTail {
    capacity: usize,
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl OutputTail {
    /// Makes a tail of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, bytes: Arc::default() }
    }

    /// Appends bytes and drops the oldest ones beyond the capacity.
    pub fn push(&self, bytes: &[u8]) {
        let tail = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let mut buffer = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (buffer.len() + tail.len()).saturating_sub(self.capacity);
        buffer.drain(..excess);
        buffer.extend(tail);
    }

    /// Returns the bytes as text.
    pub fn to_text(&self) -> String {
        let mut buffer = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(buffer.make_contiguous()).into_owned()
    }
}

/// Starts processes with piped streams, each in its own process group, and leaves none behind.
///
/// They are programs that the user configured, and run as long as they are used. The sandbox of commands does not
/// apply to them: they need their own files and the network.
#[async_trait]
pub trait PipedProcesses: Send + Sync + fmt::Debug {
    /// Starts a process that ends when `cancellation` is cancelled.
    async fn start(
        &self,
        spec: PipedSpec,
        cancellation: CancellationToken,
    ) -> Result<PipedProcess, ProcessError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_bytes_and_no_more() {
        let tail = OutputTail::new(4);
        for part in ["ab", "c", "", "defgh", "i"] {
            tail.push(part.as_bytes());
        }
        assert_eq!(tail.to_text(), "fghi");
    }
}
