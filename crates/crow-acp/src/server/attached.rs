//! A session that is attached to a connection, its task, and the client's requests to it in the order in which they
//! arrive.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, SessionConfigOption},
};
use crow_runtime::{AgentHandle, OptionKind};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    peer::{PromptReply, RequestReply},
    pump::Pump,
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

/// Number of times that a client cancelled a session. Cheap to clone: clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelCount(Arc<AtomicU64>);

/// Value of a [`CancelCount`] at the time of a request.
#[derive(Debug)]
pub(super) struct CancelMark {
    count: CancelCount,
    before: u64,
}

impl CancelCount {
    /// Counts a cancel. The caller interrupts current and queued work in the runtime after this.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a mark with the current count.
    pub(super) fn mark(&self) -> CancelMark {
        CancelMark { count: self.clone(), before: self.0.load(Ordering::SeqCst) }
    }
}

impl CancelMark {
    /// Returns true if the client cancelled since the mark was made.
    pub(super) fn is_cancelled(&self) -> bool {
        self.count.0.load(Ordering::SeqCst) != self.before
    }
}

/// A request to the task of an attached session.
#[derive(Debug)]
pub(super) enum AttachedRequest {
    /// Sends a prompt to the agent.
    Prompt {
        content: Vec<ContentBlock>,
        /// Resolves when the client cancels this one prompt.
        cancellation: Option<RequestCancellation>,
        /// Cancels of the session that came before the prompt; later ones cover it.
        cancel_mark: CancelMark,
        reply: PromptReply,
    },
    /// Sets an option.
    Set { option: OptionName, value: OptionValue, reply: RequestReply<Vec<SessionConfigOption>> },
    /// Sends the title and options if they were changed from elsewhere.
    Refresh,
}

/// New value of an option.
#[derive(Debug)]
pub(super) enum OptionValue {
    Named(String),
    Switched(bool),
}

/// Reference to an option, by its name or by its kind.
#[derive(Debug)]
pub(super) enum OptionName {
    Named(String),
    OfKind(OptionKind),
}

impl AttachedRequest {
    /// Answers the request with an error.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Prompt { reply, .. } => reply.refuse(error),
            Self::Set { reply, .. } => reply.send(Err(error)),
            Self::Refresh => {}
        }
    }
}
