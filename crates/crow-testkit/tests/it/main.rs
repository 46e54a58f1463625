//! Tests of the model server, driven by a hand-written client over plain TCP, and of the example of the library guide.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly"
)]

mod bodies;
mod checks;
mod client;
mod echo;
mod errors;
mod faults;
mod hosts;
mod own_tool;
mod prompt_cache;
mod rendering;
mod serving;
