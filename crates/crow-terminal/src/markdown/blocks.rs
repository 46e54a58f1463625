//! The structure of blocks, line by line, by the rules of `CommonMark` and the tables and task lists of GitHub.
//!
//! A line first continues the containers that are open (quotes, items), then may begin new ones, and what is left of it
//! belongs to a paragraph, a block of code or another leaf. Whatever a line ends is final then, and written. What stays
//! open is small: the containers, of which there is a limit, and the text of one leaf, which writes what it can.

use super::{
    block_starts::BlockProgress,
    code::{CodeBlock, html_lines},
    cursor::Cursor,
    definitions::Definitions,
    html_start::HtmlEnd,
    layout::{Container, Layout},
    line_splitter::LinePart,
    markers::Fence,
    paragraph::OpenParagraph,
    table::StreamedTable,
};
use crate::styled_text::StyledLine;

/// Columns from which white space makes a block of code.
pub(super) const CODE_INDENT: usize = 4;
/// Columns by which the text of a footnote is indented.
const FOOTNOTE_INDENT: usize = 4;

/// The block without blocks of its own that is open.
#[derive(Debug, Clone)]
pub(super) enum Leaf {
    None,
    Paragraph(OpenParagraph),
    Fenced(Fence, CodeBlock),
    /// With the number of blank lines that are part of it if code follows.
    Indented(CodeBlock, usize),
    Html(HtmlEnd),
    Table(StreamedTable),
}

/// The blocks that are open.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    pub(super) layout: Layout,
    pub(super) definitions: Definitions,
    pub(super) leaf: Leaf,
    /// True if the line before was blank.
    follows_blank_line: bool,
}

impl Blocks {
    pub(super) fn new(layout: Layout, definitions: Definitions) -> Self {
        Self { layout, definitions, leaf: Leaf::None, follows_blank_line: false }
    }

    /// Changes the width of lines that are not written yet.
    pub(super) fn set_width(&mut self, width: usize) {
        self.layout.set_width(width);
        let room = self.layout.room();
        match &mut self.leaf {
            Leaf::Paragraph(paragraph) => paragraph.set_room(room),
            Leaf::Fenced(_, code) | Leaf::Indented(code, _) => code.set_room(room),
            Leaf::Table(table) => table.set_room(&mut self.layout),
            Leaf::None | Leaf::Html(_) => {}
        }
    }

    /// Adds the next part of the text, and writes what it makes final.
    pub(super) fn push(&mut self, part: LinePart<'_>) {
        self.add(part);
        if let Leaf::Paragraph(paragraph) = &mut self.leaf {
            paragraph.commit(&mut self.layout, &mut self.definitions);
        }
    }

    /// Writes lines of code that are highlighted meanwhile.
    pub(super) fn write_highlighted(&mut self) {
        if let Leaf::Fenced(_, code) = &mut self.leaf {
            code.write_highlighted(&mut self.layout);
        }
    }

    /// Ends the text with the part that is left of it.
    pub(super) fn finish(&mut self, rest: Option<LinePart<'_>>) {
        if let Some(part) = rest {
            self.add(part);
        }
        self.close_leaf();
        self.layout.close_to(0);
    }

    fn add(&mut self, part: LinePart<'_>) {
        if part.begins_line {
            self.begin_line(part.text, part.ends_line);
        } else {
            self.continue_line(part.text, part.ends_line);
        }
    }

    /// A line that is too long to be complete begins no block that depends on the whole of it.
    fn begin_line(&mut self, line: &str, is_complete: bool) {
        let mut cursor = Cursor::new(line);
        let matched = self.continue_containers(&mut cursor);
        let is_within_leaf = matched == self.layout.depth();
        if is_within_leaf && self.continue_code(&mut cursor, is_complete) {
            return;
        }
        if cursor.is_blank() {
            self.end_by_blank_line(matched);
            return;
        }
        let (progress, matched) = self.begin_blocks(&mut cursor, matched, is_complete);
        if progress == BlockProgress::LineIsDone || cursor.is_blank() {
            return;
        }
        let is_row = is_complete && matched == self.layout.depth();
        let may_be_header =
            matched == self.layout.depth() && cursor.indent(CODE_INDENT) < CODE_INDENT;
        let text = cursor.trimmed();
        let is_taken = match &mut self.leaf {
            // A paragraph continues even if a quote or an item around it does not.
            Leaf::Paragraph(paragraph) => {
                paragraph.push_line(text, may_be_header);
                true
            }
            Leaf::Table(table) if is_row => {
                table.push_row(text, &self.definitions, &mut self.layout)
            }
            Leaf::None | Leaf::Fenced(..) | Leaf::Indented(..) | Leaf::Html(_) | Leaf::Table(_) => {
                false
            }
        };
        if !is_taken {
            self.begin_leaf(matched);
            self.leaf = Leaf::Paragraph(OpenParagraph::new(text));
        }
    }

    fn continue_line(&mut self, text: &str, is_complete: bool) {
        match &mut self.leaf {
            Leaf::Paragraph(paragraph) => paragraph.push_part(text),
            Leaf::Fenced(_, code) | Leaf::Indented(code, _) => {
                code.write_part(text, &mut self.layout);
                if is_complete {
                    code.end_line(&mut self.layout);
                }
            }
            Leaf::Html(_) => self.layout.write_all(html_lines(text, &self.layout)),
            Leaf::None | Leaf::Table(_) => {
                let cursor = Cursor::new(text);
                if !cursor.is_blank() {
                    self.begin_leaf(self.layout.depth());
                    self.leaf = Leaf::Paragraph(OpenParagraph::new(cursor.trimmed()));
                }
            }
        }
    }

    /// Returns how many of the open containers the line continues.
    fn continue_containers(&self, cursor: &mut Cursor<'_>) -> usize {
        for index in 0..self.layout.depth() {
            let is_continued = match *self.layout.container(index) {
                Container::Quote => skip_quote_marker(cursor),
                Container::List { .. } => true,
                Container::Item { indent, .. } => self.continues_item(index, indent, cursor),
                Container::Footnote { .. } => self.continues_item(index, FOOTNOTE_INDENT, cursor),
            };
            if !is_continued {
                return index;
            }
        }
        self.layout.depth()
    }

    fn continues_item(&self, index: usize, indent: usize, cursor: &mut Cursor<'_>) -> bool {
        if cursor.is_blank() {
            // An item can begin with one blank line at most.
            let is_innermost = index + 1 == self.layout.depth();
            let is_empty = is_innermost
                && matches!(self.leaf, Leaf::None)
                && self.layout.is_empty(index)
                && matches!(self.layout.container(index), Container::Item { .. });
            return !is_empty;
        }
        let is_indented = cursor.indent(indent) == indent;
        if is_indented {
            cursor.skip_columns(indent);
        }
        is_indented
    }

    /// Adds the line to a block of code or HTML if it is part of one.
    fn continue_code(&mut self, cursor: &mut Cursor<'_>, is_complete: bool) -> bool {
        match &mut self.leaf {
            Leaf::Fenced(fence, code) => {
                let indent = cursor.indent(CODE_INDENT);
                let is_closed =
                    is_complete && indent < CODE_INDENT && fence.is_closed_by(cursor.trimmed());
                if is_closed {
                    self.close_leaf();
                } else {
                    cursor.skip_columns(fence.indent);
                    write_code(code, cursor, is_complete, &mut self.layout);
                }
                true
            }
            Leaf::Indented(_, blank_lines) if cursor.is_blank() && is_complete => {
                *blank_lines += 1;
                true
            }
            Leaf::Indented(code, blank_lines) if cursor.indent(CODE_INDENT) == CODE_INDENT => {
                for _ in 0..std::mem::take(blank_lines) {
                    self.layout.write(StyledLine::default());
                }
                cursor.skip_columns(CODE_INDENT);
                write_code(code, cursor, is_complete, &mut self.layout);
                true
            }
            Leaf::Html(end) => {
                let end = *end;
                let is_part = end != HtmlEnd::BlankLine || !cursor.is_blank();
                if is_part {
                    self.write_html(cursor, end);
                } else {
                    self.close_leaf();
                }
                is_part
            }
            Leaf::Indented(..) => {
                self.close_leaf();
                false
            }
            Leaf::None | Leaf::Paragraph(_) | Leaf::Table(_) => false,
        }
    }

    /// Closes what the line does not continue, and prepares for a block that is no item.
    pub(super) fn begin_leaf(&mut self, mut matched: usize) {
        self.close_leaf();
        if matched > 0 && matches!(self.layout.container(matched - 1), Container::List { .. }) {
            matched -= 1;
        }
        self.layout.close_to(matched);
        self.begin_block();
    }

    pub(super) fn begin_block(&mut self) {
        self.layout.begin_block(std::mem::take(&mut self.follows_blank_line));
    }

    fn end_by_blank_line(&mut self, matched: usize) {
        self.close_leaf();
        self.layout.close_to(matched);
        let is_in_quote =
            matched > 0 && matches!(self.layout.container(matched - 1), Container::Quote);
        self.follows_blank_line = !is_in_quote;
    }

    pub(super) fn close_leaf(&mut self) {
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::Paragraph(paragraph) => {
                paragraph.finish(&mut self.layout, &mut self.definitions);
            }
            Leaf::Table(table) => table.finish(&mut self.layout),
            Leaf::Fenced(_, code) => code.finish(&mut self.layout),
            Leaf::Indented(code, blank_lines) => {
                code.finish(&mut self.layout);
                self.follows_blank_line |= blank_lines > 0;
            }
            Leaf::None | Leaf::Html(_) => {}
        }
    }
}

pub(super) fn write_code(
    code: &mut CodeBlock,
    cursor: &Cursor<'_>,
    is_complete: bool,
    layout: &mut Layout,
) {
    let text = cursor.rest_with_spaces();
    if is_complete {
        code.write_line(&text, layout);
    } else {
        code.write_part(&text, layout);
    }
}

pub(super) fn skip_quote_marker(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    let indent = ahead.skip_columns(CODE_INDENT);
    let is_quote = indent < CODE_INDENT && ahead.rest().starts_with('>');
    if is_quote {
        ahead.skip_bytes(1);
        ahead.skip_columns(1);
        *cursor = ahead;
    }
    is_quote
}
