//! The pipeline of every tool call: resolve, plan, decide, ask, capture, log, run, capture, log.

mod call;
mod call_reports;
mod changes;
mod moved_files;
mod output_bound;
mod prepare;
mod run;
mod sandbox;

pub use call::ExecutedCall;
pub(crate) use moved_files::{describe_moved, while_ran};
