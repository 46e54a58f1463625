//! The providers against the test kit's servers.

mod history;
mod support;

mod connections;
mod errors;
mod faults;
mod replies;
mod requests;
mod retries;
