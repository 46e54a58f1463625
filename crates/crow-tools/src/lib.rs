//! The built-in tools: files, edits, search, shell, todo list, thoughts, questions to the user,
//! and with the feature `web` pages and searches of the web.
//!
//! [`builtin_tools`] returns them all; an agent gets a selection of them by name. Each tool plans first (which path,
//! which command), so that permission can be decided, and then acts on exactly that. Files are changed in process;
//! programs are started only through the runtime's `Processes` and `Jobs`.
//!
//! ```
//! use crow_core::tool::ToolRegistry;
//!
//! let mut registry = ToolRegistry::new();
//! crow_tools::register_builtin(&mut registry);
//! let (reader, unknown) = registry.for_agent(&["read_file".into(), "grep".into()]);
//! assert_eq!((reader.names().count(), unknown.len()), (2, 0));
//! ```

mod apply_patch;
mod ask_user;
mod blocking;
mod builtin;
mod edit_file;
mod file;
mod list_directory;
mod notes;
mod paths;
mod read_file;
mod search;
mod shell;
#[cfg(feature = "syntax")]
mod syntax;
#[cfg(feature = "web")]
mod web;
mod write_file;

pub use builtin::{builtin_tools, register_builtin};
pub use crow_shell::plan_command_line;
pub use paths::planned_path;
pub use read_file::{PictureFileError, read_picture};
#[cfg(feature = "web")]
pub use web::{
    SearchService, SearchServiceError, SearchServiceKind, WebFetch, WebSearch, plan_web_fetch,
};
