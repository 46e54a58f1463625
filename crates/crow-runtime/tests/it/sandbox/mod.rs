//! Real commands in a real sandbox.

mod files;
mod network;
mod processes;
mod stage;
