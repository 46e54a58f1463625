//! Tests of the server through its clients.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail loudly"
)]

mod bad_input;
mod client;
mod http;
mod library_client;
mod links;
mod links_library;
mod pressure;
mod providers;
mod questions;
mod sessions;
mod turns;
mod version_2;
