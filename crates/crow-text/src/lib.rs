//! Safe display of text from other sources, differences of texts, and other spellings of shell texts.
//!
//! Text from a model, a tool, a file or a server may hold characters that a terminal obeys, that are invisible or
//! that look like others. One table of them, and one set of functions, serves the terminal and editors alike.
//! Everything here is pure: text in, text out.

mod confusable;
mod diff;
mod exact_text;
mod lookalike;
mod neutralise;
mod shell_spellings;
mod shorten;
mod unseen_characters;

pub use diff::{diff, diff_within};
pub use exact_text::{approval_line, approval_text};
pub use neutralise::{Neutraliser, neutralise, one_line};
pub use shell_spellings::shell_spellings;
pub use shorten::shorten;
pub use unseen_characters::is_unseen;
