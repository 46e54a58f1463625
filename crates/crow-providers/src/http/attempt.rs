//! One attempt: a request that can be sent several times, and the reading of one reply to the end of its body.

use std::time::Duration;

use bytes::Bytes;
use crow_core::model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, RateLimitWait};
use reqwest::{
    Response, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use tokio::time::{Instant, error::Elapsed};

use super::{
    HttpClient, Timeouts,
    body_reader::BodyReader,
    timeouts::{AttemptTimeouts, ExpiredTimeout},
    wire_log::WireRecorder,
};
use crate::{
    classify::{ErrorAnswer, answer_error, body_error, request_id, send_error, shorten},
    codec::Decoder,
    retry::{AttemptFailure, AttemptProgress},
    secret::Secrets,
    sse::{EventReader, without_lone_surrogates},
};

/// Time limit for each piece of an answer that is no reply.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes that are read of an answer that is no reply.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// A request that can be sent several times.
pub(crate) struct OutgoingRequest {
    pub(crate) client: HttpClient,
    pub(crate) provider: String,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) timeouts: Timeouts,
    pub(crate) secrets: Secrets,
}

impl OutgoingRequest {
    /// Starts to record an attempt, for those who ask for it.
    pub(super) fn recorder(&self, attempt: u32) -> WireRecorder {
        let Some(log) = self.client.wire_log() else { return WireRecorder::default() };
        let names = (self.provider.as_str(), redact_url(&self.url), attempt);
        WireRecorder::start(log, self.secrets.clone(), names, &self.body)
    }

    /// Sends the request and returns the answer when its head has arrived, if it may be an event stream. The recorder
    /// gets the body of an answer that is no reply. The caller limits the time.
    pub(super) async fn send(&self, recorder: &WireRecorder) -> Result<Response, AttemptFailure> {
        let client = self.client.for_url(&self.url).await.map_err(|error| AttemptFailure {
            error: ProviderError::new(ProviderErrorKind::Network, error.to_string()),
            progress: AttemptProgress::Permanent,
        })?;
        let request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(self.body.clone())
            .send();
        let response = request
            .await
            .map_err(|error| send_error(&error, &self.host(), self.client.connect_timeout()))?;
        if is_stream(&response) {
            return Ok(response);
        }
        let error = self.read_error(response, recorder).await;
        // An answer that is no stream at all will not be one at the next attempt.
        let is_foreign = error.kind == ProviderErrorKind::Decode;
        let reach = if is_foreign { AttemptProgress::Permanent } else { AttemptProgress::Answered };
        Err(AttemptFailure { error, progress: reach })
    }

    /// Adds provider and address to an error, and removes secrets from it.
    pub(super) fn complete(&self, mut error: ProviderError) -> ProviderError {
        error.provider.clone_from(&self.provider);
        error.url = redact_url(&self.url);
        for text in [Some(&mut error.message), error.code.as_mut(), error.request_id.as_mut()] {
            let Some(text) = text else { continue };
            self.secrets.redact(text);
            shorten(text);
        }
        self.secrets.redact(&mut error.url);
        error
    }

    async fn read_error(&self, mut response: Response, recorder: &WireRecorder) -> ProviderError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        // A partial body is better than none. Read to its end, the connection can be reused.
        while let Ok(Ok(Some(chunk))) =
            tokio::time::timeout(ERROR_BODY_TIMEOUT, response.chunk()).await
        {
            recorder.on_bytes(&chunk);
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ERROR_BODY {
                break;
            }
        }
        body.truncate(MAX_ERROR_BODY);
        // Redacted before anything is cut: half a key is a secret, too.
        let mut body = String::from_utf8_lossy(&body).into_owned();
        self.secrets.redact(&mut body);
        answer_error(ErrorAnswer { status, headers: &headers, body: &body })
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

/// Returns an address without the parts that may be secret.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for addresses that cannot have a user.
    if url.set_password(None).is_ok() && url.set_username("").is_ok() {
        return url.into();
    }
    url.path().to_owned()
}

/// Returns true if an answer may be an event stream. Some servers do not declare it, but none streams as JSON or HTML.
fn is_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    response.status().is_success() && !matches!(kind.as_str(), "application/json" | "text/html")
}

/// Time limit for the end of a body after its end mark. A longer wait is not worth the connection.
const AFTER_END: Duration = Duration::from_millis(200);
/// Maximum bytes of a reply. No model sends more.
const MAX_REPLY: usize = 32 * 1024 * 1024;

/// A reply in progress.
pub(super) struct ReplyReader {
    body: BodyReader,
    decoder: Box<dyn Decoder>,
    reader: EventReader,
    request_id: Option<String>,
    /// Time limit for the end of the body, set when the end mark has arrived.
    deadline: Option<Instant>,
    size: usize,
    has_begun: bool,
    recorder: WireRecorder,
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
    pub(super) fn new(
        response: Response,
        decoder: Box<dyn Decoder>,
        recorder: WireRecorder,
    ) -> Self {
        let request_id = request_id(response.headers());
        let (reader, deadline, size, has_begun) = (EventReader::new(), None, 0, false);
        let last_event = String::new();
        Self {
            body: BodyReader::start(response),
            decoder,
            reader,
            request_id,
            deadline,
            size,
            has_begun,
            recorder,
            last_event,
        }
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
        let limit = self.deadline.unwrap_or_else(|| patience.next());
        let part = tokio::time::timeout_at(limit, self.body.next()).await;
        let outcome = self.on_part(part, patience, out);
        self.has_begun |= out.len() > before;
        outcome.map_err(|mut error| {
            error.mid_stream = self.has_begun;
            error.request_id = error.request_id.or_else(|| self.request_id.clone());
            error
        })
    }

    /// Handles the end of waiting for a part of the body.
    fn on_part(
        &mut self,
        part: Result<reqwest::Result<Option<Bytes>>, Elapsed>,
        patience: &mut AttemptTimeouts,
        out: &mut Vec<ModelEvent>,
    ) -> Result<BodyRead, ProviderError> {
        // After the end mark no failure can spoil the reply.
        let is_complete = self.deadline.is_some();
        match part {
            Ok(Ok(Some(bytes))) => {
                self.take_bytes(&bytes, patience, out)?;
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

    /// Decodes a part of the reply. After the end mark it is only read.
    fn take_bytes(
        &mut self,
        bytes: &[u8],
        patience: &mut AttemptTimeouts,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        self.size += bytes.len();
        self.recorder.on_bytes(bytes);
        patience.on_bytes();
        let is_complete = self.deadline.is_some();
        match self.decode(bytes, patience, out) {
            Err(error) if !is_complete => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if self.deadline.is_none() && self.decoder.is_complete() {
            self.deadline = Some(Instant::now() + AFTER_END);
        }
        Ok(())
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
