//! The chat: a line-based conversation on a handle, for any terminal.
//!
//! While the agent works, what is typed is collected here and shown on the live line; between the runs a line editor
//! reads. Both never read at once. What is shown goes through the thread that shows runs, see [`crate::run`].

mod actions;
mod command;
mod conversation;
mod editor;
mod greeting;
mod interrupts;
mod modes;
mod start;
mod work;

pub(crate) use start::chat;
