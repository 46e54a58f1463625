//! What a shell line runs, and which files it touches.
//!
//! [`plan_command_line`] reads a line into the commands that it would start, and resolves the paths that their words name on the
//! file system. A policy decides on the result. Tables say what is known of programs; a program that is in none of them may do
//! anything. Starts nothing and changes nothing.

mod effects;
mod parse;

pub use effects::{is_widened, plan_command_line};
pub use parse::needs_bash;
