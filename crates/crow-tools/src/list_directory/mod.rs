//! `list_directory`: a folder as a tree, as much of it as fits.

mod listing;
mod tool;

pub(crate) use listing::list;
pub(crate) use tool::ListDirectory;
