//! The editor as lines on the screen.
//!
//! The view has the rows around the cursor: as many as fit, from the row on that was the first one in the last view if
//! the cursor allows it. Hints say how many rows are left out. Their number is counted only near the view, and is a
//! lower bound for a long text, so that the cost of a view does not depend on the length of the text.

use std::{borrow::Cow, ops::Range};

use unicode_width::UnicodeWidthStr as _;

use super::{
    history::{HistorySearch, SearchOutcome},
    layout::{Row, RowWalk, column, count_rows},
    prompt_editor::PromptEditor,
    prompt_text::{PromptText, UnitContent},
};
use crate::{
    line_layout::clipped_text,
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
    visible_characters::{CharacterForm, cluster_form, safe},
};

/// Least number of columns that a view is made for.
const NARROWEST: usize = 2;
/// Least number of rows of a text of which a row is given to a hint.
const LEAST_ROWS_WITH_HINTS: usize = 3;
/// Maximum number of rows of a view.
const MOST_ROWS: usize = 1000;
/// Number of bytes before and behind the view of which the rows are counted.
const COUNTED_BYTES: usize = 8 * 1024;

/// The lines of an editor, and the place of the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditorView {
    pub(crate) lines: Vec<StyledLine>,
    /// Row in `lines`, and column.
    pub(crate) cursor: (usize, usize),
}

/// Columns of a view.
#[derive(Debug, Clone, Copy)]
struct ViewColumns {
    /// All columns.
    width: usize,
    /// Columns before the text.
    indent: usize,
    /// Columns of the text, without the one that is left free.
    text: usize,
}

impl PromptEditor {
    /// Returns the lines to show: at most `most_rows`, but one at least, of `width` columns, but two at least. The
    /// prompt is before the first row, and further rows are indented as much.
    pub(crate) fn view(&mut self, width: usize, most_rows: usize, prompt: &str) -> EditorView {
        let width = width.max(NARROWEST);
        let most_rows = most_rows.clamp(1, MOST_ROWS);
        // One column of the text at least, and the free one, are kept.
        let prompt = clipped_text(prompt, (width / 2).min(width - 2));
        let indent = prompt.width();
        let columns = ViewColumns { width, indent, text: width - indent - 1 };
        self.width = columns.text;
        let Some(search) = &self.search else {
            let (text, cursor) = (self.document.text(), self.document.cursor());
            let page = Page::new(text, cursor, self.top, columns.text, most_rows);
            self.top = page.rows[0].range.start;
            return page.view(text, cursor, columns, &prompt, 0..0);
        };
        let shown = search.shown.as_ref().unwrap_or(&self.document);
        let (text, cursor) = (shown.text(), shown.cursor());
        let mut view = EditorView { lines: Vec::new(), cursor: (0, 0) };
        if most_rows > 1 {
            let page = Page::new(text, cursor, 0, columns.text, most_rows - 1);
            let found = search.found.as_ref().map_or(0..0, |found| found.range.clone());
            view = page.view(text, cursor, columns, &prompt, found);
        }
        let line = search_line(search, width);
        view.cursor = (view.lines.len(), line.width());
        view.lines.push(line);
        view
    }
}

/// Returns the line with the text that is sought. The end of a long one is shown.
fn search_line(search: &HistorySearch, width: usize) -> StyledLine {
    let label = match search.outcome {
        SearchOutcome::Found => "search: ",
        SearchOutcome::NotFound => "search, nothing found: ",
    };
    let label = clipped_text(label, width / 2);
    let mut shown = Vec::new();
    let mut room = width - label.width() - 1;
    for character in search.query.chars().rev() {
        let form = match safe(character) {
            CharacterForm::Plain => character.to_string(),
            CharacterForm::Replaced(form) => form,
        };
        let Some(left) = room.checked_sub(form.width()) else { break };
        room = left;
        shown.push(form);
    }
    let mut line = StyledLine::default();
    line.push(label, TextRole::Dim);
    for form in shown.iter().rev() {
        line.push(form, TextRole::Plain);
    }
    line
}

/// Rows that are left out on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HiddenRows {
    Exactly(usize),
    AtLeast(usize),
}

impl HiddenRows {
    fn hint(self, columns: ViewColumns) -> StyledLine {
        let text = match self {
            Self::Exactly(1) => "… 1 more line".to_owned(),
            Self::Exactly(rows) => format!("… {rows} more lines"),
            Self::AtLeast(rows) => format!("… {rows}+ more lines"),
        };
        let mut line = StyledLine::default();
        line.push(" ".repeat(columns.indent), TextRole::Plain);
        line.push(clipped_text(&text, columns.width - columns.indent), TextRole::Dim);
        line
    }
}

/// The rows of a view.
#[derive(Debug)]
struct Page {
    rows: Vec<Row>,
    above: Option<HiddenRows>,
    below: Option<HiddenRows>,
}

/// The rows around the cursor: as many on each side as a view can have.
#[derive(Debug)]
struct ViewSurroundings {
    rows: Vec<Row>,
    /// Index of the row of the cursor.
    cursor: usize,
    first: ViewEdge,
    last: ViewEdge,
    /// Number of further rows in the segment of the first row, and in that of the last one.
    rows_before: usize,
    rows_behind: usize,
}

/// Whether a row is the outermost one of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViewEdge {
    Outermost,
    Inner,
}

/// A choice of rows to show.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    rows: Range<usize>,
    hides_above: bool,
    hides_below: bool,
}

impl ViewSurroundings {
    fn new(text: &PromptText, cursor: usize, width: usize, height: usize) -> Self {
        let walk = RowWalk::new(text, cursor, width);
        let (mut rows, mut first, mut last) = (Vec::new(), ViewEdge::Inner, ViewEdge::Inner);
        let mut up = walk.clone();
        for _ in 0..height {
            let Some(row) = up.up() else {
                first = ViewEdge::Outermost;
                break;
            };
            rows.push(row.clone());
        }
        rows.reverse();
        let cursor = rows.len();
        rows.push(walk.row().clone());
        let mut down = walk;
        for _ in 0..height {
            let Some(row) = down.down() else {
                last = ViewEdge::Outermost;
                break;
            };
            rows.push(row.clone());
        }
        let (rows_before, rows_behind) = (up.rows_before(), down.rows_behind());
        Self { rows, cursor, first, last, rows_before, rows_behind }
    }

    /// Returns what is shown from a row on.
    fn cut(&self, first: usize, height: usize) -> Cut {
        let left = self.rows.len() - first;
        let hides_above = first > 0 || self.first == ViewEdge::Inner;
        if height < LEAST_ROWS_WITH_HINTS {
            let rows = first..first + left.min(height);
            return Cut { hides_above: false, hides_below: false, rows };
        }
        let room = height - usize::from(hides_above);
        let hides_below = left > room || self.last == ViewEdge::Inner;
        let shown = left.min(room - usize::from(hides_below));
        Cut { rows: first..first + shown, hides_above, hides_below }
    }

    /// Returns the rows to show if the one at `top` was the first one before.
    fn page(&self, top: usize, height: usize) -> Cut {
        let shows_cursor = |cut: &Cut| cut.rows.contains(&self.cursor);
        let first = self.rows.partition_point(|row| row.range.start <= top).saturating_sub(1);
        let mut cut = self.cut(first.min(self.cursor), height);
        while !shows_cursor(&cut) {
            cut = self.cut(cut.rows.start + 1, height);
        }
        // No rows stay empty below the text while there are some above, and no hint stands for a single row.
        while let Some(before) = cut.rows.start.checked_sub(1) {
            let earlier = self.cut(before, height);
            let is_filled = earlier.rows.end == self.rows.len() && !earlier.hides_below;
            let is_whole = !earlier.hides_above && shows_cursor(&earlier);
            if !is_filled && !is_whole {
                break;
            }
            cut = earlier;
        }
        cut
    }
}

impl Page {
    fn new(text: &PromptText, cursor: usize, top: usize, width: usize, height: usize) -> Self {
        let around = ViewSurroundings::new(text, cursor, width, height);
        let cut = around.page(top, height);
        let shown = around.rows[cut.rows.clone()].to_vec();
        let above = cut.hides_above.then(|| {
            let segments = (0..around.rows[0].segment).rev();
            count_hidden(text, segments, width, cut.rows.start + around.rows_before)
        });
        let below = cut.hides_below.then(|| {
            let last = &around.rows[around.rows.len() - 1];
            let known = around.rows.len() - cut.rows.end + around.rows_behind;
            count_hidden(text, last.segment + 1..text.segments(), width, known)
        });
        Self { rows: shown, above, below }
    }

    fn view(
        &self,
        text: &PromptText,
        cursor: usize,
        columns: ViewColumns,
        prompt: &str,
        found: Range<usize>,
    ) -> EditorView {
        let mut view = EditorView { lines: Vec::new(), cursor: (0, 0) };
        view.lines.extend(self.above.map(|hidden| hidden.hint(columns)));
        for row in &self.rows {
            if (row.range.start..=row.range.end).contains(&cursor) {
                let column = columns.indent + column(text, row, cursor, columns.text);
                view.cursor = (view.lines.len(), column);
            }
            view.lines.push(row_line(text, row, columns, prompt, &found));
        }
        view.lines.extend(self.below.map(|hidden| hidden.hint(columns)));
        view
    }
}

/// Adds the rows of segments to `known` ones. Beyond the first ones, a segment counts as one row.
fn count_hidden(
    text: &PromptText,
    segments: impl ExactSizeIterator<Item = usize>,
    width: usize,
    known: usize,
) -> HiddenRows {
    let (mut count, mut left, mut bytes) = (known, segments.len(), 0);
    for segment in segments {
        bytes += text.segment(segment).len() + 1;
        if bytes > COUNTED_BYTES {
            return HiddenRows::AtLeast(count + left);
        }
        count += count_rows(text, segment, width);
        left -= 1;
    }
    HiddenRows::Exactly(count)
}

/// Returns the line of a row.
fn row_line(
    text: &PromptText,
    row: &Row,
    columns: ViewColumns,
    prompt: &str,
    found: &Range<usize>,
) -> StyledLine {
    let mut line = StyledLine::default();
    if row.range.start == 0 {
        line.push(prompt, TextRole::Accent);
    } else {
        line.push(" ".repeat(columns.indent), TextRole::Plain);
    }
    for unit in text.units(row.range.clone()) {
        let (shown, role): (Cow<'_, str>, _) = match unit.content {
            UnitContent::LineFeed => continue,
            UnitContent::Chip(label) => (label.into(), TextRole::Accent),
            UnitContent::Cluster(cluster) => {
                let form = cluster_form(cluster);
                (form.text, if form.is_replaced { TextRole::Warning } else { TextRole::Plain })
            }
        };
        let mut look = TextLook::from(role);
        if found.contains(&unit.start) {
            look.emphasis = Emphasis::REVERSE;
        }
        let shown = clipped_text(&shown, columns.text);
        // A wide character that was cut off may have been in two columns, of which one is used.
        let unused = match &shown {
            Cow::Borrowed(_) => 0,
            Cow::Owned(cut) => columns.text - cut.width(),
        };
        line.push(shown, look.clone());
        line.push(" ".repeat(unused), look);
    }
    line
}
