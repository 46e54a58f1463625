//! The beginnings of blocks within a line.
//!
//! A line may begin several containers within each other, and at most one other block, which ends it.

use super::{
    blocks::{Blocks, CODE_INDENT, Leaf, skip_quote_marker, write_code},
    code::{CodeBlock, html_lines},
    cursor::Cursor,
    delimiter_row::{delimiter_row, header_columns},
    html_start::{HtmlEnd, html_start},
    inline::{paragraph_pieces, unescaped_info},
    layout::{Container, PrefixMarker},
    markers::{Fence, ItemMarker, footnote, heading, is_rule, item_marker, task_box, underline},
    paragraph::{OpenParagraph, text_wrapper, wrap_pieces},
    table::StreamedTable,
};
use crate::{
    safe_text::safe,
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
};

/// Number of quotes, items and footnotes within each other; the markers of further ones are text.
const DEEPEST: usize = 16;

/// Whether a line is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockProgress {
    LineIsDone,
    /// Text is left that began no block.
    TextIsLeft,
}

impl Blocks {
    /// Begins the blocks that the line begins, and returns how many of the open containers it is in then.
    pub(super) fn begin_blocks(
        &mut self,
        cursor: &mut Cursor<'_>,
        mut matched: usize,
        is_complete: bool,
    ) -> (BlockProgress, usize) {
        while !cursor.is_blank() {
            let is_within_leaf = matched == self.layout.depth();
            let indent = cursor.indent(CODE_INDENT);
            if indent == CODE_INDENT {
                let continues_text = match self.leaf {
                    Leaf::Paragraph(_) => true,
                    Leaf::Table(_) => is_within_leaf,
                    Leaf::None | Leaf::Fenced(..) | Leaf::Indented(..) | Leaf::Html(_) => false,
                };
                if continues_text {
                    break;
                }
                self.begin_leaf(matched);
                cursor.skip_columns(CODE_INDENT);
                let mut code = CodeBlock::new("", &mut self.layout);
                write_code(&mut code, cursor, is_complete, &mut self.layout);
                self.leaf = Leaf::Indented(code, 0);
                return (BlockProgress::LineIsDone, matched);
            }
            let progress = if is_complete {
                self.begin_whole_line_block(cursor, matched, indent)
            } else {
                BlockProgress::TextIsLeft
            };
            if progress == BlockProgress::LineIsDone || self.begin_html(cursor, matched) {
                return (BlockProgress::LineIsDone, matched);
            }
            match self.begin_container(cursor, matched, indent) {
                Some(BlockProgress::LineIsDone) => return (BlockProgress::LineIsDone, matched),
                Some(BlockProgress::TextIsLeft) => matched = self.layout.depth(),
                None => break,
            }
        }
        (BlockProgress::TextIsLeft, matched)
    }

    /// Begins a block that depends on all of the line: a table, a heading, code between fences or a rule.
    fn begin_whole_line_block(
        &mut self,
        cursor: &Cursor<'_>,
        matched: usize,
        indent: usize,
    ) -> BlockProgress {
        let text = cursor.trimmed();
        let is_within_leaf = matched == self.layout.depth();
        if is_within_leaf && (self.begin_table(text) || self.underline_heading(text)) {
            return BlockProgress::LineIsDone;
        }
        if let Some((level, content)) = heading(text) {
            self.begin_leaf(matched);
            self.write_heading(level, content);
        } else if let Some((fence, info)) = Fence::opening(text, indent) {
            self.begin_leaf(matched);
            let info = unescaped_info(info);
            self.leaf = Leaf::Fenced(fence, CodeBlock::new(&info, &mut self.layout));
        } else if is_rule(text) {
            self.begin_leaf(matched);
            let mut line = StyledLine::default();
            let rule = self.layout.glyphs.rule().repeat(self.layout.room());
            line.push(rule, TextRole::Marker);
            self.layout.write(line);
        } else {
            return BlockProgress::TextIsLeft;
        }
        BlockProgress::LineIsDone
    }

    /// Makes the last line of a paragraph the header of a table, if `line` is a delimiter row for it.
    fn begin_table(&mut self, line: &str) -> bool {
        let Leaf::Paragraph(paragraph) = &mut self.leaf else { return false };
        let Some(alignments) = delimiter_row(line) else { return false };
        let columns = paragraph.last_line_as_header().map(header_columns);
        if columns != Some(alignments.len()) {
            return false;
        }
        let (header, is_only_line) = paragraph.take_last_line();
        if !is_only_line {
            self.close_leaf();
            self.layout.begin_block(false);
        }
        let table = StreamedTable::new(&header, alignments, &self.definitions, &self.layout);
        self.leaf = Leaf::Table(table);
        true
    }

    /// Makes the paragraph a heading, if `line` underlines it.
    fn underline_heading(&mut self, line: &str) -> bool {
        let Leaf::Paragraph(paragraph) = &mut self.leaf else { return false };
        let Some(level) = underline(line) else { return false };
        if !paragraph.can_be_heading(&mut self.definitions) {
            return false;
        }
        if let Leaf::Paragraph(paragraph) = std::mem::replace(&mut self.leaf, Leaf::None) {
            self.write_heading(level, &paragraph.into_text());
        }
        true
    }

    fn write_heading(&mut self, level: usize, content: &str) {
        let emphasis = match level {
            1 => Emphasis::BOLD.with(Emphasis::UNDERLINE),
            2 => Emphasis::BOLD,
            _ => Emphasis::BOLD.with(Emphasis::ITALIC),
        };
        let look = TextLook { emphasis, ..TextRole::Heading.into() };
        let pieces = paragraph_pieces(content, &self.definitions, &look);
        let lines = wrap_pieces(text_wrapper(&mut self.layout), &pieces);
        self.layout.write_all(lines);
    }

    fn begin_html(&mut self, cursor: &Cursor<'_>, matched: usize) -> bool {
        let is_within_text = matches!(self.leaf, Leaf::Paragraph(_) | Leaf::Table(_));
        let Some(end) = html_start(cursor.trimmed(), is_within_text) else { return false };
        self.begin_leaf(matched);
        self.leaf = Leaf::Html(end);
        self.write_html(cursor, end);
        true
    }

    pub(super) fn write_html(&mut self, cursor: &Cursor<'_>, end: HtmlEnd) {
        let text = cursor.rest_with_spaces();
        self.layout.write_all(html_lines(&text, &self.layout));
        if end.is_in(&text) {
            self.close_leaf();
        }
    }

    /// Begins a quote, an item or a footnote, if there is one and the limit allows it.
    fn begin_container(
        &mut self,
        cursor: &mut Cursor<'_>,
        matched: usize,
        indent: usize,
    ) -> Option<BlockProgress> {
        let is_container =
            |index: &usize| !matches!(self.layout.container(*index), Container::List { .. });
        if (0..matched).filter(is_container).count() >= DEEPEST {
            return None;
        }
        let text = cursor.trimmed();
        if text.starts_with('>') {
            self.begin_leaf(matched);
            skip_quote_marker(cursor);
            self.layout.open(Container::Quote);
            return Some(BlockProgress::TextIsLeft);
        }
        if let Some((label, length)) = footnote(text) {
            let is_after_footnote = matched > 0
                && matches!(self.layout.container(matched - 1), Container::Footnote { .. });
            self.begin_leaf(matched - usize::from(is_after_footnote));
            let marker = PrefixMarker::new(format!("[^{}]: ", safe(label).replace('\t', " ")));
            self.layout.open(Container::Footnote { marker });
            cursor.skip_columns(indent);
            cursor.skip_bytes(length);
            skip_spaces(cursor);
            return Some(BlockProgress::TextIsLeft);
        }
        let marker = item_marker(text)?;
        self.begin_item(cursor, marker, matched, indent)
    }

    fn begin_item(
        &mut self,
        cursor: &mut Cursor<'_>,
        marker: ItemMarker,
        matched: usize,
        indent: usize,
    ) -> Option<BlockProgress> {
        let mut ahead = cursor.clone();
        ahead.skip_columns(indent);
        ahead.skip_bytes(marker.length);
        let is_empty = ahead.is_blank();
        let interrupts = matches!(self.leaf, Leaf::Paragraph(_)) && matched == self.layout.depth();
        if interrupts && (is_empty || marker.number.is_some_and(|number| number != 1)) {
            return None;
        }
        let spaces = match ahead.indent(CODE_INDENT + 1) {
            _ if is_empty => 1,
            1..=CODE_INDENT => ahead.indent(CODE_INDENT),
            _ => 1,
        };
        ahead.skip_columns(spaces);
        *cursor = ahead;
        let task = task_box(cursor);
        let number = self.enter_list(marker, matched);
        let text = match (number, task) {
            (Some(number), task) => {
                let delimiter = char::from(marker.delimiter);
                let task = task.map_or("", |is_done| self.layout.glyphs.task(is_done));
                format!("{number}{delimiter} {task}")
            }
            (None, Some(is_done)) => self.layout.glyphs.task(is_done).to_owned(),
            (None, None) => self.layout.glyphs.bullet().to_owned(),
        };
        let indent = indent + marker.length + spaces;
        self.layout.open(Container::Item { indent, marker: PrefixMarker::new(text) });
        if task.is_some() && !cursor.is_blank() {
            // A task is a paragraph, whatever it begins with.
            self.begin_leaf(self.layout.depth());
            self.leaf = Leaf::Paragraph(OpenParagraph::new(cursor.trimmed()));
            return Some(BlockProgress::LineIsDone);
        }
        Some(BlockProgress::TextIsLeft)
    }

    /// Continues the list that the item belongs to or begins one, and returns the number of an ordered item.
    fn enter_list(&mut self, marker: ItemMarker, matched: usize) -> Option<u64> {
        let innermost = matched.checked_sub(1).map(|index| self.layout.container(index));
        let continues = matches!(innermost, Some(Container::List { delimiter, .. })
            if *delimiter == marker.delimiter);
        if continues {
            self.close_leaf();
            self.layout.close_to(matched);
            self.begin_block();
        } else {
            self.begin_leaf(matched);
            self.layout.open(Container::List {
                delimiter: marker.delimiter,
                next_number: marker.number.unwrap_or_default(),
                is_loose: false,
            });
        }
        let list = self.layout.depth() - 1;
        let Container::List { next_number, .. } = self.layout.container_mut(list) else {
            return None;
        };
        let number = *next_number;
        *next_number += 1;
        marker.number.map(|_| number)
    }
}

fn skip_spaces(cursor: &mut Cursor<'_>) {
    while cursor.skip_columns(CODE_INDENT) > 0 {}
}
