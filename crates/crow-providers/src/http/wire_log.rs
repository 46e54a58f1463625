//! The wire log: bodies of requests to model providers and of their responses.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;

/// Maximum bytes of a reply that are kept.
pub(super) const MAX_RESPONSE: usize = 4 << 20;

/// One attempt at a model call, as it went over the wire. Without headers: they have keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireExchange {
    /// When the request was sent.
    pub time: Timestamp,
    /// The provider.
    pub provider: String,
    /// The address, without query.
    pub url: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The body of the request.
    pub request: String,
    /// The body of the reply, cut after 4 MiB; empty if there was none.
    pub response: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Receiver of what goes over the wire. The provider's own keys are redacted already. It must not block for long.
pub trait WireLog: Send + Sync + fmt::Debug {
    /// Takes an attempt that ended.
    fn record(&self, exchange: WireExchange);
}

/// Collects one attempt, if somebody wants it.
#[derive(Debug, Default)]
pub(super) struct WireRecorder {
    log: Option<Arc<dyn WireLog>>,
    response: Vec<u8>,
}

impl WireRecorder {
    pub(super) fn new(log: Option<Arc<dyn WireLog>>) -> Self {
        Self { log, response: Vec::new() }
    }

    /// Takes bytes of the reply.
    pub(super) fn on_bytes(&mut self, bytes: &[u8]) {
        if self.log.is_some() {
            let room = MAX_RESPONSE - self.response.len();
            self.response.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Records the attempt. `describe` completes it from its request and reply.
    pub(super) fn finish(
        &mut self,
        body: &Bytes,
        describe: impl FnOnce(String, String) -> WireExchange,
    ) {
        let Some(log) = &self.log else { return };
        let response = std::mem::take(&mut self.response);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        log.record(describe(text(body), text(&response)));
    }
}
