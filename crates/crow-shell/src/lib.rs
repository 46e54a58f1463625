//! Determines what a shell line runs, and which files it touches.
//!
//! [`plan_command_line`] parses a line into the commands that it would start, and resolves the paths in their words
//! on the file system. A policy decides on the result. Programs are known from tables; one that is in none of them
//! may do anything. The crate starts nothing and changes nothing.

mod effects;
mod parse;

pub use effects::{exceeds_allowed, plan_command_line};
pub use parse::{needs_bash, overruns_bash_grammar};
