//! The activity above the prompt: what is going on, as rows of the live region.
//!
//! [`ActivityPanel`] takes all events of a root session and of the agents below it, and makes rows for a point in time. It
//! draws nothing itself, has no clock, and prints no finished lines: those come from the renderer of `crow_console`.
//!
//! # Sections
//! From top to bottom, which is also their importance:
//! 1. The spinner line: what the agent waits for, for how long, the tokens received in this turn, and the key that stops it.
//!    A single call is named here, and has no row of its own.
//! 2. Calls of the agent that the user talks to, if several run for more than a moment, and the end of the output of the
//!    newest one.
//! 3. Other agents at work, as a tree.
//! 4. The todo list.
//! 5. Background jobs.
//!
//! With few rows, each section gets one row in this order, then they grow in turns, see `layout`.
//!
//! # Placement
//! The rows belong between the text that streams and the prompt, without an empty row before the prompt. The live region has
//! at most 40 % of the screen's rows, or 12. The prompt and what is below it come first. Of the rows that are left, the text
//! that streams and the empty row below it keep two as long as there is text; the panel gets the others, and at least one.
//! Rows that the panel leaves free are given to the streaming text:
//!
//! ```text
//! left  = most - prompt - below
//! panel = at most max(1, left - (2 if text streams, else 1))
//! text  = min(3, left - panel - 1)
//! ```
//!
//! While a question is open, the spinner line says so without a spinner. When no run is active the panel has rows only for
//! agents and jobs in the background.
//!
//! # Limits
//! Events may be lost, repeated or out of order. An end without a start does nothing, a second start replaces the first, and
//! the end of a run ends all that belongs to it. No event says that a compaction within a turn begins, that a job ended
//! before the model was told, or how many attempts a request gets; so these are not shown.

mod agent_progress;
mod background_jobs;
mod events;
mod layout;
mod live_calls;
mod model_phase;
mod output_tail;
mod panel;
mod received_tokens;
mod roster;
mod rows;
mod spinner_row;
#[cfg(test)]
mod tests;
mod text_fit;

pub(crate) use background_jobs::BackgroundJobs;
pub(crate) use panel::{ActivityPanel, ActivitySpace};
