//! The tools of servers that behave, and of servers that do not. All of them speak bytes over pipes in this process.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail loudly"
)]

mod hostile;
mod http;
mod lazy;
mod link;
mod ordinary;
mod support;
