//! Instructions for agents in files of the user and of the project.
//!
//! The files are `AGENTS.override.md`, `AGENTS.md` or `CLAUDE.md`, the first of each folder that has text: in the folder
//! of the user's configuration, in the folders from the root of the repository to the working directory, and in the
//! folders below as soon as a tool reads or changes a file there. The log records which text the model was given
//! ([`AgentEvent::Instructions`](crow_core::event::AgentEvent::Instructions)), so what is missing or has changed follows
//! from the history and the disk alone, also after a compaction, a rewind or a restart. What was sent is never edited:
//! every change is appended.

mod file;
mod search;
#[cfg(test)]
mod tests;
mod tracker;
mod update;

pub use file::{InstructionFlaw, InstructionFlawKind};
pub use search::{InstructionListing, InstructionSources};
pub(crate) use tracker::{InstructionTracker, give_instructions};
