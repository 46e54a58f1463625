//! The items of a picker, those that match the filter, and which one is selected.
//!
//! Without a filter the items are in the order in which they were given. With one, the best match is first.

use std::{cmp::Reverse, ops::Range};

use nucleo_matcher::{
    Config, Matcher, Utf32String, chars,
    pattern::{AtomKind, CaseMatching, Normalization, Pattern},
};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::line_layout::visible_title;

/// An item of a picker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListItem {
    label: String,
    detail: String,
}

impl ListItem {
    /// Creates an item. Texts are shown in one line, and need not be harmless.
    #[must_use]
    pub(crate) fn new(label: &str) -> Self {
        Self { label: visible_title(label), ..Self::default() }
    }

    /// Adds a dim text at the right, which is matched as well.
    #[must_use]
    pub(crate) fn with_detail(self, detail: &str) -> Self {
        Self { detail: visible_title(detail), ..self }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
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

/// The items of a picker.
#[derive(Debug)]
pub(super) struct ItemList {
    items: Vec<ListItem>,
    haystacks: Vec<Utf32String>,
    matcher: Matcher,
    pattern: Pattern,
    /// The indices of the items that match, the best one first.
    matches: Vec<usize>,
    /// The position of the selected item among those that match.
    selected: usize,
    /// The position of the first visible item.
    top: usize,
}

impl ItemList {
    pub(super) fn new(items: Vec<ListItem>) -> Self {
        let mut config = Config::DEFAULT;
        // A match in the label counts more than one in the detail.
        config.prefer_prefix = true;
        let mut list = Self {
            haystacks: items.iter().map(ListItem::haystack).collect(),
            items,
            matcher: Matcher::new(config),
            pattern: Pattern::default(),
            matches: Vec::new(),
            selected: 0,
            top: 0,
        };
        list.match_items();
        list
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

    /// Returns the number of items that match.
    pub(super) fn matches(&self) -> usize {
        self.matches.len()
    }

    /// Returns the position of the selected item among those that match.
    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// Returns the index of the selected item, if any item matches.
    pub(super) fn selected_index(&self) -> Option<usize> {
        self.matches.get(self.selected).copied()
    }

    /// Selects the item at a position among those that match, or the last one.
    pub(super) fn select(&mut self, position: usize) {
        self.selected = position.min(self.matches.len().saturating_sub(1));
    }

    /// Selects the item with an index, if it matches.
    pub(super) fn select_index(&mut self, index: usize) {
        if let Some(position) = self.matches.iter().position(|other| *other == index) {
            self.selected = position;
        }
    }

    /// Returns the positions of the items to show: a window of this height around the selected one.
    pub(super) fn window(&mut self, height: usize) -> Range<usize> {
        let first = (self.selected + 1).saturating_sub(height);
        let last_top = self.matches.len().saturating_sub(height);
        self.top = self.top.clamp(first, self.selected.max(first)).min(last_top);
        self.top..(self.top + height).min(self.matches.len())
    }

    /// Returns the index of the item at a position among those that match.
    pub(super) fn index_at(&self, position: usize) -> usize {
        self.matches[position]
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
            found.sort_by_key(|(index, score)| (Reverse(*score), *index));
        }
        self.matches = found.into_iter().map(|(index, _)| index).collect();
        self.select(self.selected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(labels: &[&str]) -> ItemList {
        ItemList::new(labels.iter().map(|label| ListItem::new(label)).collect())
    }

    fn shown(list: &mut ItemList, height: usize) -> Vec<String> {
        let window = list.window(height);
        let text = |position| {
            let mark = if position == list.selected() { ">" } else { " " };
            format!("{mark} {}", list.items()[list.index_at(position)].label())
        };
        window.map(text).collect()
    }

    #[test]
    fn the_best_match_is_first() {
        let mut list = list(&["m-a-i-n", "domain", "main.rs", "other"]);
        list.set_filter("main");
        assert_eq!(shown(&mut list, 9), ["> main.rs", "  m-a-i-n", "  domain"]);
    }

    #[test]
    fn the_window_follows_the_selected_item() {
        let mut list = list(&["one", "two", "three", "four", "five"]);
        let table: [(usize, &[&str]); 6] = [
            (4, &["  three", "  four", "> five"]),
            (3, &["  three", "> four", "  five"]),
            (2, &["> three", "  four", "  five"]),
            (1, &["> two", "  three", "  four"]),
            (0, &["> one", "  two", "  three"]),
            (3, &["  two", "  three", "> four"]),
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
}
