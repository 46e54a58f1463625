//! A block of code: each line is final when it is complete.

use unicode_width::UnicodeWidthStr as _;

#[cfg(feature = "highlighting")]
use super::highlighter::Highlighter;
#[cfg(not(feature = "highlighting"))]
use super::plain_highlighter::PlainHighlighter as Highlighter;
use super::{layout::Layout, wrapper::LineWrapper};
use crate::{
    safe_text::safe,
    styled_text::{StyledLine, TextLook, TextRole},
};

/// Columns from one tab stop to the next.
const TAB: usize = 4;

/// Writes the lines of a block of code. They have no decoration, so that they can be copied.
#[derive(Debug, Clone)]
pub(super) struct CodeBlock {
    highlighter: Highlighter,
    wrapper: LineWrapper,
    /// Column in the line of the source, for tabs.
    column: usize,
}

impl CodeBlock {
    /// Begins a block, whose language is the first word of `info`.
    pub(super) fn new(info: &str, layout: &mut Layout) -> Self {
        let language = info.split([' ', '\t', ',', '{']).next().unwrap_or_default();
        if !language.is_empty() {
            let mut wrapper = LineWrapper::new(layout.room());
            wrapper.push_exact(&safe(language), &TextRole::Dim.into());
            wrapper.finish();
            layout.write_all(wrapper.take_lines());
        }
        Self {
            highlighter: Highlighter::new(language),
            wrapper: LineWrapper::new(layout.room()),
            column: 0,
        }
    }

    /// Writes a whole line.
    pub(super) fn write_line(&mut self, line: &str, layout: &mut Layout) {
        for (text, role) in self.highlighter.parts(line) {
            self.push(text, role);
        }
        self.end_line(layout);
    }

    /// Writes a part of a line that is too long to be highlighted.
    pub(super) fn write_part(&mut self, part: &str, layout: &mut Layout) {
        self.push(part, TextRole::Code);
        layout.write_all(self.wrapper.take_lines());
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self, layout: &mut Layout) {
        self.wrapper.break_line();
        self.column = 0;
        layout.write_all(self.wrapper.take_lines());
    }

    pub(super) fn set_room(&mut self, room: usize) {
        self.wrapper.set_room(room);
    }

    fn push(&mut self, text: &str, role: TextRole) {
        let look = TextLook::from(role);
        for (index, part) in text.split('\t').enumerate() {
            if index > 0 {
                let columns = TAB - self.column % TAB;
                self.wrapper.push_exact(&" ".repeat(columns), &look);
                self.column += columns;
            }
            let part = safe(part);
            self.wrapper.push_exact(&part, &look);
            self.column += part.width();
        }
    }
}

/// Returns the lines of HTML, which is shown as it is.
pub(super) fn html_lines(line: &str, layout: &Layout) -> Vec<StyledLine> {
    let mut wrapper = LineWrapper::new(layout.room());
    wrapper.push(&safe(line).replace('\t', "    "), &layout.text_look());
    wrapper.break_line();
    wrapper.take_lines()
}
