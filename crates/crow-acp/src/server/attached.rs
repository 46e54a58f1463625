//! A session that a connection shows.

use crow_runtime::AgentHandle;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::requests::{CancelCount, Request};

/// How many requests of a session may wait.
pub(super) const WAITING_REQUESTS: usize = 64;

/// A session that a connection shows. Its task ends with it.
#[derive(Debug)]
pub(super) struct Attached {
    pub handle: AgentHandle,
    pub cancels: CancelCount,
    requests: mpsc::Sender<Request>,
    leave: CancellationToken,
    pump: JoinSet<()>,
}

impl Attached {
    pub(super) fn new(
        handle: AgentHandle,
        requests: mpsc::Sender<Request>,
        leave: CancellationToken,
        pump: JoinSet<()>,
    ) -> Self {
        Self { handle, cancels: CancelCount::default(), requests, leave, pump }
    }

    /// Puts a request into the queue. Gives it back if that is full or the session has ended.
    pub(super) fn request(&self, request: Request) -> Result<(), Request> {
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(request)
            | mpsc::error::TrySendError::Closed(request) => request,
        })
    }

    /// Ends the task, after it answered what waits.
    pub(super) async fn leave(mut self) {
        self.leave.cancel();
        // A task that broke down has nothing more to say.
        drop(self.pump.join_next().await);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.leave.cancel();
    }
}
