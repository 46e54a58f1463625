//! The commands of a session that the terminal program adds to those of the host: undo, redo, the changes, and export.

mod changes;
mod commands;
#[cfg(test)]
mod tests;

pub(crate) use commands::ConsoleCommands;
