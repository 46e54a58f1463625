//! Conversion of events to ACP updates, and of a client's messages to input of the agent.
//!
//! Nothing here talks to a client: values go in, values come out. The contents of files before and after a call come
//! from a [`FileReader`](contents::FileReader), which alone may read the disk.

mod abilities;
mod call;
mod child;
mod content;
mod contents;
mod diff;
mod errors;
mod event;
mod notice;
mod open_call;
mod permission;
mod prompt;
mod reply;
mod result;
mod review;
mod session_state;
#[cfg(test)]
mod tests;
mod tool_display;

pub(crate) use abilities::ClientAbilities;
pub(crate) use contents::StoredContents;
pub(crate) use errors::{handle_error, host_error, invalid, not_open, run_end};
pub(crate) use event::{EventSource, SessionUpdateOut, SessionView};
pub(crate) use permission::{PermissionReply, answer};
pub(crate) use prompt::{as_command, prompt_blocks, prompt_error};
pub(crate) use session_state::{
    commands, config_options, modes, prompt_usage, replayable, session_info, session_info_update,
    switch_value, usage_update,
};
