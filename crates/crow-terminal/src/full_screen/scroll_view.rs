//! A long text on the screen: scrolling, searching, jumping between sections, and the status row.
//!
//! The text is a list of entries, each of which is laid out as rows only when it is shown. A position is an entry and a row
//! of it, so that nothing here depends on the number of entries except the search.

use std::{borrow::Cow, fmt, ops::Range};

use super::{
    text_field::TextField,
    text_search::{SearchMarks, SearchPattern},
    view::{FullScreenFrame, ViewEffect},
};
use crate::{
    keys::{Key, KeyCode, KeyModifiers},
    line_layout::{clipped_line, pad, visible_title},
    screen_size::ScreenSize,
    shortcut_help::{Shortcut, shortcut_row},
    styled_text::{StyledLine, TextRole},
};

/// The entries of a long text.
pub(super) trait ScrollSource: fmt::Debug {
    /// Lays out for this number of columns. Returns the entry that is where `entry` was before.
    fn lay_out(&mut self, columns: usize, entry: usize) -> usize;

    /// Returns the number of entries.
    fn entry_count(&self) -> usize;

    /// Returns the rows of an entry: one at least, none wider than `columns`.
    fn rows(&self, entry: usize, columns: usize, marks: &SearchMarks<'_>) -> Vec<StyledLine>;

    /// Returns the texts of an entry that are searched, as they are shown.
    fn texts(&self, entry: usize) -> Vec<Cow<'_, str>>;

    /// Returns the number of an entry's line for the status row, from 1 on.
    fn line_number(&self, entry: usize) -> usize;

    /// Returns the entries with which sections begin, in ascending order.
    fn section_starts(&self) -> &[usize];

    /// Returns the title of a section for the status row.
    fn section_title(&self, section: usize) -> Cow<'_, str>;

    /// Returns the text that stands for no entries at all.
    fn empty_text(&self) -> &'static str;
}

/// A row of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RowPosition {
    entry: usize,
    /// The row of the entry.
    row: usize,
}

/// A place where the text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextMatch {
    entry: usize,
    /// The number of the text in the entry.
    text: usize,
    range: Range<usize>,
}

#[derive(Debug)]
struct TextSearch {
    text: String,
    pattern: SearchPattern,
    /// The match that was jumped to last.
    current: Option<TextMatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanDirection {
    Forward,
    Backward,
}

/// Meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScrollKey {
    Close,
    LineUp,
    LineDown,
    HalfPageUp,
    HalfPageDown,
    PageUp,
    PageDown,
    Top,
    Bottom,
    NextSection,
    PreviousSection,
    Search,
    NextMatch,
    PreviousMatch,
}

impl ScrollKey {
    fn of(key: Key) -> Option<Self> {
        let is_ctrl = match key.modifiers {
            KeyModifiers::NONE => false,
            KeyModifiers::CTRL => true,
            _ => return None,
        };
        let meaning = match (key.code, is_ctrl) {
            (KeyCode::Char('q') | KeyCode::Escape, false) | (KeyCode::Char('c'), true) => {
                Self::Close
            }
            (KeyCode::Up | KeyCode::Char('k'), false) | (KeyCode::Char('p'), true) => Self::LineUp,
            (KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter, false)
            | (KeyCode::Char('n'), true) => Self::LineDown,
            (KeyCode::Char('u'), true) => Self::HalfPageUp,
            (KeyCode::Char('d'), true) => Self::HalfPageDown,
            (KeyCode::PageUp | KeyCode::Char('b'), false) | (KeyCode::Char('b'), true) => {
                Self::PageUp
            }
            (KeyCode::PageDown | KeyCode::Char(' '), false) | (KeyCode::Char('f'), true) => {
                Self::PageDown
            }
            (KeyCode::Home | KeyCode::Char('g'), false) => Self::Top,
            (KeyCode::End | KeyCode::Char('G'), false) => Self::Bottom,
            (KeyCode::Char(']'), false) => Self::NextSection,
            (KeyCode::Char('['), false) => Self::PreviousSection,
            (KeyCode::Char('/'), false) => Self::Search,
            (KeyCode::Char('n'), false) => Self::NextMatch,
            (KeyCode::Char('N'), false) => Self::PreviousMatch,
            _ => return None,
        };
        Some(meaning)
    }
}

/// A long text on the screen.
#[derive(Debug)]
pub(super) struct ScrollView<S> {
    title: String,
    source: S,
    size: ScreenSize,
    /// Number of columns that the source is laid out for.
    columns: Option<usize>,
    top: RowPosition,
    /// The first row of the last page, if it is known.
    last_top: Option<RowPosition>,
    /// The text that is being typed to search for it.
    input: Option<TextField>,
    search: Option<TextSearch>,
    /// A message in the status row until the next key.
    message: Option<String>,
}

impl<S: ScrollSource> ScrollView<S> {
    pub(super) fn new(title: &str, source: S) -> Self {
        Self {
            title: visible_title(title),
            source,
            size: ScreenSize { columns: 80, rows: 24 },
            columns: None,
            top: RowPosition::default(),
            last_top: None,
            input: None,
            search: None,
            message: None,
        }
    }

    pub(super) fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the number of columns of the last frame.
    pub(super) fn columns(&self) -> usize {
        self.size.columns
    }

    /// Returns true while keys type the text to search for.
    pub(super) fn is_typing(&self) -> bool {
        self.input.is_some()
    }

    /// Shows a message in the status row until the next key.
    pub(super) fn show_message(&mut self, message: &str) {
        self.message = Some(message.to_owned());
    }

    /// Lays the source out again: it has changed.
    pub(super) fn lay_out(&mut self) {
        let columns = self.size.columns;
        let entry = self.source.lay_out(columns, self.top.entry);
        // Before the first time there were no entries to be at.
        let entry = self.columns.map_or(0, |_| entry);
        let last = self.source.entry_count().saturating_sub(1);
        self.top = RowPosition { entry: entry.min(last), row: 0 };
        self.columns = Some(columns);
        self.last_top = None;
        if let Some(search) = &mut self.search {
            search.current = None;
        }
    }

    pub(super) fn on_key(&mut self, key: Key) -> ViewEffect {
        self.message = None;
        if self.columns.is_none() {
            self.lay_out();
        }
        if self.input.is_some() {
            return self.on_search_key(key);
        }
        let Some(meaning) = ScrollKey::of(key) else { return ViewEffect::None };
        let page = self.text_rows();
        match meaning {
            ScrollKey::Close => return ViewEffect::Close,
            ScrollKey::LineUp => self.scroll_up(1),
            ScrollKey::LineDown => self.scroll_down(1),
            ScrollKey::HalfPageUp => self.scroll_up((page / 2).max(1)),
            ScrollKey::HalfPageDown => self.scroll_down((page / 2).max(1)),
            ScrollKey::PageUp => self.scroll_up(page.saturating_sub(1).max(1)),
            ScrollKey::PageDown => self.scroll_down(page.saturating_sub(1).max(1)),
            ScrollKey::Top => self.top = RowPosition::default(),
            ScrollKey::Bottom => self.top = self.last_top(),
            ScrollKey::NextSection => self.jump_to_next_section(),
            ScrollKey::PreviousSection => self.jump_to_previous_section(),
            ScrollKey::Search => self.input = Some(TextField::default()),
            ScrollKey::NextMatch => self.jump_to_match(ScanDirection::Forward),
            ScrollKey::PreviousMatch => self.jump_to_match(ScanDirection::Backward),
        }
        ViewEffect::Redraw
    }

    pub(super) fn on_paste(&mut self, text: &str) {
        if let Some(input) = &mut self.input {
            input.paste(text);
        }
    }

    /// Lays the text out for a screen of this size, with as many of the hints in the status row as fit.
    pub(super) fn frame(&mut self, size: ScreenSize, hints: &[Shortcut]) -> FullScreenFrame {
        let size = ScreenSize { columns: size.columns.max(1), rows: size.rows.max(1) };
        let had_size = std::mem::replace(&mut self.size, size);
        if self.columns != Some(size.columns) {
            self.lay_out();
        }
        if had_size != size {
            self.last_top = None;
            let last_top = self.last_top();
            self.top = self.top.min(last_top);
        }
        let height = self.text_rows();
        let (mut rows, last) = self.visible_rows(height);
        if rows.is_empty() {
            let mut row = StyledLine::default();
            row.push(self.source.empty_text(), TextRole::Dim);
            rows.push(clipped_line(&row, self.size.columns));
        }
        let mut cursor = None;
        if height < self.size.rows {
            rows.resize(height, StyledLine::default());
            let (status, column) = self.status_row(last, hints);
            cursor = column.map(|column| (rows.len(), column));
            rows.push(status);
        }
        FullScreenFrame { rows, cursor }
    }

    /// Returns the number of rows above the status row, which is there from two rows on.
    fn text_rows(&self) -> usize {
        if self.size.rows > 1 { self.size.rows - 1 } else { 1 }
    }

    /// Returns the visible rows, and the entry of the last one.
    fn visible_rows(&self, height: usize) -> (Vec<StyledLine>, usize) {
        let (mut rows, mut skipped, mut entry) = (Vec::new(), self.top.row, self.top.entry);
        while rows.len() < height && entry < self.source.entry_count() {
            rows.extend(self.rows_of(entry).into_iter().skip(skipped));
            skipped = 0;
            entry += 1;
        }
        rows.truncate(height);
        (rows, entry.saturating_sub(1))
    }

    fn rows_of(&self, entry: usize) -> Vec<StyledLine> {
        let current = self.search.as_ref().and_then(|search| search.current.as_ref());
        let current = current.filter(|found| found.entry == entry);
        let current = current.map(|found| (found.text, found.range.clone()));
        let pattern = self.search.as_ref().map(|search| &search.pattern);
        self.source.rows(entry, self.size.columns, &SearchMarks::new(pattern, current))
    }

    fn row_count(&self, entry: usize) -> usize {
        self.source.rows(entry, self.size.columns, &SearchMarks::default()).len().max(1)
    }

    // Positions

    /// Returns the position this number of rows above another one, or the first one.
    fn above(&self, mut position: RowPosition, mut rows: usize) -> RowPosition {
        while rows > position.row {
            let Some(entry) = position.entry.checked_sub(1) else { return RowPosition::default() };
            rows -= position.row + 1;
            position = RowPosition { entry, row: self.row_count(entry) - 1 };
        }
        RowPosition { row: position.row - rows, ..position }
    }

    /// Returns the position this number of rows below another one, or the last one.
    fn below(&self, mut position: RowPosition, mut rows: usize) -> RowPosition {
        loop {
            let left = self.row_count(position.entry) - 1 - position.row;
            if rows <= left {
                return RowPosition { row: position.row + rows, ..position };
            }
            if position.entry + 1 >= self.source.entry_count() {
                return RowPosition { row: position.row + left, ..position };
            }
            rows -= left + 1;
            position = RowPosition { entry: position.entry + 1, row: 0 };
        }
    }

    fn last_top(&mut self) -> RowPosition {
        if let Some(last_top) = self.last_top {
            return last_top;
        }
        let last_top = match self.source.entry_count().checked_sub(1) {
            None => RowPosition::default(),
            Some(entry) => {
                let last = RowPosition { entry, row: self.row_count(entry) - 1 };
                self.above(last, self.text_rows() - 1)
            }
        };
        self.last_top = Some(last_top);
        last_top
    }

    fn scroll_up(&mut self, rows: usize) {
        self.top = self.above(self.top, rows);
    }

    /// Scrolls down, but not beyond the last page.
    fn scroll_down(&mut self, rows: usize) {
        let last_top = self.last_top();
        if self.top < last_top {
            self.top = self.below(self.top, rows).min(last_top);
        }
    }

    // Sections

    /// Returns the number of sections that begin at or before an entry.
    fn sections_until(&self, entry: usize) -> usize {
        self.source.section_starts().partition_point(|start| *start <= entry)
    }

    /// Puts the next section at the top. Rows below the text stay empty.
    fn jump_to_next_section(&mut self) {
        let next = self.sections_until(self.top.entry);
        let start = self.source.section_starts().get(next).copied();
        if let Some(entry) = start.filter(|start| *start < self.source.entry_count()) {
            self.top = RowPosition { entry, row: 0 };
        }
    }

    fn jump_to_previous_section(&mut self) {
        let starts = self.source.section_starts();
        let before =
            starts.partition_point(|start| RowPosition { entry: *start, row: 0 } < self.top);
        let entry = before.checked_sub(1).map_or(0, |section| starts[section]);
        self.top = RowPosition { entry, row: 0 };
    }

    // Search

    fn on_search_key(&mut self, key: Key) -> ViewEffect {
        let Some(input) = &mut self.input else { return ViewEffect::None };
        match (key.code, key.modifiers) {
            (KeyCode::Escape, KeyModifiers::NONE) | (KeyCode::Char('c'), KeyModifiers::CTRL) => {
                self.input = None;
            }
            (KeyCode::Backspace, KeyModifiers::NONE) if input.is_empty() => self.input = None,
            (KeyCode::Enter, KeyModifiers::NONE) => {
                let text = input.text().to_owned();
                self.input = None;
                self.search = None;
                if !text.is_empty() {
                    let pattern = SearchPattern::new(&text);
                    self.search = Some(TextSearch { text, pattern, current: None });
                    self.jump_to_match(ScanDirection::Forward);
                }
            }
            _ if input.on_key(key) => {}
            _ => return ViewEffect::None,
        }
        ViewEffect::Redraw
    }

    /// Jumps to the next match in a direction, around the ends of the text.
    fn jump_to_match(&mut self, direction: ScanDirection) {
        let Some(search) = &self.search else {
            self.show_message("no search yet: / searches");
            return;
        };
        let origin = search.current.clone();
        let Some(found) = self.find(origin.as_ref(), direction) else {
            let message = format!("not found: {}", visible_title(&search.text));
            self.show_message(&message);
            return;
        };
        let place = |found: &TextMatch| (found.entry, found.text, found.range.start);
        let is_around = match (&origin, direction) {
            (None, ScanDirection::Forward) => found.entry < self.top.entry,
            (None, ScanDirection::Backward) => found.entry >= self.top.entry,
            (Some(origin), ScanDirection::Forward) => place(&found) <= place(origin),
            (Some(origin), ScanDirection::Backward) => place(&found) >= place(origin),
        };
        match direction {
            ScanDirection::Forward if is_around => self.show_message("continued from the top"),
            ScanDirection::Backward if is_around => self.show_message("continued from the end"),
            ScanDirection::Forward | ScanDirection::Backward => {}
        }
        let entry = found.entry;
        if let Some(search) = &mut self.search {
            search.current = Some(found);
        }
        let row = SearchMarks::current_row(&self.rows_of(entry));
        self.reveal(RowPosition { entry, row: row.unwrap_or(0) });
    }

    /// Returns the match next to the last one, or to the top of the screen.
    fn find(&self, origin: Option<&TextMatch>, direction: ScanDirection) -> Option<TextMatch> {
        let pattern = &self.search.as_ref()?.pattern;
        let count = self.source.entry_count();
        let matches = |entry: usize| -> Vec<TextMatch> {
            let texts = self.source.texts(entry);
            let of = |(text, content): (usize, &Cow<'_, str>)| -> Vec<TextMatch> {
                pattern.ranges(content).map(|range| TextMatch { entry, text, range }).collect()
            };
            texts.iter().enumerate().flat_map(of).collect()
        };
        let place = |found: &TextMatch| (found.text, found.range.start);
        let start = origin.map_or(self.top.entry, |origin| origin.entry);
        let is_after = |found: &TextMatch| origin.is_none_or(|origin| place(found) > place(origin));
        let is_before =
            |found: &TextMatch| origin.is_some_and(|origin| place(found) < place(origin));
        // 1) The rest of the entry where the search starts. 2) The others. 3) All of that entry again.
        match direction {
            ScanDirection::Forward => {
                let first = (start < count).then_some(start);
                first.and_then(|entry| matches(entry).into_iter().find(is_after)).or_else(|| {
                    let others = (start + 1..count).chain(0..start.min(count));
                    others.chain(first).find_map(|entry| matches(entry).into_iter().next())
                })
            }
            ScanDirection::Backward => {
                let first = (start < count).then_some(start);
                first.and_then(|entry| matches(entry).into_iter().rfind(is_before)).or_else(|| {
                    let others = (0..start.min(count)).rev().chain((start + 1..count).rev());
                    others.chain(first).find_map(|entry| matches(entry).into_iter().next_back())
                })
            }
        }
    }

    /// Scrolls to a row unless it is visible: it is then in the upper third.
    fn reveal(&mut self, position: RowPosition) {
        let height = self.text_rows();
        let is_visible = self.top <= position && position <= self.below(self.top, height - 1);
        if !is_visible {
            self.top = self.above(position, height / 3);
            let last_top = self.last_top();
            self.top = self.top.min(last_top);
        }
    }

    // Status

    /// Returns the status row for a screen whose last row is of this entry, and the column of the cursor if a text is
    /// typed there.
    fn status_row(&self, last: usize, hints: &[Shortcut]) -> (StyledLine, Option<usize>) {
        let columns = self.size.columns;
        let mut row = StyledLine::default();
        if let Some(input) = &self.input {
            row.push("/", TextRole::Accent);
            let cursor = input.write(&mut row, columns);
            return (clipped_line(&row, columns), Some(cursor.min(columns - 1)));
        }
        let position = self.position_text(last);
        if let Some(message) = &self.message {
            row.push(message, TextRole::Warning);
        } else {
            row.push(&self.title, TextRole::Heading);
            let section = self.sections_until(self.top.entry).checked_sub(1);
            let section = section.map(|section| self.source.section_title(section));
            if let Some(section) = section.filter(|section| !section.is_empty()) {
                row.push(if self.title.is_empty() { "" } else { " · " }, TextRole::Dim);
                row.push(section, TextRole::Plain);
            }
        }
        let room = columns.saturating_sub(position.width() + 2);
        if room == 0 {
            return (clipped_line(&position, columns), None);
        }
        let mut row = clipped_line(&row, room);
        let hints = shortcut_row(hints, TextRole::Plain, room.saturating_sub(row.width() + 3));
        if self.message.is_none() && hints.width() > 0 {
            row.push("   ", TextRole::Plain);
            row.append(&hints);
        }
        pad(&mut row, columns - position.width());
        row.append(&position);
        (row, None)
    }

    /// Returns the line numbers and the position in percent.
    fn position_text(&self, last: usize) -> StyledLine {
        let mut position = StyledLine::default();
        let count = self.source.entry_count();
        if let Some(end) = count.checked_sub(1) {
            let number = |entry| self.source.line_number(entry);
            let percent = (last + 1) * 100 / count;
            let (first, last, all) = (number(self.top.entry), number(last), number(end));
            position.push(format!("{first}–{last}/{all}  {percent}%"), TextRole::Dim);
        }
        position
    }
}
