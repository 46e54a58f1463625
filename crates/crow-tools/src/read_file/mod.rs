//! `read_file`: text by pages with line numbers, pictures as pictures, PDF files by their pages,
//! notebooks by their cells, folders as listings.

mod notebook;
mod page;
#[cfg(feature = "pdf")]
mod pdf;
mod picture_file;
#[cfg(feature = "pictures")]
mod scale_image;
mod tool;

pub(crate) use page::FileHead;
pub use picture_file::{PictureFileError, read_picture};
pub(crate) use tool::ReadFile;
