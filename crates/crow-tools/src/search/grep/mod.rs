//! `grep`: search for lines by regular expression, with the libraries of ripgrep.

mod collect;
mod query;
mod render;
mod search;
mod tool;

pub(crate) use tool::Grep;
