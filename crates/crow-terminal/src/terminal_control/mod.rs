//! Control sequences for features of a terminal other than its text: title, notifications, clipboard and colour of the
//! background.
//!
//! Text of others becomes harmless before it is part of a sequence. Nothing here writes: every function returns the
//! bytes, and the caller sends them between two frames.

mod terminal_title;

pub use terminal_title::{TerminalTitle, TitleState};
