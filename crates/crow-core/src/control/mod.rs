//! The control-flow machine: decides what follows a turn, without I/O.
//!
//! A [`ControlFlow`] defines how far an agent continues without its user, and who may declare the task done. A driver
//! calls [`ControlMachine::next_action`], performs it, and reports the outcome with the `on_` methods. The machine
//! can be saved between any two calls and resumed from there.

mod flow;
mod machine;
#[cfg(test)]
mod tests;

pub use flow::{
    CONTINUE_MESSAGE, CRITERIA_PROMPT, CoagentTools, CompletionOwner, ControlFlow, EndTool, Preset,
    UnknownLevel, UnknownPreset,
};
pub use machine::{Consensus, ControlMachine, NextAction, Review, RunFinish, TurnFacts};
