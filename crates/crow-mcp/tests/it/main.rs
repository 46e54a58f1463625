//! Tools of well-behaved and of hostile servers. All servers are scripts in this process, most of them over byte pipes.
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
mod login;
mod ordinary;
mod questions;
mod resources;
mod support;
