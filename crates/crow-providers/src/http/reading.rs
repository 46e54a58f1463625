//! Reading of one reply to the end of its body.

use std::time::Duration;

use crow_core::model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, RateLimitWait};
use reqwest::Response;
use tokio::time::Instant;

use super::{
    attempt_timeouts::{AttemptTimeouts, ExpiredTimeout},
    outgoing::OutgoingRequest,
};
use crate::{
    classify::body_error, codec::Decoder, retry::AttemptProgress, sse::EventReader,
    surrogates::without_lone_surrogates,
};

/// Time limit for the end of a body after its end mark. A longer wait is not worth the connection.
const AFTER_END: Duration = Duration::from_millis(200);
/// Maximum bytes of a reply. No model sends more.
const MAX_REPLY: usize = 32 * 1024 * 1024;

/// A reply in progress.
pub(super) struct ReplyReader {
    response: Response,
    decoder: Box<dyn Decoder>,
    reader: EventReader,
    request_id: Option<String>,
    /// Time limit for the end of the body, set when the end mark has arrived.
    deadline: Option<Instant>,
    size: usize,
    has_begun: bool,
    /// Data of the last event. An event that repeats it and has no result counts as a keep-alive.
    last_event: String,
}

/// Result of a read.
pub(super) enum BodyRead {
    /// The reply continues.
    More,
    /// No part of the reply has arrived for a while.
    Silent(RateLimitWait),
    /// The reply is complete.
    Complete(Box<ModelReply>),
}

impl ReplyReader {
    pub(super) fn new(response: Response, decoder: Box<dyn Decoder>) -> Self {
        let request_id = OutgoingRequest::request_id(&response);
        let (reader, deadline, size, has_begun) = (EventReader::new(), None, 0, false);
        let last_event = String::new();
        Self { response, decoder, reader, request_id, deadline, size, has_begun, last_event }
    }

    /// Returns the reach of the attempt, if it fails now. A reply that is too long would be so again.
    pub(super) fn progress(&self) -> AttemptProgress {
        if self.size > MAX_REPLY { AttemptProgress::Permanent } else { AttemptProgress::Answered }
    }

    /// Waits for the next bytes and pushes the resulting events to `out`.
    pub(super) async fn read(
        &mut self,
        patience: &mut AttemptTimeouts,
        out: &mut Vec<ModelEvent>,
    ) -> Result<BodyRead, ProviderError> {
        let before = out.len();
        let outcome = self.read_chunk(patience, out).await;
        self.has_begun |= out.len() > before;
        outcome.map_err(|mut error| {
            error.mid_stream = self.has_begun;
            error.request_id = error.request_id.or_else(|| self.request_id.clone());
            error
        })
    }

    async fn read_chunk(
        &mut self,
        patience: &mut AttemptTimeouts,
        out: &mut Vec<ModelEvent>,
    ) -> Result<BodyRead, ProviderError> {
        let limit = self.deadline.unwrap_or_else(|| patience.next());
        let chunk = tokio::time::timeout_at(limit, self.response.chunk()).await;
        // After the end mark no failure can spoil the reply.
        let is_complete = self.deadline.is_some();
        match chunk {
            Ok(Ok(Some(bytes))) => {
                self.size += bytes.len();
                patience.on_bytes();
                match self.decode(&bytes, patience, out) {
                    Err(error) if !is_complete => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                if self.deadline.is_none() && self.decoder.is_complete() {
                    self.deadline = Some(Instant::now() + AFTER_END);
                }
                Ok(BodyRead::More)
            }
            Ok(Ok(None)) => self.end(out),
            Ok(Err(_)) | Err(_) if is_complete => self.finish(),
            Ok(Err(error)) => Err(body_error(&error)),
            Err(_) => match patience.expired() {
                ExpiredTimeout::Notice(wait) => Ok(BodyRead::Silent(wait)),
                ExpiredTimeout::Nothing => Ok(BodyRead::More),
                ExpiredTimeout::TimedOut(error) => Err(error),
            },
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        patience: &mut AttemptTimeouts,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if self.size > MAX_REPLY {
            let message = format!("the reply has more than {MAX_REPLY} bytes");
            return Err(ProviderError::new(ProviderErrorKind::Decode, message));
        }
        let decoder = &mut self.decoder;
        let last_event = &mut self.last_event;
        self.reader.feed(bytes, &mut |name, data| {
            let before = out.len();
            let outcome = decoder.on_event(name, &without_lone_surrogates(data), out);
            // Progress is an event with a result, or one that is neither a keep-alive nor a repetition.
            if out.len() > before || (!is_keep_alive(name, data) && last_event != data) {
                patience.on_part();
            }
            data.clone_into(last_event);
            outcome
        })
    }

    fn finish(&mut self) -> Result<BodyRead, ProviderError> {
        Ok(BodyRead::Complete(Box::new(self.decoder.finish()?)))
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<BodyRead, ProviderError> {
        let was_complete = self.decoder.is_complete();
        let decoder = &mut self.decoder;
        let last = self
            .reader
            .finish(&mut |name, data| decoder.on_event(name, &without_lone_surrogates(data), out));
        match last {
            // The last event was cut: the missing end mark is the error to report.
            Err(error) if !was_complete && error.kind != ProviderErrorKind::Decode => Err(error),
            Ok(()) | Err(_) => self.finish(),
        }
    }
}

/// Returns true if an event only keeps the connection alive.
fn is_keep_alive(name: &str, data: &str) -> bool {
    let is_ping = |word: &str| ["ping", "keepalive", "keep-alive"].contains(&word);
    let kind = data.trim_start_matches(['{', ' ']).strip_prefix("\"type\"");
    let kind = kind.map(|rest| rest.trim_start_matches([':', ' ', '"']));
    is_ping(name)
        || matches!(data.trim(), "" | "{}")
        || kind.and_then(|kind| kind.split('"').next()).is_some_and(is_ping)
}
