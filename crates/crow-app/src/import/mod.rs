//! Taking over what the user has for other coding agents: servers, permissions, agents,
//! commands, skills and sessions.
//!
//! An [`ImportPlan`] says what would be written, what Crow reads as it is, and what has no meaning here. Only
//! [`ImportPlan::carry_out`] writes, and only into Crow's own folder: nothing of the other program is changed.

mod apply;
mod claude;
mod codex;
mod files;
mod front_matter;
mod gemini;
mod opencode;
mod pi;
mod plan;
mod rules;
mod servers;
mod sessions;
mod source;
#[cfg(test)]
mod tests;

pub use plan::{
    ImportItem, ImportKind, ImportPlan, ImportResult, ImportState, LeftOut, SessionChoice,
};
pub(crate) use sessions::is_new_import;
pub use source::{ImportSource, plan_import};
