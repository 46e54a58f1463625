//! The server as a test holds it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
/// dropped with violations that nobody has asked for panics, so that none is overlooked.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<ModelServerState>,
    tasks: TaskTracker,
    stop: CancellationToken,
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

    /// The address, for raw clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL that a client of the dialect is configured with.
    pub fn base_url(&self, dialect: WireDialect) -> String {
        format!("http://{}{}", self.address, dialect.base_path())
    }

    /// Appends a step to the running script.
    pub fn push(&self, step: impl Into<ScriptStep>) {
        let mut inner = self.state.lock();
        inner.script = std::mem::take(&mut inner.script).then(step);
    }

    /// All model requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.state.lock().requests.clone()
    }

    /// How far the answer to a request has come; none if there is no such request.
    pub fn answer(&self, index: usize) -> Option<RecordedAnswer> {
        self.state.lock().answers.get(index).copied()
    }

    /// The number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.lock().connections
    }

    /// The number of times the list of models was asked for.
    pub fn model_lists(&self) -> usize {
        self.state.lock().model_lists
    }

    /// The number of steps not yet taken.
    pub fn remaining_steps(&self) -> usize {
        self.state.lock().script.remaining()
    }

    /// Waits for request `index` (from 0) to have arrived.
    pub async fn wait_for_request(&self, index: usize) -> Arc<RecordedRequest> {
        self.state.wait_until(|inner| inner.requests.get(index).cloned()).await
    }

    /// Waits for the answer to request `index` to have ended.
    pub async fn wait_for_answer(&self, index: usize) -> RecordedAnswer {
        let is_ended = |answer: &RecordedAnswer| answer.state != AnswerState::Open;
        self.state.wait_until(|inner| inner.answers.get(index).copied().filter(is_ended)).await
    }

    /// Declares a maintenance point: the next request of each conversation may begin anew.
    pub fn allow_prefix_break(&self) {
        self.state.lock().prefixes.forget();
    }

    /// What was wrong so far; the caller now has the verdict in hand.
    pub fn violations(&self) -> Vec<Violation> {
        self.is_judged.store(true, Ordering::Relaxed);
        self.state.lock().violations.clone()
    }

    /// Fails the test if anything was wrong.
    ///
    /// # Panics
    /// With the violations, if there are any.
    pub fn assert_clean(&self) {
        let violations = Violations(self.violations());
        assert!(violations.0.is_empty(), "{violations}");
    }

    /// Ends all tasks and gives the requests, or what was wrong with them.
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

/// A base URL where nobody listens: connections are refused.
///
/// # Panics
/// If loopback has no free port.
pub async fn refused_base_url(dialect: WireDialect) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    format!("http://{address}{}", dialect.base_path())
}

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
        let connection = connection::serve(stream, state.connected(), Arc::clone(&state));
        let stop = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection => {}
            }
        });
    }
}
