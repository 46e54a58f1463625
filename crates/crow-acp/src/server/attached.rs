//! A session that is attached to a connection, and its task.

use crow_runtime::AgentHandle;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    pump::Pump,
    requests::{AttachedRequest, CancelCount},
};

/// Capacity of a session's request queue.
pub(super) const WAITING_REQUESTS: usize = 64;

/// A session that is attached to a connection. Dropping it ends its task.
#[derive(Debug)]
pub(super) struct AttachedSession {
    pub handle: AgentHandle,
    pub cancels: CancelCount,
    requests: mpsc::Sender<AttachedRequest>,
    leave: CancellationToken,
    /// `None` while the task is paused.
    task: Option<PumpTask>,
}

/// The running task of an attached session.
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

    /// Pauses the task after its current step and returns the pump; `None` if the task has ended.
    pub(super) async fn pause(self) -> Option<Box<Pump>> {
        self.pause.cancel();
        self.ended().await
    }

    async fn ended(mut self) -> Option<Box<Pump>> {
        // A task that panicked returns no pump.
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

    /// Takes the task out, to pause it. Requests stay in the queue meanwhile.
    pub(super) fn take_task(&mut self) -> Option<PumpTask> {
        self.task.take()
    }

    /// Stores the task of a resumed pump.
    pub(super) fn put_task(&mut self, task: PumpTask) {
        self.task = Some(task);
    }

    /// Queues a request. Returns it as the error if the queue is full or the task has ended.
    pub(super) fn request(&self, request: AttachedRequest) -> Result<(), AttachedRequest> {
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(request)
            | mpsc::error::TrySendError::Closed(request) => request,
        })
    }

    /// Cancels the task, and waits until it has answered its open requests.
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
