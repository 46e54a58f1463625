//! Text of others as it can be shown.
//!
//! What a model, a tool, a file or a server says may hold characters that a terminal obeys, that cannot be seen or that look
//! like others. There is one table of them, and one set of functions, for the terminal and for editors alike. Everything
//! here is pure: text in, text out.

mod confusable;
mod exact;
mod lookalike;
mod neutral;
mod shorten;
mod unseen;

pub use exact::{exact, exact_line};
pub use neutral::{Neutraliser, neutralise, one_line};
pub use shorten::shorten;
pub use unseen::is_unseen;
