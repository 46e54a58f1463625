//! Real commands in a real sandbox.

mod attributes;
mod files;
mod keeper;
mod network;
mod partial;
mod processes;
mod sockets;
mod stage;
