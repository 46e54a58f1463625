//! Conversion of events to ACP updates, and of a client's messages to input of the agent.
//!
//! Nothing here talks to a client: values go in, values come out. The contents of files before and after a call come
//! from a [`FileReader`](contents::FileReader), which alone may read the disk.

mod abilities;
mod attribution;
mod call;
mod child;
mod commands;
mod content;
mod contents;
mod diff;
mod errors;
mod event;
mod kind;
mod location;
mod notice;
mod open_call;
mod options;
mod outgoing;
mod permission;
mod plan;
mod prompt;
mod proposal;
mod reply;
mod result;
mod review;
mod sessions;
mod terminal;
mod text;
mod uri;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use abilities::ClientAbilities;
pub(crate) use commands::{as_command, commands};
pub(crate) use contents::StoredContents;
pub(crate) use errors::{handle_error, host_error, run_end};
pub(crate) use event::{EventSource, SessionView};
pub(crate) use options::{config_options, modes, switch_value};
pub(crate) use outgoing::SessionUpdateOut;
pub(crate) use permission::{PermissionReply, answer};
pub(crate) use prompt::{PromptFault, prompt_blocks, prompt_error};
pub(crate) use sessions::{replayable, session_info, session_info_update};
pub(crate) use usage::{prompt_usage, usage_update};
