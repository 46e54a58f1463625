//! `bash`: a command in a shell, and its output in a form that a model can read.

mod bash;
mod folder;
mod output;
mod parse;
mod terminal;

pub use parse::read_command_line;

pub(crate) use bash::Bash;
