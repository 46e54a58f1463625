//! Checks of requests: the vendors' rules, reasoning sent back unchanged, and the frozen prefix.
//!
//! [`check_body`] is pure and can check the output of an encoder without a server.

mod anthropic;
mod body;
mod chat;
mod echo;
mod gemini;
mod prefix;
mod reasoning;
mod responses;
mod sequence;

mod tools;
mod violation;

pub use body::check_body;
pub use prefix::PrefixCheck;
pub use sequence::prefix_sequence;
pub use violation::{Rule, ServerChecks, Violation, Violations};

pub(super) use body::check_record;
pub(super) use echo::{EchoCheck, SentReply};
pub(super) use prefix::PrefixHistory;
pub(super) use sequence::without_mark;
