//! A paragraph that is still open.
//!
//! Its text is read when it ends, since markup may be open until then. A long one is cut where nothing can change what
//! is before, so that the work for it stays bounded: the lines before the cut are final, but for the last one, which the
//! text after the cut continues.

use super::{
    definitions::Definitions,
    inline::{InlinePiece, LINE_SEPARATOR, paragraph_cut, paragraph_pieces},
    layout::Layout,
    wrapper::LineWrapper,
};
use crate::styled_text::{StyledLine, TextRole};

/// Length in bytes from which a paragraph is cut.
const LONG: usize = 2048;
/// Length in bytes at which a paragraph is cut even if markup is open. Markup that is longer is shown as text.
const LONGEST: usize = 8 * LONG;

/// The text of a paragraph since the last cut.
#[derive(Debug, Clone)]
pub(super) struct OpenParagraph {
    text: String,
    /// Number of lines, and where the last one begins.
    lines: usize,
    last_line: usize,
    /// False if the last line is indented like code, or continues the paragraph outside of its containers.
    may_be_header: bool,
    /// Length at which the next cut is tried.
    next_cut: usize,
    /// Holds the line that the last cut left.
    wrapper: Option<LineWrapper>,
}

impl OpenParagraph {
    pub(super) fn new(line: &str) -> Self {
        Self {
            text: line.to_owned(),
            lines: 1,
            last_line: 0,
            may_be_header: true,
            next_cut: LONG,
            wrapper: None,
        }
    }

    /// Adds a line.
    pub(super) fn push_line(&mut self, line: &str, may_be_header: bool) {
        self.may_be_header = may_be_header;
        self.text.push_str(LINE_SEPARATOR);
        self.last_line = self.text.len();
        self.lines += 1;
        self.text.push_str(line);
    }

    /// Adds the next part of the last line.
    pub(super) fn push_part(&mut self, part: &str) {
        self.text.push_str(part);
    }

    /// Writes the lines that can no longer change, if the paragraph is long.
    pub(super) fn commit(&mut self, layout: &mut Layout, definitions: &mut Definitions) {
        while self.text.len() >= self.next_cut {
            let is_forced = self.text.len() >= LONGEST;
            self.take_definitions(definitions);
            let Some(cut) = paragraph_cut(&self.text, definitions, is_forced) else {
                self.next_cut = self.text.len() + LONG;
                return;
            };
            let rest = self.text.split_off(cut.rest);
            let mut before = std::mem::replace(&mut self.text, rest);
            before.truncate(cut.end);
            self.last_line = self.last_line.saturating_sub(cut.rest);
            self.wrap(&before, layout, definitions);
            if cut.rest > cut.end {
                self.wrapper(layout).push(" ", &layout.text_look());
            }
            let lines = self.wrapper(layout).take_lines();
            layout.write_all(lines);
            self.next_cut = self.text.len().max(LONG);
            if self.text.len() == self.next_cut {
                self.next_cut += LONG;
            }
        }
    }

    /// Returns whether the last line can be the header of a table with this many columns. In the middle of a paragraph,
    /// it must begin with a pipe.
    pub(super) fn last_line_as_header(&self) -> Option<&str> {
        let line = &self.text[self.last_line..];
        (self.lines == 1 || line.starts_with('|') && self.may_be_header).then_some(line)
    }

    /// Removes the last line, and returns it and whether it was the only one.
    pub(super) fn take_last_line(&mut self) -> (String, bool) {
        let line = self.text.split_off(self.last_line);
        let length = self.text.strip_suffix(LINE_SEPARATOR).map_or(self.text.len(), str::len);
        self.text.truncate(length);
        (line, self.lines == 1)
    }

    /// Returns whether the paragraph can become a heading: it has text, and nothing of it is written.
    pub(super) fn can_be_heading(&mut self, definitions: &mut Definitions) -> bool {
        self.take_definitions(definitions);
        self.wrapper.is_none() && !self.text.is_empty()
    }

    /// Returns the text that is not written.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes the rest of the paragraph.
    pub(super) fn finish(mut self, layout: &mut Layout, definitions: &mut Definitions) {
        self.take_definitions(definitions);
        if self.text.is_empty() && self.wrapper.is_none() {
            return;
        }
        let text = std::mem::take(&mut self.text);
        self.wrap(&text, layout, definitions);
        let wrapper = self.wrapper(layout);
        wrapper.finish();
        let lines = wrapper.take_lines();
        layout.write_all(lines);
    }

    /// Adapts the line that the last cut left.
    pub(super) fn set_room(&mut self, room: usize) {
        if let Some(wrapper) = &mut self.wrapper {
            wrapper.set_room(room);
        }
    }

    fn take_definitions(&mut self, definitions: &mut Definitions) {
        if self.wrapper.is_none() {
            let taken = definitions.take_from(&self.text);
            self.text.drain(..taken);
            self.last_line = self.last_line.saturating_sub(taken);
        }
    }

    fn wrap(&mut self, text: &str, layout: &mut Layout, definitions: &Definitions) {
        let pieces = paragraph_pieces(text, definitions, &layout.text_look());
        push_pieces(self.wrapper(layout), &pieces);
    }

    fn wrapper(&mut self, layout: &mut Layout) -> &mut LineWrapper {
        self.wrapper.get_or_insert_with(|| text_wrapper(layout))
    }
}

/// Returns a wrapper for text, which begins with the markers that there is no room for in front of it.
pub(super) fn text_wrapper(layout: &mut Layout) -> LineWrapper {
    let mut wrapper = LineWrapper::new(layout.room());
    wrapper.push(&layout.take_hidden_markers(), &TextRole::Marker.into());
    wrapper
}

/// Adds pieces to the lines of a wrapper.
pub(super) fn push_pieces(wrapper: &mut LineWrapper, pieces: &[InlinePiece]) {
    for piece in pieces {
        match piece {
            InlinePiece::Text(text, look) => wrapper.push(text, look),
            InlinePiece::LineBreak => wrapper.break_line(),
        }
    }
}

/// Returns the lines of pieces.
pub(super) fn wrap_pieces(mut wrapper: LineWrapper, pieces: &[InlinePiece]) -> Vec<StyledLine> {
    push_pieces(&mut wrapper, pieces);
    wrapper.finish();
    wrapper.take_lines()
}
