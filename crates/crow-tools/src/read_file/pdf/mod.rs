//! The text of PDF files, which may come from strangers: everything here has a limit.

mod cmap;
mod document;
mod text;

pub(super) use document::{PdfError, read};
