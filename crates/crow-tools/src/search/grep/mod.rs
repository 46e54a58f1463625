//! `grep`: search for lines by regular expression, with the libraries of ripgrep.

mod search;
mod tool;

pub(crate) use tool::Grep;
