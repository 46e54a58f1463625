//! What a chat needs to start, and how it ends.

use std::{io, path::PathBuf, sync::Arc};

use crow_console::ConsoleStyle;
use crow_core::model::Models;
use crow_runtime::{AgentHandle, AgentHost, HostError, SessionStore};

use super::{chat_recording::ChatRecording, pasted_images::ImageReader};
use crate::{
    editor::EditingStyle,
    status_line::StatusTemplate,
    terminal_control::{NotificationChoice, TerminalEnvironment},
    theme_choice::ThemeChoice,
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
    /// The user's shell, for commands after `!`. It must understand `-c`.
    pub shell: String,
    /// A prompt that is sent at the start.
    pub first_prompt: Option<String>,
    /// Recording of what is shown. Plain lines are not recorded.
    pub recording: Option<ChatRecording>,
    /// Reads images whose path is pasted.
    pub read_image: ImageReader,
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
