//! `read_file`: text by pages with line numbers, pictures as pictures, folders as listings.

mod image;
mod page;
mod stream;
mod tool;

pub(crate) use tool::ReadFile;
