//! Test kit of Crow: what tests and benchmarks need to stand in for the world outside.
//!
//! [`wire`] renders scripted replies as the bytes of four vendor dialects; [`server`] serves them over loopback, breaks
//! them on demand, and checks every request it sees.

#![expect(clippy::expect_used, reason = "a test kit fails loudly")]

pub mod server;
pub mod wire;

pub use server::check::{Checks, PrefixCheck, Rule, Violation, Violations, check_body};
pub use server::{
    Answer, AnswerState, Chunk, Delivery, Ending, Fault, Gate, LineEnd, ModelServer,
    RecordedRequest, Script, ServerOptions, Step, refused_base_url,
};
pub use wire::{ChatFlavour, Dialect, Pieces, Reply, ReplyBlock, ReplyUsage, Stop, VendorError};
