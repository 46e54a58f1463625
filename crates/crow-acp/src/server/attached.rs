//! A session that a connection shows.

use crow_runtime::AgentHandle;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    pump::Pump,
    requests::{AttachedRequest, CancelCount},
};

/// How many requests of a session may wait.
pub(super) const WAITING_REQUESTS: usize = 64;

/// A session that a connection shows. Its task ends with it.
#[derive(Debug)]
pub(super) struct AttachedSession {
    pub handle: AgentHandle,
    pub cancels: CancelCount,
    requests: mpsc::Sender<AttachedRequest>,
    leave: CancellationToken,
    /// None while it is paused.
    task: Option<PumpTask>,
}

/// The task of a session that a connection shows, while it works.
#[derive(Debug)]
pub(super) struct PumpTask {
    pause: CancellationToken,
    task: JoinSet<Option<Box<Pump>>>,
}

impl PumpTask {
    pub(super) fn start(pump: Box<Pump>) -> Self {
        let pause = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(pump.run(pause.clone()));
        Self { pause, task }
    }

    /// Pauses it, when what it does at the moment is done. None if it has ended.
    pub(super) async fn pause(self) -> Option<Box<Pump>> {
        self.pause.cancel();
        self.ended().await
    }

    async fn ended(mut self) -> Option<Box<Pump>> {
        // A task that broke down has nothing more to say.
        self.task.join_next().await?.ok().flatten()
    }
}

impl AttachedSession {
    pub(super) fn new(
        handle: AgentHandle,
        requests: mpsc::Sender<AttachedRequest>,
        leave: CancellationToken,
        task: PumpTask,
    ) -> Self {
        Self { handle, cancels: CancelCount::default(), requests, leave, task: Some(task) }
    }

    /// Takes the task, to pause it. Requests wait meanwhile.
    pub(super) fn take_task(&mut self) -> Option<PumpTask> {
        self.task.take()
    }

    /// Puts back the task that was paused and goes on.
    pub(super) fn put_task(&mut self, task: PumpTask) {
        self.task = Some(task);
    }

    /// Puts a request into the queue. Gives it back if that is full or the session has ended.
    pub(super) fn request(&self, request: AttachedRequest) -> Result<(), AttachedRequest> {
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(request)
            | mpsc::error::TrySendError::Closed(request) => request,
        })
    }

    /// Ends the task, after it answered what waits.
    pub(super) async fn leave(mut self) {
        self.leave.cancel();
        if let Some(task) = self.task.take() {
            drop(task.ended().await);
        }
    }
}

impl Drop for AttachedSession {
    fn drop(&mut self) {
        self.leave.cancel();
    }
}
