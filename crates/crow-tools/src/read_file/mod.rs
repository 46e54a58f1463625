//! `read_file`: text by pages with line numbers, pictures as pictures, PDF files by their pages,
//! notebooks by their cells, folders as listings.

mod image;
mod notebook;
mod page;
mod pages;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(feature = "pictures")]
mod scale_image;
mod stream;
mod tool;

pub(crate) use tool::ReadFile;
