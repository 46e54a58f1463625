//! The items of a picker, those that match the filter, and which one is selected.
//!
//! Rows are items and the headings of their groups. Without a filter the items are in the order in which they were
//! given, with a heading wherever the group changes. With one, the best match is first, and the others of its group
//! follow it.

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use nucleo_matcher::{
    Config, Matcher, Utf32String, chars,
    pattern::{AtomKind, CaseMatching, Normalization, Pattern},
};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{full_screen::line_layout::visible_title, styled_text::StyledLine};

/// An item of a picker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListItem {
    label: String,
    detail: String,
    group: String,
    preview: Vec<StyledLine>,
}

impl ListItem {
    /// Creates an item. Texts are shown in one line, and need not be harmless.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self { label: visible_title(label), ..Self::default() }
    }

    /// Adds a dim text at the right, which is matched as well.
    #[must_use]
    pub fn with_detail(self, detail: &str) -> Self {
        Self { detail: visible_title(detail), ..self }
    }

    /// Puts the item under a heading. Neighbours with the same heading share it.
    #[must_use]
    pub fn with_group(self, group: &str) -> Self {
        Self { group: visible_title(group), ..self }
    }

    /// Adds lines that are shown beside or below the list while the item is selected.
    #[must_use]
    pub fn with_preview(self, preview: Vec<StyledLine>) -> Self {
        Self { preview, ..self }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn preview(&self) -> &[StyledLine] {
        &self.preview
    }

    pub(super) fn set_preview(&mut self, preview: Vec<StyledLine>) {
        self.preview = preview;
    }

    /// Returns the text that the filter is matched with: the label, a space, and the detail. Each cluster is one
    /// character.
    fn haystack(&self) -> Utf32String {
        if self.label.is_ascii() && self.detail.is_ascii() {
            return Utf32String::Ascii(format!("{} {}", self.label, self.detail).into());
        }
        let label = base_characters(&self.label);
        Utf32String::Unicode(label.chain([' ']).chain(base_characters(&self.detail)).collect())
    }
}

/// Returns the first character of each cluster of a text.
fn base_characters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.graphemes(true).filter_map(|cluster| cluster.chars().next())
}

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListRow {
    /// The heading of the group of the item with this index.
    Heading(usize),
    /// An item.
    Item {
        /// Its index.
        index: usize,
        /// Its position among the items that match.
        position: usize,
    },
}

/// The items of a picker.
#[derive(Debug)]
pub(super) struct ItemList {
    items: Vec<ListItem>,
    haystacks: Vec<Utf32String>,
    /// The number of each item's group.
    groups: Vec<usize>,
    matcher: Matcher,
    pattern: Pattern,
    rows: Vec<ListRow>,
    /// The rows of the items that match, in their order.
    item_rows: Vec<usize>,
    /// The position of the selected item among those that match.
    selected: usize,
    /// The first visible row.
    top: usize,
}

impl ItemList {
    pub(super) fn new(items: Vec<ListItem>) -> Self {
        let mut config = Config::DEFAULT;
        // A match in the label counts more than one in the detail.
        config.prefer_prefix = true;
        let mut list = Self {
            items: Vec::new(),
            haystacks: Vec::new(),
            groups: Vec::new(),
            matcher: Matcher::new(config),
            pattern: Pattern::default(),
            rows: Vec::new(),
            item_rows: Vec::new(),
            selected: 0,
            top: 0,
        };
        list.set_items(items);
        list
    }

    /// Replaces the items. The filter and the position of the selected item stay as far as possible.
    pub(super) fn set_items(&mut self, items: Vec<ListItem>) {
        self.haystacks = items.iter().map(ListItem::haystack).collect();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let number = |item| {
            let next = numbers.len();
            *numbers.entry(ListItem::group(item)).or_insert(next)
        };
        self.groups = items.iter().map(number).collect();
        self.items = items;
        self.match_items();
    }

    /// Shows the items that match a text, and selects the first one.
    pub(super) fn set_filter(&mut self, filter: &str) {
        let filter: String = base_characters(filter).map(chars::normalize).collect();
        self.pattern =
            Pattern::new(&filter, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
        (self.selected, self.top) = (0, 0);
        self.match_items();
    }

    pub(super) fn items(&self) -> &[ListItem] {
        &self.items
    }

    pub(super) fn item_mut(&mut self, index: usize) -> Option<&mut ListItem> {
        self.items.get_mut(index)
    }

    /// Returns the number of items that match.
    pub(super) fn matches(&self) -> usize {
        self.item_rows.len()
    }

    /// Returns the position of the selected item among those that match.
    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// Returns the index of the selected item, if any item matches.
    pub(super) fn selected_index(&self) -> Option<usize> {
        match self.rows.get(*self.item_rows.get(self.selected)?)? {
            ListRow::Item { index, .. } => Some(*index),
            ListRow::Heading(_) => None,
        }
    }

    /// Selects the item at a position among those that match, or the last one.
    pub(super) fn select(&mut self, position: usize) {
        self.selected = position.min(self.item_rows.len().saturating_sub(1));
    }

    /// Selects the item with an index, if it matches.
    pub(super) fn select_index(&mut self, index: usize) {
        let is_sought =
            |row: &ListRow| matches!(row, ListRow::Item { index: other, .. } if *other == index);
        if let Some(ListRow::Item { position, .. }) = self.rows.iter().find(|row| is_sought(row)) {
            self.selected = *position;
        }
    }

    /// Returns the rows to show, in a window of this height around the selected item.
    pub(super) fn window(&mut self, height: usize) -> &[ListRow] {
        let Some(&selected) = self.item_rows.get(self.selected).filter(|_| height > 0) else {
            return &[];
        };
        // The heading of the selected item is shown as well if there is room for two rows.
        let has_heading = selected > 0 && matches!(self.rows[selected - 1], ListRow::Heading(_));
        let first = if has_heading && height > 1 { selected - 1 } else { selected };
        let last_top = self.rows.len().saturating_sub(height);
        self.top = self.top.clamp((selected + 1).saturating_sub(height), first).min(last_top);
        let window: Range<usize> = self.top..(self.top + height).min(self.rows.len());
        &self.rows[window]
    }

    /// Returns the clusters of an item's label and of its detail that match the filter, as ascending numbers.
    pub(super) fn matched_clusters(&mut self, index: usize) -> (Vec<usize>, Vec<usize>) {
        let mut found = Vec::new();
        self.pattern.indices(self.haystacks[index].slice(..), &mut self.matcher, &mut found);
        found.sort_unstable();
        found.dedup();
        let found: Vec<usize> = found.into_iter().map(|number| number as usize).collect();
        let label = self.items[index].label.graphemes(true).count();
        let in_label = found.partition_point(|number| *number < label);
        // The space between label and detail may match, too.
        let in_detail = found[in_label..].iter().filter_map(|number| number.checked_sub(label + 1));
        (found[..in_label].to_vec(), in_detail.collect())
    }

    fn match_items(&mut self) {
        let mut found: Vec<(usize, u32)> = Vec::new();
        for (index, haystack) in self.haystacks.iter().enumerate() {
            if let Some(score) = self.pattern.score(haystack.slice(..), &mut self.matcher) {
                found.push((index, score));
            }
        }
        if !self.pattern.atoms.is_empty() {
            let mut best: HashMap<usize, u32> = HashMap::new();
            for (index, score) in &found {
                let best = best.entry(self.groups[*index]).or_default();
                *best = (*best).max(*score);
            }
            found.sort_by_key(|(index, score)| {
                let group = self.groups[*index];
                (Reverse(best[&group]), group, Reverse(*score), *index)
            });
        }
        self.rows.clear();
        self.item_rows.clear();
        let mut last_group = None;
        for (position, (index, _)) in found.into_iter().enumerate() {
            let item = &self.items[index];
            let group = Some(item.group.as_str());
            if group != last_group && !item.group.is_empty() {
                self.rows.push(ListRow::Heading(index));
            }
            last_group = group;
            self.item_rows.push(self.rows.len());
            self.rows.push(ListRow::Item { index, position });
        }
        self.select(self.selected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(&str, &str)]) -> ItemList {
        let item = |(label, group): &(&str, &str)| ListItem::new(label).with_group(group);
        ItemList::new(items.iter().map(item).collect())
    }

    fn shown(list: &mut ItemList, height: usize) -> Vec<String> {
        let rows = list.window(height).to_vec();
        let text = |row: &ListRow| match row {
            ListRow::Heading(index) => format!("# {}", list.items()[*index].group()),
            ListRow::Item { index, position } => {
                let mark = if *position == list.selected() { ">" } else { " " };
                format!("{mark} {}", list.items()[*index].label())
            }
        };
        rows.iter().map(text).collect()
    }

    const GROUPS: [(&str, &str); 5] =
        [("one", ""), ("two", "a"), ("three", "a"), ("four", "b"), ("five", "a")];

    #[test]
    fn a_heading_stands_wherever_the_group_changes() {
        assert_eq!(
            shown(&mut list(&GROUPS), 9),
            ["> one", "# a", "  two", "  three", "# b", "  four", "# a", "  five"]
        );
    }

    #[test]
    fn matches_of_a_group_stay_together_behind_the_best_one() {
        let mut list =
            list(&[("main.rs", "a"), ("m-a-i-n", "b"), ("x main", "b"), ("domain", "a")]);
        list.set_filter("main");
        assert_eq!(
            shown(&mut list, 9),
            ["# a", "> main.rs", "  domain", "# b", "  x main", "  m-a-i-n"]
        );
    }

    #[test]
    fn the_window_follows_the_selected_item_and_its_heading() {
        let mut list = list(&GROUPS);
        let table: [(usize, &[&str]); 6] = [
            (4, &["  four", "# a", "> five"]),
            (3, &["# b", "> four", "# a"]),
            (2, &["> three", "# b", "  four"]),
            (1, &["# a", "> two", "  three"]),
            (0, &["> one", "# a", "  two"]),
            (3, &["  three", "# b", "> four"]),
        ];
        for (position, expected) in table {
            list.select(position);
            assert_eq!(shown(&mut list, 3), expected, "{position}");
        }
        list.select(1);
        assert_eq!(shown(&mut list, 1), ["> two"]);
        assert_eq!(shown(&mut list, 0), [""; 0]);
    }

    #[test]
    fn clusters_that_match_are_found_in_label_and_detail() {
        let mut list = ItemList::new(vec![
            ListItem::new("cafe\u{301} 漢").with_detail("branch é"),
            ListItem::new("cab").with_detail("branch"),
        ]);
        list.set_filter("café bé");
        assert_eq!(list.matches(), 1);
        assert_eq!(list.matched_clusters(0), (vec![0, 1, 2, 3], vec![0, 7]));
        list.set_filter("bra");
        assert_eq!(list.matches(), 2);
        assert_eq!(list.matched_clusters(1), (vec![], vec![0, 1, 2]));
        list.set_filter("cab b");
        assert_eq!(list.matched_clusters(1).0, [0, 1, 2]);
    }

    #[test]
    fn new_items_keep_the_position_of_the_selected_one() {
        let mut list = list(&GROUPS);
        list.select(4);
        let items = list.items()[..3].to_vec();
        list.set_items(items);
        assert_eq!(list.selected_index(), Some(2));
        list.set_items(Vec::new());
        assert_eq!((list.selected_index(), list.matches()), (None, 0));
        assert_eq!(shown(&mut list, 3), [""; 0]);
    }
}
