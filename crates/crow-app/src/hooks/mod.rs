//! Hooks: commands that are told what an agent does and may object, in the format of Claude Code's settings.
//!
//! Those of a project count once the project is trusted. They run in the sandbox of the agent's commands, unless the user lets
//! their own hooks run outside.

mod answer;
mod command_hooks;
mod hook_input;
mod hook_process;
mod hook_set;
mod replay;
#[cfg(test)]
mod tests;
mod tool_names;

pub(crate) use command_hooks::{CommandHooks, HookLaunch};
pub use hook_set::{HookOrigin, HookSet, SessionHook};
pub use replay::{HookReplay, HookReport, RecordedEvent};

pub use crate::hook_files::{Hook, HookEvent, UnusedHook};
