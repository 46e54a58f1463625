//! Files that configure hooks: where they are, and what is in them.

mod hook_file;
mod matcher;
mod places;

pub(crate) use hook_file::{
    FailureEffect, HookCommand, HookFile, ProjectHookFile, SESSION_END_NAMES, hooks_of_file,
    hooks_of_settings,
};
pub use hook_file::{Hook, HookEvent, UnusedHook};
pub(crate) use places::{CLAUDE_USER_FILE, PROJECT_FILES, is_hook_file, resolved, user_hook_files};
