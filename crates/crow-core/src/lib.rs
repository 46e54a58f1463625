//! Shared types of Crow and its pure decision logic.
//!
//! Defines the types that the other crates share: messages, events, history, tools, models, permission, and the turn
//! machine. Nothing here spawns, sleeps, reads a clock, a file or the environment, or knows a protocol.

pub mod call;
pub mod capability;
pub mod config;
pub mod context;
pub mod control;
pub mod ending;
pub mod event;
pub mod file_views;
mod hash;
pub mod history;
pub mod hooks;
pub mod ids;
pub mod mcp;
pub mod message;
pub mod model;
pub mod network;
pub mod permission;
pub mod protected;
pub mod redact;
pub mod resource_map;
mod run;
pub mod settings;
pub mod todo;
pub mod tool;
mod tool_types;
pub mod trace;
pub mod turn;
pub mod usage;
pub mod workspace;
