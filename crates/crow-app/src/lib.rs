//! The product below its front ends: configuration, trust in projects, keys, the sandbox's settings, MCP servers, and
//! the host that creates, opens and lists sessions with them.
//!
//! A front end reads the process's [`ProcessEnvironment`], asks [`trust::admit`] what the project in a directory adds, builds
//! the parts ([`product`]) and puts them together in a [`host::ProductHost`], which implements
//! [`AgentHost`](crow_runtime::AgentHost). This crate knows no terminal and no arguments: messages and questions go
//! through a [`UserDialog`], and a front end adds commands of its own with [`host::SessionCommands`].

mod child_environment;
pub mod config;
pub mod credentials;
mod dialog;
mod environment;
mod error;
mod hook_files;
pub mod hooks;
pub mod host;
pub mod import;
pub mod known_secrets;
mod live_view_token;
pub mod mcp;
mod model_lists;
pub mod private_file;
pub mod product;
pub mod project_checks;
pub mod prompt_files;
mod rule_text;
pub mod sandbox;
pub mod skills;
mod telemetry;
pub mod trust;
mod web;
mod wire_log;

pub use dialog::{Audience, NoDialog, UserDialog};
pub use environment::ProcessEnvironment;
pub use error::{AppError, AppErrorKind};
pub use host::SessionRecord;
pub use known_secrets::redactor;
pub use live_view_token::{kept_live_view_token, new_live_view_token};
pub use model_lists::ModelLists;
pub use rule_text::{describe_rule, rule_subject, rule_verb};
pub use telemetry::otel_settings;
pub use web::{
    SearchPermissions, has_stored_search_key, search_key_destination, search_permissions,
    search_services_with_keys,
};
pub use wire_log::{WireLogFile, WireRecord};
