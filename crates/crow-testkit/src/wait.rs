//! Waiting for events outside the test, such as a file that a command creates or a process that ends.

use std::{
    panic::Location,
    time::{Duration, Instant},
};

/// Maximum wait for a condition. Long, since CI machines are slow; finite, since a test that hangs reports nothing.
const DEADLINE: Duration = Duration::from_mins(2);

/// Runs other tasks until `condition` returns true.
///
/// # Panics
/// If that takes longer than two minutes. The message names the caller's line.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    wait_at(Location::caller(), condition)
}

async fn wait_at(caller: &Location<'_>, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "what {caller} waits for did not happen within {DEADLINE:?}"
        );
        tokio::task::yield_now().await;
    }
}
