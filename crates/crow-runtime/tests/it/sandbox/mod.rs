//! Real commands in a real sandbox.

mod files;
mod processes;
mod stage;
