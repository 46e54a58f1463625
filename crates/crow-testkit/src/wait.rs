//! Waiting for what happens outside of the test: a file that a command makes, a process that ends.

use std::{
    panic::Location,
    time::{Duration, Instant},
};

/// How long a condition is waited for. Long, since machines of CI are slow; a test that waits for ever says nothing.
const DEADLINE: Duration = Duration::from_mins(2);

/// Lets other tasks run until a condition holds.
///
/// # Panics
/// If it does not hold within two minutes. The message names the line of the caller.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    wait_at(Location::caller(), condition)
}

async fn wait_at(caller: &Location<'_>, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "what {caller} waits for did not happen within {DEADLINE:?}");
        tokio::task::yield_now().await;
    }
}
