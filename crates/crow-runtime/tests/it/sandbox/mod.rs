//! Real commands in a real sandbox.

mod files;
mod network;
mod partial;
mod processes;
mod stage;
