//! Real commands in a real sandbox.

mod files;
mod keeper;
mod network;
mod partial;
mod processes;
mod stage;
