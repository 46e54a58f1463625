//! Help about keys: a line of the most useful ones for what goes on, and the list of all.

mod hints;
mod key_list;
mod shortcut;

pub(crate) use hints::{KeyMode, ShortcutContext, shortcut_hints};
pub(crate) use key_list::key_help;
pub(crate) use shortcut::{Shortcut, shortcut_row};

#[cfg(test)]
pub(crate) use {hints::hints_for, key_list::ListColumn};
