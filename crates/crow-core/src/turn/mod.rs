//! The turn machine: what comes next in a turn, decided without I/O.
//!
//! A driver asks [`TurnMachine::next_step`], does it, and tells the machine the facts with the `on_` methods. The
//! machine can be saved between any two of these and goes on from there.

mod budget;
mod limits;
mod loop_guard;
mod machine;
#[cfg(test)]
mod tests;

pub use budget::{Budget, BudgetLimits};
pub use limits::{LimitKind, RunLimits, RunUsage, TurnLimits};
pub use loop_guard::{CallSignature, GuardVerdict, LoopGuard};
pub use machine::{
    CallEffect, CallOutcome, NextStep, ReplyFacts, RequestedCall, TurnEnd, TurnMachine, Validity,
};
