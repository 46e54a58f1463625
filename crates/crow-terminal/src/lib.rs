//! The interactive terminal of Crow: a chat with an agent.
//!
//! [`chat()`] runs a conversation until the user leaves. It knows agents only by an [`AgentHandle`] and the [`AgentHost`] that
//! opens them, and takes everything else from its [`ChatSetup`]: it reads no configuration and no variable.
//!
//! ```no_run
//! # use crow_terminal::{ChatEnd, ChatError, ChatSetup, chat};
//! # async fn talk(setup: ChatSetup) -> Result<(), ChatError> {
//! match chat(setup).await? {
//!     ChatEnd::UserLeft => {}
//!     ChatEnd::Interrupted => { /* a run may not have ended */ }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! On a terminal with escape sequences, finished lines belong to the terminal's history, and what changes is a region below
//! them. The modules from the top down: `chat` is the loop and all that it can do; `inline_screen` shows events with
//! `activity` and `live_region`, and texts of the agent with `markdown`; `prompt_input` is the prompt, made of `editor` and
//! `popup`; `full_screen` has the views that take the whole screen, and `status_line` the line below the prompt.
//!
//! [`AgentHandle`]: crow_runtime::AgentHandle
//! [`AgentHost`]: crow_runtime::AgentHost

mod activity;
mod bounded_text;
mod chat;
mod editor;
mod file_index;
mod full_screen;
mod fuzzy_matcher;
mod inline_screen;
mod input_decoder;
mod key_sequences;
mod keys;
mod line_layout;
mod live_region;
mod markdown;
mod painted_line;
mod popup;
mod prompt_input;
mod recording;
mod row_text;
mod safe_text;
mod screen_size;
mod shortcut_help;
mod status_line;
mod styled_text;
mod terminal_control;
#[cfg(test)]
mod tests;
mod theme;
mod theme_choice;
mod visible_characters;

pub use chat::{
    ChatEnd, ChatError, ChatOptions, ChatRecording, ChatSetup, ErrorDescription, ImageReader, chat,
    chat_command_names,
};
pub use editor::EditingStyle;
pub use recording::AsciicastError;
pub use status_line::{StatusTemplate, StatusTemplateError};
pub use terminal_control::{NotificationChoice, TerminalEnvironment, UnknownNotificationError};
pub use theme::Theme;
pub use theme_choice::{ThemeChoice, UnknownThemeError};
