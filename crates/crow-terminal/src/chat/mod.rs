//! The chat: a conversation with an agent at a terminal.
//!
//! [`chat()`] knows agents only by their [`AgentHandle`] and the [`AgentHost`] that opens them. On a terminal with escape
//! sequences it shows an inline screen with an editor at the bottom, on others plain lines.
//!
//! A panic here would end the chat with all its work, so nothing may panic.
//!
//! [`AgentHandle`]: crow_runtime::AgentHandle
//! [`AgentHost`]: crow_runtime::AgentHost

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod agent_work;
mod attention;
mod branch;
mod chat_commands;
mod chat_input;
mod chat_loop;
mod chat_recording;
mod chat_screen;
mod chat_setup;
mod external_editor;
mod file_completion;
mod full_screen_views;
mod greeting;
mod interrupts;
mod local_commands;
mod pasted_images;
mod prompt_history;
mod question_panel;
mod questions;
mod session_status;
mod terminal_handover;
mod terminal_modes;
mod user_shell;
mod waiting_lines;

pub use chat_commands::chat_command_names;
pub use chat_loop::chat;
pub use chat_recording::ChatRecording;
pub use chat_setup::{ChatEnd, ChatError, ChatOptions, ChatSetup, ErrorDescription};
pub use pasted_images::ImageReader;
