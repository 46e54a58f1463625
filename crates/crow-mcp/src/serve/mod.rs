//! Crow as a server of the Model Context Protocol: other agents start tasks, follow them, answer their questions, read
//! their changes and cancel them.
//!
//! [`TaskServer`] works over an [`AgentHost`](crow_runtime::AgentHost), so a task is a session like any other: the user
//! can see it in the live view, resume it and undo it. A task outlives the connection that started it, until the process
//! ends.

mod http;
mod inputs;
mod questions;
mod task_server;
mod tasks;

pub use task_server::{ServeError, TaskServer};
