//! Child agents that run in the background of their parent.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{
    capability::{BackgroundChild, BackgroundState, ChildError, ChildOutcome, ChildTask, Clock},
    ids::TaskId,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Prefix of task ids.
const PREFIX: &str = "task-";
/// Maximum number of tasks that have not ended. They run as slots become free.
const MOST_OPEN: usize = 32;
/// Number of ended tasks that are remembered.
const REMEMBERED: usize = 64;

/// The background child agents of one agent. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Background {
    /// Cancelled when the agent ends: the children never outlive it.
    token: CancellationToken,
    /// The last task number used by earlier processes.
    earlier: u64,
    clock: Arc<dyn Clock>,
    registry: Arc<Mutex<BackgroundChildren>>,
}

#[derive(Debug)]
struct BackgroundChildren {
    last: u64,
    children: Vec<BackgroundEntry>,
}

#[derive(Debug)]
struct BackgroundEntry {
    child: watch::Sender<BackgroundChild>,
    token: CancellationToken,
    since: Duration,
    is_read: bool,
}

/// Records how a task ended, also when it is dropped without [`with`](Self::with).
#[derive(Debug)]
pub(super) struct BackgroundEndGuard {
    background: Background,
    id: TaskId,
    is_reported: bool,
}

impl Background {
    /// Continues the numbering after `last`, the highest task number in the history.
    pub(super) fn new(session: &CancellationToken, clock: Arc<dyn Clock>, last: u64) -> Self {
        let registry = BackgroundChildren { last, children: Vec::new() };
        Self {
            token: session.child_token(),
            earlier: last,
            clock,
            registry: Arc::new(Mutex::new(registry)),
        }
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Returns true if the task is of an earlier process: then it is gone.
    pub(super) fn is_earlier(&self, id: &str) -> bool {
        task_number(id).is_some_and(|number| number <= self.earlier)
    }

    fn registry(&self) -> MutexGuard<'_, BackgroundChildren> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task that is about to begin. Refused while [`MOST_OPEN`] have not ended.
    pub(super) fn add(
        &self,
        task: &ChildTask,
        token: CancellationToken,
    ) -> Result<TaskId, ChildError> {
        let mut registry = self.registry();
        let is_open = |entry: &&BackgroundEntry| entry.child.borrow().is_running();
        if registry.children.iter().filter(is_open).count() >= MOST_OPEN {
            let reason = format!("{MOST_OPEN} tasks are still running");
            return Err(ChildError::Refused { reason });
        }
        registry.last += 1;
        let id = TaskId::new(format!("{PREFIX}{}", registry.last));
        let child = BackgroundChild {
            id: id.clone(),
            agent: task.agent.clone(),
            description: task.description.clone(),
            state: BackgroundState::Running,
            duration: Duration::ZERO,
        };
        let child = watch::Sender::new(child);
        let since = self.clock.monotonic();
        registry.children.push(BackgroundEntry { child, token, since, is_read: false });
        Ok(id)
    }

    /// Returns the guard that records how a task ended.
    pub(super) fn ending(&self, id: TaskId) -> BackgroundEndGuard {
        BackgroundEndGuard { background: self.clone(), id, is_reported: false }
    }

    fn set(&self, id: &TaskId, state: BackgroundState) {
        let mut registry = self.registry();
        if let Some(entry) = registry.children.iter().find(|entry| entry.child.borrow().id == *id) {
            let duration = self.clock.monotonic().saturating_sub(entry.since);
            entry.child.send_modify(|child| {
                child.state = state;
                child.duration = duration;
            });
        }
        // Read results are evicted first: the model has yet to be shown the others.
        let has_ended = |entry: &BackgroundEntry| !entry.child.borrow().is_running();
        if registry.children.iter().filter(|entry| has_ended(entry)).count() > REMEMBERED {
            let read = registry.children.iter().position(|entry| entry.is_read && has_ended(entry));
            let oldest = read.or_else(|| registry.children.iter().position(has_ended));
            oldest.map(|oldest| registry.children.remove(oldest));
        }
    }

    /// Returns the state and the token of a task.
    fn find(
        &self,
        id: &TaskId,
    ) -> Result<(watch::Receiver<BackgroundChild>, CancellationToken), ChildError> {
        let registry = self.registry();
        let found = registry.children.iter().find(|entry| entry.child.borrow().id == *id);
        found.map(|entry| (entry.child.subscribe(), entry.token.clone())).ok_or_else(|| {
            let ids = registry.children.iter().map(|entry| entry.child.borrow().id.clone());
            ChildError::UnknownTask { id: id.clone(), known: ids.collect() }
        })
    }

    /// Waits up to `patience` for a task to end.
    pub(super) async fn wait(
        &self,
        id: &TaskId,
        patience: Duration,
        cancel: &CancellationToken,
    ) -> Result<BackgroundChild, ChildError> {
        let (mut child, _) = self.find(id)?;
        let through = child.wait_for(|child| !child.is_running());
        let through = tokio::time::timeout(patience, through);
        // Returns the current status whether the wait timed out, was cancelled or the task ended.
        let _ = cancel.run_until_cancelled(through).await.map(|through| through.map(drop));
        Ok(self.read(id, &child))
    }

    /// Cancels a task and waits until it has ended.
    pub(super) async fn cancel(&self, id: &TaskId) -> Result<BackgroundChild, ChildError> {
        let (mut child, token) = self.find(id)?;
        token.cancel();
        // It ends within a bounded time, by force if need be.
        drop(child.wait_for(|child| !child.is_running()).await.map(drop));
        Ok(self.read(id, &child))
    }

    fn read(&self, id: &TaskId, child: &watch::Receiver<BackgroundChild>) -> BackgroundChild {
        let mut child = child.borrow().clone();
        let mut registry = self.registry();
        if let Some(entry) =
            registry.children.iter_mut().find(|entry| entry.child.borrow().id == *id)
        {
            entry.is_read |= !child.is_running();
            if child.is_running() {
                child.duration = self.clock.monotonic().saturating_sub(entry.since);
            }
        }
        child
    }

    /// Returns the ended tasks that were not read yet, each once.
    pub(super) fn take_ended(&self) -> Vec<BackgroundChild> {
        let mut registry = self.registry();
        let unread = registry.children.iter_mut().filter(|entry| !entry.is_read);
        let ended = unread.filter(|entry| !entry.child.borrow().is_running());
        ended
            .map(|entry| {
                entry.is_read = true;
                entry.child.borrow().clone()
            })
            .collect()
    }
}

impl BackgroundEndGuard {
    /// Records the outcome.
    pub(super) fn with(mut self, end: Result<ChildOutcome, ChildError>) {
        self.is_reported = true;
        let state = end.map_or_else(BackgroundState::NotStarted, BackgroundState::Ended);
        self.background.set(&self.id, state);
    }
}

impl Drop for BackgroundEndGuard {
    fn drop(&mut self) {
        if !self.is_reported {
            let reason = "it ended unexpectedly".to_owned();
            let state = BackgroundState::NotStarted(ChildError::Failed { reason });
            self.background.set(&self.id, state);
        }
    }
}

/// Returns the number in a task id.
pub(super) fn task_number(id: &str) -> Option<u64> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crow_core::ids::CallId;

    use super::*;
    use crate::clock::SystemClock;

    fn background() -> Background {
        Background::new(&CancellationToken::new(), Arc::new(SystemClock::default()), 0)
    }

    fn add(background: &Background) -> Result<TaskId, ChildError> {
        let task = ChildTask {
            call_id: CallId::new("c"),
            agent: "explorer".to_owned(),
            description: "look".to_owned(),
            prompt: "look".to_owned(),
        };
        background.add(&task, CancellationToken::new())
    }

    async fn state(background: &Background, id: &TaskId) -> Result<BackgroundState, ChildError> {
        let token = CancellationToken::new();
        background.wait(id, Duration::ZERO, &token).await.map(|child| child.state)
    }

    #[test]
    fn starting_a_task_past_the_limit_is_refused() {
        let background = background();
        let first = add(&background).unwrap();
        (1..MOST_OPEN).for_each(|_| drop(add(&background).unwrap()));
        assert!(matches!(add(&background), Err(ChildError::Refused { .. })));
        background.ending(first).with(Err(ChildError::Cancelled));
        assert_eq!(add(&background).unwrap().as_str(), format!("task-{}", MOST_OPEN + 1));
    }

    #[tokio::test]
    async fn a_task_whose_end_guard_is_dropped_has_failed() {
        let background = background();
        let id = add(&background).unwrap();
        drop(background.ending(id.clone()));
        let reason = "it ended unexpectedly".to_owned();
        let broken = BackgroundState::NotStarted(ChildError::Failed { reason });
        assert_eq!(state(&background, &id).await, Ok(broken));
        assert_eq!(background.take_ended(), [], "it was read");
    }

    #[tokio::test]
    async fn ended_tasks_that_were_read_are_evicted_before_unread_ones() {
        let background = background();
        let unread = add(&background).unwrap();
        background.ending(unread.clone()).with(Err(ChildError::Cancelled));
        let read = add(&background).unwrap();
        background.ending(read.clone()).with(Err(ChildError::Cancelled));
        state(&background, &read).await.unwrap();
        for _ in 1..REMEMBERED {
            let id = add(&background).unwrap();
            background.ending(id).with(Err(ChildError::Cancelled));
        }
        assert!(matches!(state(&background, &read).await, Err(ChildError::UnknownTask { .. })));
        assert_eq!(background.take_ended()[0].id, unread);
    }
}
