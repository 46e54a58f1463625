//! Reads one reply to the end of its body.

use std::time::Duration;

use crow_core::model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind};
use reqwest::Response;
use tokio::time::Instant;

use super::outgoing::Outgoing;
use crate::{classify::broken_reply, codec::Decoder, sse::EventReader};

/// How long after its end mark the end of a body is waited for. Then the connection is not worth it.
const AFTER_END: Duration = Duration::from_millis(200);
/// No model says more in one reply.
const MAX_REPLY: usize = 32 * 1024 * 1024;

/// A reply that is being read.
pub(super) struct Reading {
    response: Response,
    decoder: Box<dyn Decoder>,
    reader: EventReader,
    request_id: Option<String>,
    /// When the wait for the end of the body is over; set when the end mark came.
    deadline: Option<Instant>,
    size: usize,
    has_begun: bool,
}

/// What a read brought.
pub(super) enum Read {
    /// The reply goes on.
    More,
    /// The reply is complete.
    Complete(Box<ModelReply>),
}

impl Reading {
    pub(super) fn new(response: Response, decoder: Box<dyn Decoder>) -> Self {
        let request_id = Outgoing::request_id(&response);
        let (reader, deadline, size, has_begun) = (EventReader::new(), None, 0, false);
        Self { response, decoder, reader, request_id, deadline, size, has_begun }
    }

    /// Waits for the next bytes and pushes what they mean.
    pub(super) async fn read(
        &mut self,
        idle: Duration,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Read, ProviderError> {
        let before = out.len();
        let outcome = self.read_chunk(idle, out).await;
        self.has_begun |= out.len() > before;
        outcome.map_err(|mut error| {
            error.mid_stream = self.has_begun;
            error.request_id = error.request_id.or_else(|| self.request_id.clone());
            error
        })
    }

    async fn read_chunk(
        &mut self,
        idle: Duration,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Read, ProviderError> {
        let limit = self.deadline.unwrap_or_else(|| Instant::now() + idle);
        let chunk = tokio::time::timeout_at(limit, self.response.chunk()).await;
        // After the end mark nothing can spoil the reply.
        let is_complete = self.deadline.is_some();
        match chunk {
            Ok(Ok(Some(bytes))) => {
                self.size += bytes.len();
                match self.take_in(&bytes, out) {
                    Err(error) if !is_complete => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                if self.deadline.is_none() && self.decoder.is_complete() {
                    self.deadline = Some(Instant::now() + AFTER_END);
                }
                Ok(Read::More)
            }
            Ok(Ok(None)) => self.end(out),
            Ok(Err(_)) | Err(_) if is_complete => self.finish(),
            Ok(Err(error)) => Err(broken_reply(&error)),
            Err(_) => {
                let message = format!("nothing came for {} s", idle.as_secs_f32());
                Err(ProviderError::new(ProviderErrorKind::Timeout, message))
            }
        }
    }

    fn take_in(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.size > MAX_REPLY {
            let message = format!("the reply has more than {MAX_REPLY} bytes");
            return Err(ProviderError::new(ProviderErrorKind::Decode, message));
        }
        let decoder = &mut self.decoder;
        self.reader.feed(bytes, &mut |name, data| decoder.on_event(name, data, out))
    }

    fn finish(&mut self) -> Result<Read, ProviderError> {
        Ok(Read::Complete(Box::new(self.decoder.finish()?)))
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<Read, ProviderError> {
        let was_complete = self.decoder.is_complete();
        let decoder = &mut self.decoder;
        let last = self.reader.finish(&mut |name, data| decoder.on_event(name, data, out));
        match last {
            // An event that is cut in its middle: what it lacks is what counts.
            Err(error) if !was_complete && error.kind != ProviderErrorKind::Decode => Err(error),
            Ok(()) | Err(_) => self.finish(),
        }
    }
}
