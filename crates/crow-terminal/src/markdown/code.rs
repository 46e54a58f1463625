//! A block of code: each line is final when it is complete and its roles are known.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use unicode_width::UnicodeWidthStr as _;

use super::{
    block_highlighter::{BlockHighlighter, NoRoles},
    highlighter::LineRoles,
    layout::Layout,
    wrapper::LineWrapper,
};
use crate::{
    safe_text::safe,
    styled_text::{StyledLine, TextLook, TextRole},
};

/// Columns from one tab stop to the next.
const TAB: usize = 4;
/// Longest time that lines wait for their roles after each piece of text.
const PIECE_PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 4 });
/// Longest time that lines wait for their roles at the end of the block.
const END_PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 100 });

/// Writes the lines of a block of code. They have no decoration, so that they can be copied.
#[derive(Debug)]
pub(super) struct CodeBlock {
    /// None if the next lines have no roles.
    highlighter: Option<BlockHighlighter>,
    /// Lines that wait for their roles.
    waiting: VecDeque<String>,
    /// True if a line with roles is written.
    is_highlighted: bool,
    wrapper: LineWrapper,
    /// Column in the line of the source, for tabs.
    column: usize,
}

/// A clone writes the lines that wait without their roles.
impl Clone for CodeBlock {
    fn clone(&self) -> Self {
        Self {
            highlighter: None,
            waiting: self.waiting.clone(),
            is_highlighted: self.is_highlighted,
            wrapper: self.wrapper.clone(),
            column: self.column,
        }
    }
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
            highlighter: BlockHighlighter::start(language),
            waiting: VecDeque::new(),
            is_highlighted: false,
            wrapper: LineWrapper::new(layout.room()),
            column: 0,
        }
    }

    /// Writes a whole line, or lets it wait for its roles.
    pub(super) fn write_line(&mut self, line: &str, layout: &mut Layout) {
        match &self.highlighter {
            Some(highlighter) if highlighter.push(line).is_ok() => {
                self.waiting.push_back(line.to_owned());
            }
            Some(_) | None => {
                self.give_up(layout);
                self.write_plain(line, layout);
            }
        }
    }

    /// Writes the lines whose roles are known soon.
    pub(super) fn write_highlighted(&mut self, layout: &mut Layout) {
        for roles in self.next_roles(PIECE_PATIENCE, layout) {
            self.write_roles(&roles, layout);
        }
    }

    /// Writes all lines.
    pub(super) fn finish(mut self, layout: &mut Layout) {
        self.write_waiting(END_PATIENCE, layout);
    }

    /// Writes the lines that wait. If the roles of some are late and no line before had any, none of them gets roles: a block
    /// is highlighted as a whole.
    fn write_waiting(&mut self, patience: Duration, layout: &mut Layout) {
        let known = self.next_roles(patience, layout);
        if self.is_highlighted || known.len() == self.waiting.len() {
            for roles in known {
                self.write_roles(&roles, layout);
            }
        }
        if !self.waiting.is_empty() {
            self.give_up(layout);
        }
    }

    /// Returns the roles of lines that wait, from the first one on.
    fn next_roles(&mut self, patience: Duration, layout: &mut Layout) -> Vec<LineRoles> {
        let deadline = Instant::now() + patience;
        let mut known = Vec::new();
        while let Some(highlighter) = &self.highlighter
            && known.len() < self.waiting.len()
        {
            match highlighter.next_roles(deadline) {
                Ok(Some(roles)) => known.push(roles),
                Ok(None) => break,
                Err(NoRoles) => self.highlighter = None,
            }
        }
        if known.is_empty() && self.highlighter.is_none() {
            self.give_up(layout);
        }
        known
    }

    /// Writes the lines that wait without roles. The next ones have none either.
    fn give_up(&mut self, layout: &mut Layout) {
        self.highlighter = None;
        for line in std::mem::take(&mut self.waiting) {
            self.write_plain(&line, layout);
        }
    }

    fn write_plain(&mut self, line: &str, layout: &mut Layout) {
        self.push(line, TextRole::Code);
        self.end_line(layout);
    }

    /// Writes the first line that waits.
    fn write_roles(&mut self, roles: &LineRoles, layout: &mut Layout) {
        let Some(line) = self.waiting.pop_front() else { return };
        for (range, role) in roles {
            self.push(line.get(range.clone()).unwrap_or_default(), *role);
        }
        self.is_highlighted = true;
        self.end_line(layout);
    }

    /// Writes a part of a line that is too long to be highlighted.
    pub(super) fn write_part(&mut self, part: &str, layout: &mut Layout) {
        self.write_waiting(END_PATIENCE, layout);
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

#[cfg(test)]
mod tests {
    use crow_console::Glyphs;

    use super::*;
    use crate::markdown::glyphs::MarkdownGlyphs;

    fn layout() -> Layout {
        Layout::new(40, MarkdownGlyphs(Glyphs::Unicode))
    }

    /// Returns the text and the role of the first span of each line.
    fn written(layout: &mut Layout) -> Vec<(String, TextRole)> {
        let role = |line: &StyledLine| line.spans().first().map(|span| span.look.role);
        let lines = layout.take_lines();
        lines.iter().map(|line| (line.text(), role(line).unwrap_or_default())).collect()
    }

    fn plain(lines: &[&str]) -> Vec<(String, TextRole)> {
        lines.iter().map(|line| ((*line).to_owned(), TextRole::Code)).collect()
    }

    #[test]
    fn a_block_whose_roles_are_late_has_none() {
        let (mut layout, (highlighter, _others)) = (layout(), BlockHighlighter::silent());
        let mut code = CodeBlock::new("", &mut layout);
        code.highlighter = Some(highlighter);
        code.write_line("1", &mut layout);
        code.write_line("2", &mut layout);
        assert_eq!(written(&mut layout), []);
        code.write_waiting(Duration::ZERO, &mut layout);
        code.write_line("3", &mut layout);
        assert_eq!(written(&mut layout), plain(&["1", "2", "3"]));
    }

    #[test]
    fn a_clone_writes_the_lines_that_wait_without_roles() {
        let mut layout = layout();
        let mut code = CodeBlock::new("json", &mut layout);
        assert_eq!(written(&mut layout), [("json".to_owned(), TextRole::Dim)]);
        code.write_line("12", &mut layout);
        code.clone().finish(&mut layout);
        assert_eq!(written(&mut layout), plain(&["12"]));
        code.finish(&mut layout);
        assert_eq!(written(&mut layout), [("12".to_owned(), TextRole::Number)]);
    }

    #[test]
    fn a_block_in_a_language_that_is_not_known_has_no_roles() {
        let mut layout = layout();
        let mut code = CodeBlock::new("nonsense", &mut layout);
        written(&mut layout);
        code.write_line("1", &mut layout);
        code.write_highlighted(&mut layout);
        assert_eq!(written(&mut layout), plain(&["1"]));
    }
}
