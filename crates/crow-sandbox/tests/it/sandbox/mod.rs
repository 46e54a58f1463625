//! Runs real commands in a real sandbox.

mod attributes;
mod files;
mod keeper;
mod network;
mod partial;
mod processes;
mod sandbox_fixture;
mod set_user;
mod sockets;
