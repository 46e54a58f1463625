//! The chat: a conversation with an agent at a terminal.
//!
//! [`chat`] knows agents only by their [`AgentHandle`] and the [`AgentHost`] that opens them. On a terminal with escape
//! sequences it shows an inline screen with an editor at the bottom, on others plain lines.
//!
//! A panic here would end the chat with all its work, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod agent_work;
mod attention;
mod branch;
mod chat_commands;
mod chat_input;
mod chat_loop;
mod chat_recording;
mod chat_screen;
mod external_editor;
mod file_completion;
mod full_screen_views;
mod greeting;
mod interrupts;
mod local_commands;
mod prompt_history;
mod question_panel;
mod questions;
mod session_status;
mod terminal_modes;
mod user_shell;

use std::{io, path::PathBuf, sync::Arc};

use crow_console::ConsoleStyle;
use crow_core::model::Models;
use crow_runtime::{AgentHandle, AgentHost, HostError, SessionStore};

pub use chat_commands::chat_command_names;
pub use chat_loop::chat;
pub use chat_recording::ChatRecording;

use crate::{
    editor::EditingStyle, status_line::StatusTemplate, terminal_control::NotificationChoice,
    terminal_control::TerminalEnvironment, theme_choice::ThemeChoice,
};

/// Parts and settings of a chat.
#[derive(Debug)]
pub struct ChatSetup {
    /// The host of the sessions.
    pub host: Arc<dyn AgentHost>,
    /// The agent of the first session.
    pub handle: AgentHandle,
    /// The stored sessions of the host.
    pub store: Arc<dyn SessionStore>,
    /// Source of the prices of models.
    pub models: Arc<dyn Models>,
    /// Style of the output. If it is `live`, the terminal knows escape sequences.
    pub style: ConsoleStyle,
    /// Value of `TERM`; empty if unset.
    pub term: String,
    /// Facts about the terminal from variables.
    pub environment: TerminalEnvironment,
    /// Choices of the user.
    pub options: ChatOptions,
    /// Folder for the history of prompts; without one, none is kept.
    pub data_dir: Option<PathBuf>,
    /// The user's home, abbreviated as `~` in paths.
    pub home: Option<PathBuf>,
    /// Name and version of the program, such as `crow-agent 0.1.0`.
    pub program: String,
    /// Messages that are shown at the start.
    pub warnings: Vec<String>,
    /// True if the first session existed before: its last prompt and answer are shown.
    pub is_resumed: bool,
    /// The command of the user's editor, with arguments as a shell reads them.
    pub editor: Option<String>,
    /// A prompt that is sent at the start.
    pub first_prompt: Option<String>,
    /// Recording of what is shown. Plain lines are not recorded.
    pub recording: Option<ChatRecording>,
    /// Describes an error of the host to the user.
    pub describe_error: fn(HostError) -> ErrorDescription,
}

/// Choices of the user about the terminal.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    pub theme: ThemeChoice,
    /// Keys of the prompt.
    pub keys: EditingStyle,
    pub status_line: StatusTemplate,
    pub notifications: NotificationChoice,
}

/// An error in words for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDescription {
    /// The problem.
    pub message: String,
    /// Advice.
    pub hint: Option<String>,
}

/// Reason for the end of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatEnd {
    /// The user left.
    UserLeft,
    /// The user did not wait for the agent to stop, or a signal ended the program.
    Interrupted,
}

/// Error that ends the chat.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The terminal cannot be read or set.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[source] io::Error),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output,
    /// Another reader has taken the agent's events.
    #[error("the agent's events are already in use")]
    EventsInUse,
    /// The host cannot do what the chat needs.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The agent has ended by itself.
    #[error("{message}")]
    AgentEnded {
        /// The reason.
        message: String,
        /// True if the reason is on the screen already.
        is_shown: bool,
    },
}
