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

pub(crate) use background::{BackgroundQuery, BackgroundTone};
pub(crate) use clipboard::copy_sequence;
pub use environment::TerminalEnvironment;
pub(crate) use environment::{ColourDepth, Multiplexer};
pub(crate) use notification::{FocusState, Notification, Notifier};
pub use notification::{NotificationChoice, UnknownNotificationError};
pub(crate) use terminal_title::{TerminalTitle, TitleState};
