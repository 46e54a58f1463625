//! Implementation of the subcommands.

mod acp;
pub(crate) mod agents;
pub(crate) mod commands;
pub(crate) mod config;
mod demo;
mod eval;
pub(crate) mod hooks;
pub(crate) mod import;
mod login;
pub(crate) mod mcp;
mod mcp_serve;
mod models;
mod permissions;
mod review;
mod serve;
mod sessions;
pub(crate) mod skills;
mod telemetry;
mod trust;
mod undo;
mod wire;

pub(crate) use acp::acp;
pub(crate) use demo::demo;
pub(crate) use eval::eval;
pub(crate) use login::{key_announcement, login, logout};
pub(crate) use mcp_serve::mcp_serve;
pub(crate) use models::{model_facts, models};
pub(crate) use permissions::{explain, list_rules};
pub(crate) use review::review;
pub(crate) use serve::serve;
pub(crate) use sessions::{export, list, remove, rename, repair, show};
pub(crate) use telemetry::{ledger, report, stats, trace};
pub(crate) use trust::trust;
pub(crate) use undo::{diff, redo, restore, show_changes, undo};
pub(crate) use wire::wire;
