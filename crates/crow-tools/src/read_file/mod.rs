//! `read_file`: text by pages with line numbers, pictures as pictures, notebooks by their cells, folders as listings.

mod image;
mod notebook;
mod page;
mod stream;
mod tool;

pub(crate) use tool::ReadFile;
