//! The wire log: bodies of requests to model providers and of their responses.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::secret::Secrets;

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

/// Collects one attempt, if somebody wants it. Clones collect the same attempt; the first that finishes it records it.
#[derive(Clone, Default)]
pub(super) struct WireRecorder(Option<Arc<Mutex<Option<OpenExchange>>>>);

/// An attempt under way: the exchange without what its end adds.
struct OpenExchange {
    log: Arc<dyn WireLog>,
    exchange: WireExchange,
    response: Vec<u8>,
    sent_at: Instant,
    secrets: Secrets,
}

impl WireRecorder {
    /// Starts to collect an attempt whose request is sent now.
    pub(super) fn start(
        log: Arc<dyn WireLog>,
        secrets: Secrets,
        (provider, url, attempt): (&str, String, u32),
        body: &Bytes,
    ) -> Self {
        let exchange = WireExchange {
            time: Timestamp::now(),
            provider: provider.to_owned(),
            url,
            attempt,
            duration_ms: 0,
            request: String::from_utf8_lossy(body).into_owned(),
            response: String::new(),
            error: None,
        };
        let open =
            OpenExchange { log, exchange, response: Vec::new(), sent_at: Instant::now(), secrets };
        Self(Some(Arc::new(Mutex::new(Some(open)))))
    }

    /// Takes bytes of the reply.
    pub(super) fn on_bytes(&self, bytes: &[u8]) {
        let Some(open) = &self.0 else { return };
        if let Some(open) = &mut *open.lock().unwrap_or_else(PoisonError::into_inner) {
            let room = MAX_RESPONSE - open.response.len();
            open.response.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Records the attempt, unless that was done, with the reason why it failed, if it did.
    pub(super) fn finish(&self, error: Option<&str>) {
        let Some(open) = &self.0 else { return };
        let open = open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(OpenExchange { log, mut exchange, response, sent_at, secrets }) = open else {
            return;
        };
        exchange.response = String::from_utf8_lossy(&response).into_owned();
        exchange.error = error.map(str::to_owned);
        exchange.duration_ms = u64::try_from(sent_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        secrets.redact(&mut exchange.request);
        secrets.redact(&mut exchange.response);
        log.record(exchange);
    }
}
