//! Markdown as lines of styled text, while it arrives.

mod block_highlighter;
mod block_starts;
mod blocks;
mod code;
mod cursor;
mod definitions;
mod delimiter_row;
mod glyphs;
mod highlighter;
mod html_start;
mod inline;
mod layout;
mod line_splitter;
mod markers;
mod paragraph;
mod stream;
mod table;
mod table_grid;
#[cfg(test)]
mod tests;
mod wrapper;

pub(crate) use stream::{MarkdownStream, render_markdown};
