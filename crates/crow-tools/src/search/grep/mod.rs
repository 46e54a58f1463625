//! `grep`: lines by regular expression, with the libraries that ripgrep is made of.

mod collect;
mod query;
mod render;
mod search;
mod tool;

pub(crate) use tool::Grep;
