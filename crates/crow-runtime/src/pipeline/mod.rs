//! The one way of every tool call: understand, plan, decide, ask, log, run, log.

mod bound;
mod call;
mod prepare;
mod run;

pub use call::ExecutedCall;
