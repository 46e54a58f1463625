//! The chat: a line-based conversation on a handle, for any terminal.
//!
//! While the agent works, what is typed is collected here and shown on the live line; between the runs a line editor
//! reads. The editor gets what is typed
//! line by line, so that nothing which was typed ahead is lost in it. What is shown goes through the thread that shows runs, see [`crate::run`].

mod actions;
mod asked;
mod command;
mod conversation;
mod editor;
mod feed;
mod greeting;
mod interrupts;
mod modes;
mod pastes;
mod recap;
mod start;
mod work;

pub(crate) use start::chat;
