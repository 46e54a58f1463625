//! The agent as clients see it.

mod bad_input;
mod client;
mod library_client;
mod pressure;
mod questions;
mod sessions;
mod turns;
mod version_2;
