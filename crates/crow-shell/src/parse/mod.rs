//! Parsing of a shell line into the commands that it would run. It gives up at the first thing that is not
//! understood.
//!
//! The grammar of tree-sitter is not the shell's. So the tree is not trusted where the two may differ: each byte must
//! belong to a leaf or be plain space, each word is read a second time by the shell's own quoting rules, and kinds of
//! nodes that are not listed are not understood.

mod bash_only;
mod builtins;
mod expressions;
mod line;
mod node_kinds;
mod node_places;
mod opaque_text;
mod parameter;
mod redirects;
mod shell_options;
mod syntax_walk;
mod variables;
mod words;
mod wrapper_table;
mod wrappers;

pub use bash_only::needs_bash;
pub use line::overruns_bash_grammar;
pub(crate) use line::{FilePassing, FoundFiles, LineFacts, read_with_facts};
pub(crate) use variables::is_set_by_the_shell;
pub(crate) use wrappers::xargs_options;

#[cfg(test)]
use line::read_command_line;

#[cfg(test)]
mod tests;
