//! Init processes that are exiting after they have reported the end of their commands.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

/// Maximum number of processes that exit at the same time.
const MAX_EXITING: usize = 16;

/// Waits in the background for the exit of init processes.
///
/// With init the kernel takes its mount namespace apart, and waits for every processor before it is done: for tens of
/// milliseconds on a busy machine. Nothing of the command is left by then, so nobody else needs to wait.
///
/// Dropping this ends the waiting: the processes are then reaped with later ones.
#[derive(Debug, Default)]
pub(super) struct ExitingInits(Mutex<JoinSet<()>>);

impl ExitingInits {
    /// Returns true if fewer than [`MAX_EXITING`] processes are exiting.
    pub(super) fn has_room(&self) -> bool {
        let mut waiting = self.waiting();
        while waiting.try_join_next().is_some() {}
        waiting.len() < MAX_EXITING
    }

    /// Runs `wait`, which waits for the exit of a process, in the background.
    pub(super) fn add(&self, wait: impl Future<Output = ()> + Send + 'static) {
        self.waiting().spawn(wait);
    }

    fn waiting(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
