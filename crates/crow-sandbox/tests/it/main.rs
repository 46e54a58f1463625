//! Integration tests of processes and of the sandbox that contains them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, too"
)]

mod login_shell;
mod piped;
mod processes;
mod sandbox;
