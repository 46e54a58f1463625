//! What a coagent is given to judge.
//!
//! A [`Bundle`] says what a primary's turn came to: the task, the todo list, a digest of the turn, the changes of files
//! since the last review, the commands with their exit codes, and what is open. A [`Handoff`] says what the coagent is to
//! do with it. Together they stay below a bound, so that a review costs a digest and not the transcript.

mod bundle;
mod changes;
mod digest;
mod form;
mod turn_result;

pub(crate) use bundle::HandoffScene;
pub use bundle::{Bundle, HANDOFF_TOKENS};
pub use digest::TurnCall;
pub use form::{Handoff, HandoffTemplate};
pub(crate) use turn_result::Captures;
pub use turn_result::TurnResult;
