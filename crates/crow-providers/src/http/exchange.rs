//! One request and its reply, with retries.
//!
//! [`Exchange`] is a state machine behind a stream: it waits, sends the request, reads the reply, and ends. A failure
//! leads back to the wait if there is a decoder left, the time is not used up and the policy allows a retry; otherwise
//! the error is the last item. Events are queued in `ready` and returned before the next step runs.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crow_core::{
    ids::CallId,
    message::ReplyContent,
    model::{ModelEvent, ModelReply, ModelStream, ProviderError, Retry},
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use jiff::Timestamp;
use reqwest::Response;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::{
    attempt::{BodyRead, OutgoingRequest, ReplyReader},
    timeouts::{AttemptTimeouts, ExpiredTimeout},
    wire_log::WireRecorder,
};
use crate::{
    codec::Decoder,
    retry::{AttemptFailure, AttemptProgress, RetryPolicy, Schedule, wait_in_words},
    secret::Secrets,
};

/// Sends a request and returns its reply as a stream. Nothing is sent before the stream is polled.
///
/// There is a decoder for each attempt, because the stream outlives the codec's borrow.
pub(crate) fn exchange(
    outgoing: OutgoingRequest,
    decoders: Vec<Box<dyn Decoder>>,
    policy: RetryPolicy,
) -> ModelStream {
    let exchange = Exchange {
        timeouts: AttemptTimeouts::new(outgoing.timeouts),
        outgoing: Arc::new(outgoing),
        decoders,
        policy,
        schedule: None,
        phase: ExchangePhase::Waiting(Duration::ZERO),
        attempt: 0,
        span: Span::none(),
        sent_at: Instant::now(),
        recorder: WireRecorder::default(),
        has_begun: false,
        new_events: Vec::new(),
        queued_events: VecDeque::new(),
    };
    let items = stream::unfold(exchange, |mut exchange| async move {
        let item = exchange.next().await?;
        Some((item, exchange))
    });
    // Polled again after its end, it returns the end again.
    Box::pin(items.fuse())
}

struct Exchange {
    outgoing: Arc<OutgoingRequest>,
    /// Timeouts of the current attempt.
    timeouts: AttemptTimeouts,
    decoders: Vec<Box<dyn Decoder>>,
    policy: RetryPolicy,
    /// Set at the first attempt.
    schedule: Option<Schedule>,
    phase: ExchangePhase,
    /// Number of the current attempt, from 1.
    attempt: u32,
    /// Span of the current attempt.
    span: Span,
    /// Start of the current attempt.
    sent_at: Instant,
    /// Collects the current attempt for the wire log.
    recorder: WireRecorder,
    /// True once a part of the current attempt's reply was received.
    has_begun: bool,
    /// Events of the last read.
    new_events: Vec<ModelEvent>,
    /// Events that were not yet returned.
    queued_events: VecDeque<ModelEvent>,
}

/// Future of the head of an answer.
type ResponseHead = BoxFuture<'static, Result<Response, AttemptFailure>>;

enum ExchangePhase {
    /// Sends the request after this delay.
    Waiting(Duration),
    /// Waits for the head of the answer.
    Sending(ResponseHead, Box<dyn Decoder>),
    /// Reads the reply.
    Reading(Box<ReplyReader>),
    /// Returns the error.
    Failed(ProviderError),
    /// Has returned everything.
    Over,
}

/// An exchange that is dropped before its end was cancelled, which the wire log tells.
impl Drop for Exchange {
    fn drop(&mut self) {
        self.recorder.finish(Some("cancelled"));
    }
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.queued_events.pop_front() {
                return Some(Ok(event));
            }
            // The phase is `Over` until the step sets the next one.
            let span = self.span.clone();
            match std::mem::replace(&mut self.phase, ExchangePhase::Over) {
                ExchangePhase::Over => return None,
                ExchangePhase::Failed(error) => return Some(Err(error)),
                ExchangePhase::Waiting(wait) => self.send(wait).await,
                ExchangePhase::Sending(answer, decoder) => {
                    self.await_answer(answer, decoder).instrument(span).await;
                }
                ExchangePhase::Reading(reading) => self.read(reading).instrument(span).await,
            }
        }
    }

    async fn send(&mut self, wait: Duration) {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        self.schedule.get_or_insert_with(|| Schedule::new(self.policy.clone()));
        // Each attempt uses up a decoder, since a failed one has read a part of a reply.
        let decoder = self.decoders.pop().expect("invariant: a decoder is left for each attempt");
        self.timeouts = AttemptTimeouts::new(self.outgoing.timeouts);
        let outgoing = Arc::clone(&self.outgoing);
        self.attempt += 1;
        self.recorder = outgoing.recorder(self.attempt);
        let recorder = self.recorder.clone();
        (self.sent_at, self.has_begun) = (Instant::now(), false);
        self.span = tracing::debug_span!(
            "attempt",
            attempt = self.attempt,
            provider = outgoing.provider,
            status = tracing::field::Empty
        );
        self.span.in_scope(|| tracing::debug!(bytes = outgoing.body.len(), "request sent"));
        self.phase =
            ExchangePhase::Sending(async move { outgoing.send(&recorder).await }.boxed(), decoder);
    }

    async fn await_answer(&mut self, mut answer: ResponseHead, decoder: Box<dyn Decoder>) {
        match tokio::time::timeout_at(self.timeouts.next(), &mut answer).await {
            Ok(Ok(response)) => {
                let duration_ms = self.sent_at.elapsed().as_millis();
                self.span.record("status", response.status().as_u16());
                tracing::debug!(duration_ms, "response started");
                let request_bytes = self.outgoing.body.len() as u64;
                self.queued_events.push_back(ModelEvent::Accepted { request_bytes });
                self.timeouts.on_bytes();
                let reader = ReplyReader::new(response, decoder, self.recorder.clone());
                self.phase = ExchangePhase::Reading(Box::new(reader));
            }
            Ok(Err(failure)) => self.on_failure(failure),
            Err(_) => match self.timeouts.expired() {
                ExpiredTimeout::Notice(wait) => {
                    self.queued_events.push_back(ModelEvent::Waiting(wait));
                    self.phase = ExchangePhase::Sending(answer, decoder);
                }
                ExpiredTimeout::Nothing => self.phase = ExchangePhase::Sending(answer, decoder),
                ExpiredTimeout::TimedOut(error) => {
                    let failure = AttemptFailure { error, progress: AttemptProgress::Answered };
                    self.on_failure(failure);
                }
            },
        }
    }

    async fn read(&mut self, mut reading: Box<ReplyReader>) {
        let outcome = reading.read(&mut self.timeouts, &mut self.new_events).await;
        if !self.has_begun && !self.new_events.is_empty() {
            self.has_begun = true;
            let duration_ms = self.sent_at.elapsed().as_millis();
            tracing::debug!(duration_ms, "first part of the reply received");
        }
        let secrets = &self.outgoing.secrets;
        for mut event in self.new_events.drain(..) {
            if let ModelEvent::CallStarted { name } = &mut event {
                secrets.redact(name);
            }
            push(&mut self.queued_events, event);
        }
        match outcome {
            Ok(BodyRead::More) => self.phase = ExchangePhase::Reading(reading),
            Ok(BodyRead::Silent(wait)) => {
                self.queued_events.push_back(ModelEvent::Waiting(wait));
                self.phase = ExchangePhase::Reading(reading);
            }
            Ok(BodyRead::Complete(mut reply)) => {
                redact_names(&mut reply, secrets);
                let duration_ms = self.sent_at.elapsed().as_millis();
                tracing::debug!(duration_ms, "response complete");
                self.recorder.finish(None);
                let_connection_return().await;
                self.queued_events.push_back(ModelEvent::Completed(*reply));
            }
            Err(error) => {
                let failure = AttemptFailure { error, progress: reading.progress() };
                self.on_failure(failure);
            }
        }
    }

    fn on_failure(&mut self, failure: AttemptFailure) {
        let error = self.outgoing.complete(failure.error);
        self.recorder.finish(Some(&error.to_string()));
        let failure = AttemptFailure { error, progress: failure.progress };
        if let Some(status) = failure.error.status {
            self.span.record("status", status);
        }
        let (kind, duration_ms) = (failure.error.kind, self.sent_at.elapsed().as_millis());
        tracing::debug!(?kind, duration_ms, "attempt failed");
        // A server that used up all the time is not asked again.
        let may_retry = !self.decoders.is_empty() && !self.timeouts.is_used_up();
        let schedule = self.schedule.as_mut().filter(|_| may_retry);
        self.phase = match schedule.and_then(|schedule| schedule.next_retry(&failure)) {
            Some(retry) => self.on_retry(retry),
            None => ExchangePhase::Failed(with_wait(failure.error)),
        };
    }

    fn on_retry(&mut self, retry: Retry) -> ExchangePhase {
        let wait_ms = retry.wait.as_millis();
        tracing::info!(attempt = retry.attempt, error = %retry.error, wait_ms, "retrying a model request");
        let wait = retry.wait;
        self.queued_events.push_back(ModelEvent::Retrying(retry));
        ExchangePhase::Waiting(wait)
    }
}

/// Removes secrets from ids and names, in case a server repeats what it was sent. Texts and arguments are redacted in events:
/// ids and names are not, because calls are matched by them.
fn redact_names(reply: &mut ModelReply, secrets: &Secrets) {
    if let Some(id) = &mut reply.response_id {
        secrets.redact(id);
    }
    for block in &mut reply.blocks {
        let ReplyContent::Call(call) = &mut block.content else { continue };
        let mut id = call.id.as_str().to_owned();
        if secrets.redact(&mut id) | secrets.redact(&mut call.name) {
            call.id = CallId::new(id);
            block.native = None;
        }
    }
}

/// Lets the connection return to the pool before the next request looks for one there: the connection's own task and
/// the one that returns it must each run once. Without this a quick step opens a second connection.
async fn let_connection_return() {
    const TASKS: usize = 3;
    for _ in 0..TASKS {
        tokio::task::yield_now().await;
    }
}

/// Adds to the message when the provider may be asked again, for users who must decide whether to wait for it.
fn with_wait(mut error: ProviderError) -> ProviderError {
    if let Some(wait) = error.retry_after.filter(|wait| !wait.is_zero()) {
        let wait = wait_in_words(wait, Timestamp::now());
        error.message =
            if error.message.is_empty() { wait } else { format!("{}; {wait}", error.message) };
    }
    error
}

/// Adds an event. Deltas of a kind in a row are joined: a slow consumer gets fewer, longer ones.
fn push(ready: &mut VecDeque<ModelEvent>, event: ModelEvent) {
    match (ready.back_mut(), event) {
        (Some(ModelEvent::TextDelta(text)), ModelEvent::TextDelta(more))
        | (Some(ModelEvent::ThinkingDelta(text)), ModelEvent::ThinkingDelta(more)) => {
            text.push_str(&more);
        }
        (_, event) => ready.push_back(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_deltas_of_a_kind_are_joined() {
        let text = |text: &str| ModelEvent::TextDelta(text.to_owned());
        let thinking = |text: &str| ModelEvent::ThinkingDelta(text.to_owned());
        let mut ready = VecDeque::new();
        for event in [thinking("a"), thinking("b"), text("c"), text("d"), thinking("e")] {
            push(&mut ready, event);
        }
        assert_eq!(ready, [thinking("ab"), text("cd"), thinking("e")]);
    }
}
