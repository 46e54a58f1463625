//! The control-flow machine: what comes after a turn, decided without I/O.
//!
//! A [`ControlFlow`] says how far an agent goes on without its user, and who may say that the task is done. A driver asks
//! [`ControlMachine::next_action`], does it, and tells the machine what came of it with the `on_` methods. The machine can
//! be saved between any two of these and goes on from there.

mod flow;
mod machine;
mod preset;
mod review;
#[cfg(test)]
mod tests;

pub use flow::{
    CONTINUE, CRITERIA_PROMPT, CoagentTools, ControlFlow, EndTool, OwnerOfTheEnd, UnknownLevel,
};
pub use machine::{ControlMachine, NextAction, RunFinish, TurnFacts};
pub use preset::{Preset, UnknownPreset};
pub use review::{Consensus, Review};
