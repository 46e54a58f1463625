mod examples;
mod hostile;
mod rendering;
mod streaming;
mod whole_document;

use crow_console::Glyphs;

use super::{MarkdownStream, render_markdown};
use crate::styled_text::StyledLine;

/// Returns the text of a rendered document.
fn shown(text: &str, width: usize) -> String {
    texts(&render_markdown(text, width)).join("\n")
}

fn texts(lines: &[StyledLine]) -> Vec<String> {
    lines.iter().map(StyledLine::text).collect()
}

/// Returns the lines of a text that arrives in one piece, as a stream knows it.
fn streamed(text: &str, width: usize) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::new(width, Glyphs::Unicode);
    let mut lines = stream.push(text);
    lines.append(&mut stream.finish());
    lines
}
