//! Transport over the streams of a process: one JSON message per line.

use std::{io, sync::Arc};

use futures_io::{AsyncRead, AsyncWrite};
use rmcp::{
    RoleClient,
    model::{ErrorData, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    sync::Mutex,
};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, FuturesAsyncWriteCompatExt as _};

use super::guarded::{LARGEST_MESSAGE, TransportState};
use crate::text;

/// Maximum number of lines in a row that are not messages: some programs print other text.
const MOST_JUNK: u32 = 1000;

type LineInput = BufReader<Compat<Box<dyn AsyncRead + Send + Unpin>>>;
type LineOutput = Compat<Box<dyn AsyncWrite + Send + Unpin>>;

/// Transport over the streams of a process.
pub(crate) struct LineTransport {
    reader: LineInput,
    /// The beginning of the next line. It survives a dropped `receive`.
    line: Vec<u8>,
    junk: u32,
    writer: Arc<Mutex<Option<LineOutput>>>,
    transport_state: Arc<TransportState>,
}

/// An answer of which only the id can be parsed.
#[derive(Deserialize)]
struct OnlyId {
    id: RequestId,
    #[serde(default)]
    method: Option<serde_json::Value>,
}

impl LineTransport {
    pub(crate) fn new(
        output: Box<dyn AsyncRead + Send + Unpin>,
        input: Box<dyn AsyncWrite + Send + Unpin>,
        wire: Arc<TransportState>,
    ) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, output.compat()),
            line: Vec::new(),
            junk: 0,
            writer: Arc::new(Mutex::new(Some(input.compat_write()))),
            transport_state: wire,
        }
    }

    /// Reads into `line` up to the end of a line. Loses nothing when it is dropped. Returns false at the end of the
    /// stream, on a read error, and for a line that is too long; only the last records a reason.
    async fn read_line(&mut self) -> bool {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::debug!(%error, "the output of a server cannot be read");
                    return false;
                }
            };
            if available.is_empty() {
                return false;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > LARGEST_MESSAGE {
                let most = LARGEST_MESSAGE / 1024 / 1024;
                self.transport_state.fail(format!("it sent a message of more than {most} MiB"));
                return false;
            }
            self.line.extend(available.iter().take(taken));
            self.reader.consume(taken);
            if end.is_some() {
                return true;
            }
        }
    }

    /// Parses the line as a message. Lines that are not messages are counted; too many in a row are an error.
    fn parse_line(&mut self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, ()> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        if let Ok(message) = serde_json::from_slice(line) {
            self.junk = 0;
            return Ok(Some(message));
        }
        // Fails the request that waits for this answer.
        if let Ok(OnlyId { id, method: None }) = serde_json::from_slice(line) {
            let error = ErrorData::internal_error("the answer is invalid", None);
            return Ok(Some(RxJsonRpcMessage::<RoleClient>::error(error, Some(id))));
        }
        self.junk += 1;
        tracing::debug!(junk = self.junk, "a line that is no message");
        if self.junk > MOST_JUNK {
            let shown =
                text::one_line(&String::from_utf8_lossy(line.get(..400).unwrap_or(line)), 100);
            self.transport_state
                .fail(format!("it prints lines that are not messages, such as: {shown}"));
            return Err(());
        }
        Ok(None)
    }
}

impl Transport<RoleClient> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move {
            let mut bytes = serde_json::to_vec(&item)?;
            bytes.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&bytes).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if !self.read_line().await {
                return None;
            }
            if let Some(message) = self.parse_line().ok()? {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // If the server does not read, a blocked write holds the lock; it ends with the process.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
        Ok(())
    }
}
