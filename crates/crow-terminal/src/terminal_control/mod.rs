//! Control sequences for features of a terminal other than its text: title, notifications, clipboard and colour of the
//! background.
//!
//! Text of others becomes harmless before it is part of a sequence. Nothing here writes: every function returns the
//! bytes, and the caller sends them between two frames.

mod background;
mod clipboard;
mod environment;
mod notification;
mod passthrough;
mod terminal_title;
#[cfg(test)]
mod tests;

pub use background::{BACKGROUND_QUERY, BackgroundQuery, BackgroundTone, parse_background_reply};
pub use clipboard::{ClipboardError, LONGEST_COPY, copy_sequence};
pub use environment::{ColourDepth, Multiplexer, TerminalEnvironment, TerminalProgram};
pub use notification::{
    FocusState, Notification, NotificationChoice, Notifier, UnknownNotificationError,
};
pub use terminal_title::{TerminalTitle, TitleState};
