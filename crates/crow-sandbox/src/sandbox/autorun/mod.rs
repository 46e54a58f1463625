//! Autorun guard: finds files of the workspace that later start programs of the user, and prevents commands
//! from planting such files.

mod command_words;
mod entry_state;
mod git_config;
mod git_index;
mod git_repository;
mod git_settings;
mod git_todo;
mod guard;
mod inventory;
mod inventory_diff;
mod inventory_walk;
mod journal;
mod moved_roots;
mod nested_repositories;
mod pass_record;
mod pass_view;
mod protected_names;
mod quarantine;
mod repair;
mod script_targets;

pub(super) use self::{
    entry_state::StateReader,
    guard::{AutorunGuard, GuardedRun, KernelSeal, SealedMounts, autorun_paths},
    inventory::InventoryScope,
    journal::{LOCK, is_recoverable, recover},
};
pub use self::{guard::WrittenFile, journal::RecoveryReport};

#[cfg(test)]
mod tests;
