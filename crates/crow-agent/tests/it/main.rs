//! Turns of the built-in loop on the real runtime, with a scripted model.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "tests fail loudly"
)]

mod checks;
mod compaction;
mod compositions;
mod deadlines;
mod environment;
mod executor;
mod fallbacks;
mod false_claims;
mod hooks;
mod instructions;
mod subagents;
mod tool_sources;
mod tools;
mod turns;
