//! The one way of every tool call: understand, plan, decide, ask, capture, log, run, capture, log.

mod bound;
mod call;
mod changes;
mod prepare;
mod run;
mod sandbox;

pub use call::ExecutedCall;
pub(crate) use sandbox::describe_moved;
