//! State that all connections of a server share.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;

use super::check::{EchoCheck, PrefixHistory, Rule, SentReply, Violation, check_record};
use super::prompt_cache::PromptCache;
use super::{
    AnswerState, RecordedAnswer, RecordedRequest, Script, ScriptStep, ServerOptions, UsageSource,
};
use crate::http::RawRequest;
use crate::wire::{ReplyUsage, WireDialect};

/// Shared state of a server; the lock is never held across an await.
#[derive(Debug)]
pub(super) struct ModelServerState {
    pub(super) options: ServerOptions,
    inner: Mutex<ModelServerInner>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(super) struct ModelServerInner {
    pub(super) script: Script,
    pub(super) requests: Vec<Arc<RecordedRequest>>,
    pub(super) answers: Vec<RecordedAnswer>,
    pub(super) violations: Vec<Violation>,
    next_connection: usize,
    pub(super) model_lists: usize,
    pub(super) prefixes: PrefixHistory,
    echoes: EchoCheck,
    prompts: PromptCache,
}

/// There is no step for a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoStep {
    #[error("the script is over: no step is left for this request")]
    ScriptOver,
    #[error("the responder panicked: {0}")]
    Panicked(String),
}

impl ModelServerState {
    pub(super) fn new(script: Script, options: ServerOptions) -> Self {
        let inner = ModelServerInner { script, ..ModelServerInner::default() };
        Self { options, inner: Mutex::new(inner), changes: watch::Sender::new(0) }
    }

    /// Locks the state, even if another thread panicked while it held the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, ModelServerInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection and returns its number.
    pub(super) fn register_connection(&self) -> usize {
        let mut inner = self.lock();
        let number = inner.next_connection;
        inner.next_connection += 1;
        drop(inner);
        self.notify_waiters();
        number
    }

    /// Records and checks a request.
    pub(super) fn record(
        &self,
        dialect: WireDialect,
        raw: RawRequest,
        connection: usize,
    ) -> Arc<RecordedRequest> {
        let received_at = Instant::now();
        let (body, error) = match serde_json::from_slice(&raw.body) {
            Ok(body) => (body, None),
            Err(error) => (Value::Null, Some(error)),
        };
        let (path, query) = raw.target.split_once('?').unwrap_or((&raw.target, ""));
        let mut inner = self.lock();
        let request = Arc::new(RecordedRequest {
            index: inner.requests.len(),
            dialect,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: raw.headers,
            body,
            raw_body: raw.body,
            connection,
            first_byte_at: raw.first_byte_at,
            received_at,
        });
        let mut found = match error {
            Some(error) => vec![Violation::new(Rule::Json, format!("body is not JSON: {error}"))],
            None => self.check(&mut inner, &request),
        };
        found.retain(|violation| self.options.checks.covers(violation.rule));
        inner.violations.extend(found.into_iter().map(|found| found.of_request(request.index)));
        inner.requests.push(Arc::clone(&request));
        inner.answers.push(RecordedAnswer::default());
        drop(inner);
        self.notify_waiters();
        request
    }

    /// Returns and records the usage that the reply to a request reports.
    pub(super) fn report_usage(
        &self,
        request: &RecordedRequest,
        scripted: ReplyUsage,
    ) -> ReplyUsage {
        let mut inner = self.lock();
        let usage = match self.options.usage {
            UsageSource::Scripted => scripted,
            UsageSource::Measured => inner.prompts.measure(request, scripted),
        };
        if let Some(answer) = inner.answers.get_mut(request.index) {
            answer.usage = Some(usage);
        }
        usage
    }

    /// Takes the next step; responders are resolved.
    pub(super) fn next_step(&self, request: &RecordedRequest) -> Result<ScriptStep, NoStep> {
        let mut step = self.lock().script.next_step().ok_or(NoStep::ScriptOver)?;
        while let ScriptStep::Respond(responder) = step {
            // A failed assertion in a responder must reach the test instead of ending the connection's task.
            step = catch_unwind(AssertUnwindSafe(|| responder(request)))
                .map_err(|panic| NoStep::Panicked(panic_text(panic.as_ref())))?;
        }
        Ok(step)
    }

    /// Records a reply that is sent completely and whose reasoning the client must send back.
    pub(super) fn record_reply(&self, reply: SentReply) {
        self.lock().echoes.remember(reply);
    }

    /// Adds a violation outside the checks of a request's content, unless its rule is disabled.
    pub(super) fn add_violation(&self, request: Option<usize>, rule: Rule, detail: String) {
        if self.options.checks.covers(rule) {
            self.lock().violations.push(Violation { request, rule, detail });
            self.notify_waiters();
        }
    }

    /// Records that the first byte of a response has been written.
    pub(super) fn record_first_byte(&self, index: usize) {
        if let Some(answer) = self.lock().answers.get_mut(index) {
            answer.began_at.get_or_insert_with(Instant::now);
        }
    }

    /// Records the end of a response.
    pub(super) fn record_end(&self, index: usize, state: AnswerState) {
        if let Some(answer) = self.lock().answers.get_mut(index) {
            answer.state = state;
            answer.ended_at = Some(Instant::now());
        }
        self.notify_waiters();
    }

    /// Waits until `find` returns a value for the state, and returns it.
    pub(super) async fn wait_until<T>(&self, find: impl Fn(&ModelServerInner) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(found) = find(&self.lock()) {
                return found;
            }
            // Cannot fail, since `self` owns the sender.
            drop(changes.changed().await);
        }
    }

    fn check(&self, inner: &mut ModelServerInner, request: &RecordedRequest) -> Vec<Violation> {
        let mut found = check_record(request);
        found.extend(inner.prefixes.check(request, self.options.checks.prefix));
        found.extend(inner.echoes.check(request));
        found
    }

    /// Wakes the tasks that wait for a change of the state.
    pub(super) fn notify_waiters(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)").to_owned()
}
