//! The turn machine: decides the next step of a turn, without I/O.
//!
//! A driver calls [`TurnMachine::next_step`], performs it, and reports the facts with the `on_` methods. The machine
//! can be saved between any two calls and resumed from there.

mod budget;
mod loop_guard;
mod machine;
#[cfg(test)]
mod tests;

pub use budget::{Budget, BudgetLimits, LimitKind, RunLimits, RunUsage, TurnLimits};
pub use loop_guard::{CallSignature, GuardVerdict, LoopGuard};
pub use machine::{
    CallEffect, CallOutcome, NextStep, ReplyFacts, RequestedCall, TurnEnd, TurnMachine, Validity,
};
