//! The time limit of a run.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Tells if work ended before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeadlineOutcome {
    Finished,
    TimedOut,
}

/// Drives `work` to its end. When `left` has passed, cancels `token`, which `work` must obey, and still waits for the
/// end of `work`. No limit if `left` is `None`.
pub(super) async fn run_with_deadline<T>(
    left: Option<Duration>,
    token: &CancellationToken,
    mut work: impl Future<Output = T> + Unpin,
) -> (T, DeadlineOutcome) {
    let Some(left) = left else { return (work.await, DeadlineOutcome::Finished) };
    tokio::select! {
        biased;
        output = &mut work => return (output, DeadlineOutcome::Finished),
        () = tokio::time::sleep(left) => token.cancel(),
    }
    (work.await, DeadlineOutcome::TimedOut)
}
