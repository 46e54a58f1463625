//! The built-in tools: files, edits, search, shell, todo list, thoughts.
//!
//! [`builtin_tools`] returns them all; whoever builds an agent chooses among them by name. Each tool plans first
//! (which path, which command), so that permission can be decided, and then acts on exactly that. Files are changed
//! in process; programs are started only through the runtime's `Processes`.

mod blocking;
mod builtin;
mod edit;
mod edit_file;
mod file;
mod list_directory;
mod paths;
mod read_file;
mod search;
mod shell;
mod think;
mod todo;
mod write_file;

pub use builtin::{builtin_tools, register_builtin};
