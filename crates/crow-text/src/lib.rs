//! Text of others as it can be shown.
//!
//! What a model, a tool, a file or a server says may hold characters that a terminal obeys, that cannot be seen or that look
//! like others. There is one table of them, and one set of functions, for the terminal and for editors alike. Everything
//! here is pure: text in, text out.

mod confusable;
mod exact_text;
mod lookalike;
mod neutralise;
mod shorten;
mod unseen_characters;

pub use exact_text::{exact, exact_line};
pub use neutralise::{Neutraliser, neutralise, one_line};
pub use shorten::shorten;
pub use unseen_characters::is_unseen;
