//! Handoffs: the material that a coagent gets to judge, and its instructions.
//!
//! A [`Bundle`] summarises the turn of a primary: the task, the todo list, a digest of the turn, the changes of files
//! since the last review, the commands with their exit codes, and open questions. A [`Handoff`] has the instructions
//! for the coagent. Together they stay below a limit, so that a review costs a digest and not the transcript.

mod bundle;
mod form;
mod turn_result;

pub(crate) use bundle::HandoffScene;
pub use bundle::{Bundle, HANDOFF_TOKENS, TurnCall};
pub use form::{Handoff, HandoffTemplate};
pub(crate) use turn_result::Captures;
pub use turn_result::TurnResult;
