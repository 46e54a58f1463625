//! The time bound of a run.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Whether a run was over before its time was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadlineOutcome {
    InTime,
    Overdue,
}

/// Drives `work`. When the time that is left is over, cancels `token`, which `work` obeys, and waits for its end.
pub(super) async fn enforce<T>(
    left: Option<Duration>,
    token: &CancellationToken,
    mut work: impl Future<Output = T> + Unpin,
) -> (T, DeadlineOutcome) {
    let Some(left) = left else { return (work.await, DeadlineOutcome::InTime) };
    tokio::select! {
        biased;
        done = &mut work => return (done, DeadlineOutcome::InTime),
        () = tokio::time::sleep(left) => token.cancel(),
    }
    (work.await, DeadlineOutcome::Overdue)
}
