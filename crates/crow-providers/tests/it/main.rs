//! Tests of the providers against the test kit's servers.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, too"
)]

mod history;
mod support;

mod connections;
mod errors;
mod faults;
mod limits;
mod openai;
mod replies;
mod requests;
mod retries;
mod routes;
mod text_calls;
mod wire_log;
