//! The server's interface for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::BTreeSet, net::SocketAddr};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::check::{Violation, Violations};
use super::state::ModelServerState;
use super::{
    AnswerState, RecordedAnswer, RecordedRequest, Script, ScriptStep, ServerOptions, connection,
};
use crate::wire::WireDialect;

/// A model server on loopback.
///
/// Every request is checked. End a test with [`finish`](Self::finish) or [`assert_clean`](Self::assert_clean): a server
/// dropped with violations that were not read panics, so that none is overlooked.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<ModelServerState>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// True once the test has read the violations.
    is_judged: AtomicBool,
}

impl ModelServer {
    /// Starts a server with the default settings on the current tokio runtime.
    pub async fn start(script: impl Into<Script>) -> Self {
        Self::start_with(script, ServerOptions::default()).await
    }

    /// Starts a server.
    ///
    /// # Panics
    /// If loopback has no free port.
    pub async fn start_with(script: impl Into<Script>, options: ServerOptions) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(ModelServerState::new(script.into(), options));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let accepting = accept(listener, Arc::clone(&state), tasks.clone(), stop.clone());
        tasks.spawn(accepting);
        tasks.close();
        Self { address, state, tasks, stop, is_judged: AtomicBool::new(false) }
    }

    /// Returns the socket address, for raw clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for a client of the dialect.
    pub fn base_url(&self, dialect: WireDialect) -> String {
        format!("http://{}{}", self.address, dialect.base_path())
    }

    /// Appends a step to the running script.
    pub fn push(&self, step: impl Into<ScriptStep>) {
        let mut inner = self.state.lock();
        inner.script = std::mem::take(&mut inner.script).then(step);
    }

    /// Returns all model requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.state.lock().requests.clone()
    }

    /// Returns the progress of the response to a request; `None` if there is no such request.
    pub fn answer(&self, index: usize) -> Option<RecordedAnswer> {
        self.state.lock().answers.get(index).copied()
    }

    /// Returns the number of connections on which the model was asked.
    pub fn connections(&self) -> usize {
        let numbers: BTreeSet<_> =
            self.state.lock().requests.iter().map(|request| request.connection).collect();
        numbers.len()
    }

    /// Returns the number of requests for the list of models.
    pub fn model_lists(&self) -> usize {
        self.state.lock().model_lists
    }

    /// Returns the number of steps that were not taken.
    pub fn remaining_steps(&self) -> usize {
        self.state.lock().script.remaining()
    }

    /// Waits for request `index` (from 0) and returns it.
    pub async fn wait_for_request(&self, index: usize) -> Arc<RecordedRequest> {
        self.state.wait_until(|inner| inner.requests.get(index).cloned()).await
    }

    /// Waits for the end of the response to request `index`.
    pub async fn wait_for_answer(&self, index: usize) -> RecordedAnswer {
        let is_ended = |answer: &RecordedAnswer| answer.state != AnswerState::Open;
        self.state.wait_until(|inner| inner.answers.get(index).copied().filter(is_ended)).await
    }

    /// Declares a maintenance point: the next request of each conversation may begin anew.
    pub fn allow_prefix_break(&self) {
        self.state.lock().prefixes.forget();
    }

    /// Returns the violations so far. The server then no longer panics for them when it is dropped.
    pub fn violations(&self) -> Vec<Violation> {
        self.is_judged.store(true, Ordering::Relaxed);
        self.state.lock().violations.clone()
    }

    /// Asserts that there are no violations.
    ///
    /// # Panics
    /// If there are violations; the message lists them.
    pub fn assert_clean(&self) {
        let violations = Violations(self.violations());
        assert!(violations.0.is_empty(), "{violations}");
    }

    /// Ends all tasks, and returns the requests, or else the violations.
    pub async fn finish(self) -> Result<Vec<Arc<RecordedRequest>>, Violations> {
        let (tasks, state) = (self.tasks.clone(), Arc::clone(&self.state));
        self.is_judged.store(true, Ordering::Relaxed);
        drop(self);
        tasks.wait().await;
        let mut inner = state.lock();
        let violations = std::mem::take(&mut inner.violations);
        if violations.is_empty() {
            Ok(std::mem::take(&mut inner.requests))
        } else {
            Err(Violations(violations))
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        let is_judged = self.is_judged.load(Ordering::Relaxed) || std::thread::panicking();
        if !is_judged {
            self.assert_clean();
        }
    }
}

/// Returns a base URL with a port on which no server listens: connections are refused.
///
/// # Panics
/// If loopback has no free port.
pub async fn refused_base_url(dialect: WireDialect) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    format!("http://{address}{}", dialect.base_path())
}

/// Accepts connections until `stop` is cancelled, each in a task of its own.
async fn accept(
    listener: TcpListener,
    state: Arc<ModelServerState>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        let connection = connection::serve(stream, state.register_connection(), Arc::clone(&state));
        let stop = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection => {}
            }
        });
    }
}
