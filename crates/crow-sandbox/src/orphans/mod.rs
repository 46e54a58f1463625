//! Processes that left the group of their command, and the environment marks that identify them.
//!
//! This serves all commands, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod adoption;
mod kill_guard;
mod process_table;

pub use adoption::adopt_orphans;

#[cfg(target_os = "linux")]
pub(crate) use adoption::OwnProcess;
pub(crate) use adoption::{CommandMark, MARK, OrphanForce, are_adopted};
