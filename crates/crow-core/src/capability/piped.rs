//! Processes that are spoken to. The runtime alone starts them.

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

/// A process to speak to over its standard streams.
#[derive(Debug, Clone)]
pub struct PipedSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Variables on top of the environment that the runtime gives to every process.
    pub env: BTreeMap<String, String>,
    /// Takes the end of what it prints on standard error.
    pub errors: OutputTail,
}

/// A process under way.
pub struct PipedProcess {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Runs it to its end, and ends its group when the token is cancelled. Nobody else takes what it prints on standard
    /// error, so it is to be polled all the time. Dropping it kills the process and its group.
    pub end: Pin<Box<dyn Future<Output = Result<ProcessEnd, ProcessError>> + Send>>,
}

impl fmt::Debug for PipedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProcess").finish_non_exhaustive()
    }
}

/// The last bytes of a stream, for whoever asks while it goes on.
#[derive(Debug, Clone)]
pub struct OutputTail {
    most: usize,
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl OutputTail {
    /// Keeps so many bytes.
    pub fn new(most: usize) -> Self {
        Self { most, bytes: Arc::default() }
    }

    /// Takes in the next bytes.
    pub fn push(&self, bytes: &[u8]) {
        let kept = bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default();
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (all.len() + kept.len()).saturating_sub(self.most);
        all.drain(..over);
        all.extend(kept);
    }

    /// Returns what is kept, as text.
    pub fn to_text(&self) -> String {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(all.make_contiguous()).into_owned()
    }
}

/// Starts processes that are spoken to, each in its own group, and leaves none behind.
///
/// They are programs that the user configured, and serve as long as somebody speaks to them. No sandbox of commands holds
/// them: they need their own files and the network.
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
