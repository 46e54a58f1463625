//! The text of PDF files, which may come from strangers: everything here has a limit.

mod cmap;
mod document;
mod font_encoding;
mod glyph_names;
mod text;

pub(super) use document::{PdfError, read};
