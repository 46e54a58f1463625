//! Compaction: a conversation that comes close to the model's window is rewritten once, at a point that the log
//! records, and goes on shorter.
//!
//! 1. [`WindowLimits`] says when a compaction is due and how long each part may be afterwards.
//! 2. [`plan_masking`] replaces old outputs of tools by placeholders. It costs no model call; if it saves enough, that is all.
//! 3. Otherwise [`plan_summary`] decides what is kept word for word (the user's messages, the last steps) and what a
//!    summary replaces. The model writes the summary ([`summary_instruction`]); [`check_summary`] refuses one that is
//!    empty or too long, and [`mechanical_summary`] stands in for it.
//! 4. [`Cooldown`] ends compactions that do not help, so that a session cannot compact itself for ever.

mod plan;
mod summary;
#[cfg(test)]
mod tests;

pub use plan::{
    CompactionPlan, CompactionRung, Cooldown, WindowLimits, plan_masking, plan_summary,
};
pub(crate) use plan::{answered_calls, groups, superseded};
pub use summary::{
    OpenFailure, SummaryRejection, check_summary, compose_summary, mechanical_summary,
    open_failures, summary_instruction, transcript,
};
