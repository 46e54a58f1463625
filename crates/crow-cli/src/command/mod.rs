//! Implementation of the subcommands.

mod acp;
mod completions;
mod demo;
mod man;
mod models;
mod permissions;
mod run;
mod sessions;
mod trust;
mod undo;

pub(crate) use acp::acp;
pub(crate) use completions::{completions, print_completions, quoted};
pub(crate) use demo::demo;
pub(crate) use man::{man, write_out};
pub(crate) use models::models;
pub(crate) use permissions::{explain, list_rules};
pub(crate) use run::{resume, run};
pub(crate) use sessions::{export, list, remove, repair, show};
pub(crate) use trust::trust;
pub(crate) use undo::{diff, redo, restore, show_changes, undo};
