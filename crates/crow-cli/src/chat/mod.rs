//! The chat: a line-based conversation with an agent, for any terminal.
//!
//! While the agent works, typed text is collected here and shown on the live line; between runs a line editor reads.
//! The editor gets the input line by line, so that text typed ahead is not lost in it. All output goes through the
//! screen thread that also shows single runs, see [`crate::run`].
//!
//! A panic here would end the chat with all its work, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod agent_work;
mod chat_input;
mod commands;
mod conversation;
mod editor;
mod feed;
mod greeting;
mod inline_prompt;
mod modes;
mod status_line;

pub(crate) use conversation::chat;
