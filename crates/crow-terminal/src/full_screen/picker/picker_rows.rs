//! The rows of a picker.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{
    item_list::{ItemList, ListItem},
    picker_layout::PickerLayout,
};
use crate::{
    full_screen::{text_field::TextField, view::FullScreenFrame},
    line_layout::{clipped_line, clipped_text, spread_row, visible_title},
    shortcut_help::{Shortcut, shortcut_row},
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
};

/// Fewest columns of a detail that is cut.
const LEAST_DETAIL: usize = 6;

/// The parts of a picker around its list.
#[derive(Debug)]
pub(super) struct PickerHead<'a> {
    pub(super) title: &'a str,
    pub(super) noun: &'a str,
    pub(super) filter: &'a TextField,
    pub(super) hints: &'a [Shortcut],
}

/// Returns the rows of a picker and the cursor, which is behind the filter.
pub(super) fn picker_frame(
    layout: &PickerLayout,
    head: &PickerHead<'_>,
    list: &mut ItemList,
) -> FullScreenFrame {
    let columns = layout.columns;
    let mut frame = FullScreenFrame::default();
    if layout.has_title() {
        frame.rows.push(title_row(head, list, columns));
    }
    if layout.has_filter() {
        let (row, cursor) = filter_row(head.filter, columns);
        frame.cursor = Some((frame.rows.len(), cursor));
        frame.rows.push(row);
    }
    if layout.has_gap {
        frame.rows.push(StyledLine::default());
    }
    let mut rows = list_rows(layout, head, list);
    rows.resize(layout.list_rows, StyledLine::default());
    frame.rows.append(&mut rows);
    if layout.has_hints() {
        frame.rows.push(shortcut_row(head.hints, TextRole::Plain, columns));
    }
    frame
}

fn title_row(head: &PickerHead<'_>, list: &ItemList, columns: usize) -> StyledLine {
    let (mut title, mut counts) = (StyledLine::default(), StyledLine::default());
    title.push(head.title, TextRole::Heading);
    let all = list.items().len();
    let count = match list.matches() {
        shown if shown == all => all.to_string(),
        shown => format!("{shown}/{all}"),
    };
    counts.push(count, TextRole::Dim);
    spread_row(&title, &counts, columns)
}

/// Returns the row of the filter, and the column of the cursor.
fn filter_row(filter: &TextField, columns: usize) -> (StyledLine, usize) {
    let mut row = StyledLine::default();
    row.push("> ", TextRole::Accent);
    let cursor = filter.write(&mut row, columns);
    if filter.is_empty() {
        row.push("type to filter", TextRole::Dim);
    }
    (clipped_line(&row, columns), cursor.min(columns - 1))
}

fn list_rows(layout: &PickerLayout, head: &PickerHead<'_>, list: &mut ItemList) -> Vec<StyledLine> {
    let columns = layout.columns;
    if list.matches() == 0 {
        return vec![empty_row(head, list, columns)];
    }
    let window = list.window(layout.list_rows);
    let row = |position| {
        let index = list.index_at(position);
        let matched = list.matched_clusters(index);
        let is_selected = position == list.selected();
        let (mark, role) =
            if is_selected { ("› ", TextRole::Accent) } else { ("  ", TextRole::Plain) };
        let mut row = StyledLine::default();
        row.push(mark, TextRole::Accent);
        let room = columns.saturating_sub(row.width());
        row.append(&item_line(&list.items()[index], &matched, role, room));
        clipped_line(&row, columns)
    };
    window.map(row).collect()
}

/// Returns a row that says why there are no items.
fn empty_row(head: &PickerHead<'_>, list: &ItemList, columns: usize) -> StyledLine {
    let mut row = StyledLine::default();
    row.push(format!("  No {}", head.noun), TextRole::Dim);
    if !list.items().is_empty() {
        row.push(" match “", TextRole::Dim);
        let room = columns.saturating_sub(row.width() + 1);
        row.push(clipped_text(&visible_title(head.filter.text()), room), TextRole::Dim);
        row.push("”", TextRole::Dim);
    }
    clipped_line(&row, columns)
}

/// Returns the label of an item, and its detail at the right if there is room for enough of it.
fn item_line(
    item: &ListItem,
    (label_matches, detail_matches): &(Vec<usize>, Vec<usize>),
    role: TextRole,
    columns: usize,
) -> StyledLine {
    let label = with_matches(item.label(), label_matches, role);
    let detail = with_matches(item.detail(), detail_matches, TextRole::Dim);
    let free = columns.saturating_sub(label.width() + 2);
    let room = detail.width().min(free.max(columns / 3));
    if room < detail.width().min(LEAST_DETAIL) || room + 2 >= columns {
        return clipped_line(&label, columns);
    }
    spread_row(&label, &clipped_line(&detail, room), columns)
}

/// Returns a text in which the clusters of these numbers are underlined.
fn with_matches(text: &str, matched: &[usize], role: TextRole) -> StyledLine {
    let mut line = StyledLine::default();
    if matched.is_empty() {
        line.push(text, role);
        return line;
    }
    let look = TextLook { role: TextRole::Accent, emphasis: Emphasis::UNDERLINE, link: None };
    for (number, cluster) in text.graphemes(true).enumerate() {
        if matched.binary_search(&number).is_ok() {
            line.push(cluster, look.clone());
        } else {
            line.push(cluster, role);
        }
    }
    line
}
