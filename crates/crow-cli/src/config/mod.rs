//! The configuration: its layers, the settings of `config.toml`, and the commands that show and change it.

mod change;
mod commands;
mod document;
mod key;
mod load;
mod project;
mod schema;
mod settings;
mod unset;
mod validate;

pub(crate) use change::set;
pub(crate) use commands::{explain, get, one_line_value, paths};
pub(crate) use document::write;
pub(crate) use load::{Configuration, DEFAULT_AGENT, layers, tool_names};
pub(crate) use project::{capabilities, check_project, servers};
pub(crate) use schema::print as print_schema;
pub(crate) use settings::{SETTINGS, Settings};
pub(crate) use unset::{UnsetEffect, UnsetKey, unset_keys_of_base, unset_keys_of_composition};
pub(crate) use validate::{check, validate};
