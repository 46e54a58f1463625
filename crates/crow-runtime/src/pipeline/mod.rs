//! The one way of every tool call: understand, plan, decide, ask, capture, log, run, capture, log.

mod bound;
mod call;
mod changes;
mod moved_files;
mod prepare;
mod reports;
mod run;
mod sandbox;

pub use call::ExecutedCall;
pub(crate) use moved_files::{describe_moved, while_ran};
