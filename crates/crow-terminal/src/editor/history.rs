//! Earlier prompts: walking through them, and searching them.
//!
//! Every prompt that is visited has a document of its own, and so does the draft. Changes of an earlier prompt are kept
//! while the user walks through the history, and forgotten when a prompt is sent.

use std::{collections::BTreeMap, ops::Range};

use super::{
    chips::{Fragment, with_line_feeds},
    document::Document,
};

#[derive(Debug, Clone, Default)]
pub(super) struct PromptHistory {
    /// The newest one is the last.
    entries: Vec<String>,
    /// Index of the entry in the editor, or the number of entries for the draft.
    position: usize,
    /// Documents of other positions that were changed.
    changed: BTreeMap<usize, Document>,
}

impl PromptHistory {
    /// Replaces the entries. The document in the editor becomes the draft.
    pub(super) fn set(&mut self, entries: Vec<String>) {
        self.entries = entries.into_iter().map(with_line_feeds).collect();
        self.restart();
    }

    pub(super) fn push(&mut self, entry: String) {
        self.entries.push(with_line_feeds(entry));
        self.restart();
    }

    /// Makes the document in the editor the draft, and forgets all others.
    pub(super) fn restart(&mut self) {
        self.position = self.entries.len();
        self.changed.clear();
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn entry(&self, index: usize) -> Option<&str> {
        self.entries.get(index).map(String::as_str)
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Exchanges the document in the editor for that of another position.
    pub(super) fn visit(&mut self, position: usize, document: &mut Document) {
        let stored = self.changed.remove(&position);
        let next = stored.or_else(|| Some(Document::new(Fragment::plain(self.entry(position)?))));
        // An insertion of vi ends here for the undo of the document that is left.
        document.release_group();
        let previous = std::mem::replace(document, next.unwrap_or_default());
        if previous.has_changes() || self.position == self.entries.len() {
            self.changed.insert(self.position, previous);
        }
        self.position = position;
    }

    /// Returns the first entry in a direction that contains the query. `skipped` is a text that is passed over.
    pub(super) fn search(
        &self,
        query: &str,
        from: usize,
        direction: SearchDirection,
        skipped: Option<&str>,
    ) -> Option<HistoryMatch> {
        let is_exact = query.chars().any(char::is_uppercase);
        let matching = |index: usize| {
            let entry = self.entries[index].as_str();
            let range = if is_exact {
                entry.rfind(query).map(|start| start..start + query.len())
            } else {
                find_ignoring_case(entry, query)
            };
            range.filter(|_| Some(entry) != skipped).map(|range| HistoryMatch { index, range })
        };
        match direction {
            SearchDirection::Older => {
                (0..from.saturating_add(1).min(self.entries.len())).rev().find_map(matching)
            }
            SearchDirection::Newer => (from..self.entries.len()).find_map(matching),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchDirection {
    Older,
    Newer,
}

/// A place in the history that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryMatch {
    pub(super) index: usize,
    pub(super) range: Range<usize>,
}

/// A search that goes on while its text is typed.
#[derive(Debug, Clone, Default)]
pub(super) struct HistorySearch {
    pub(super) query: String,
    /// The last match, which stays when a longer query has none.
    pub(super) found: Option<HistoryMatch>,
    pub(super) outcome: SearchOutcome,
    /// The entry of the match.
    pub(super) shown: Option<Document>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SearchOutcome {
    #[default]
    Found,
    /// No further entry contains the query.
    NotFound,
}

impl HistorySearch {
    /// Searches from an entry on.
    pub(super) fn run(
        &mut self,
        history: &PromptHistory,
        from: Option<usize>,
        direction: SearchDirection,
        skipped: Option<&str>,
    ) {
        let found = from.and_then(|from| history.search(&self.query, from, direction, skipped));
        let Some(found) = found.filter(|_| !self.query.is_empty()) else {
            self.outcome = SearchOutcome::NotFound;
            return;
        };
        self.outcome = SearchOutcome::Found;
        if self.found.as_ref().is_none_or(|last| last.index != found.index) || self.shown.is_none()
        {
            let entry = history.entry(found.index).unwrap_or_default();
            self.shown = Some(Document::new(Fragment::plain(entry)));
        }
        if let Some(shown) = &mut self.shown {
            shown.move_to(found.range.end);
        }
        self.found = Some(found);
    }

    /// Begins again with another query.
    pub(super) fn restart(&mut self, history: &PromptHistory) {
        (self.found, self.shown, self.outcome) = (None, None, SearchOutcome::Found);
        if !self.query.is_empty() {
            let newest = history.entries().checked_sub(1);
            self.run(history, newest, SearchDirection::Older, None);
        }
    }

    /// Goes on to another entry, with another text, that contains the query.
    pub(super) fn next(&mut self, history: &PromptHistory, direction: SearchDirection) {
        let Some(found) = &self.found else { return self.restart(history) };
        let from = match direction {
            SearchDirection::Older => found.index.checked_sub(1),
            SearchDirection::Newer => Some(found.index + 1),
        };
        let skipped = history.entry(found.index);
        self.run(history, from, direction, skipped);
    }
}

/// Returns the last place of `needle` in `text`, where the case of letters does not matter.
fn find_ignoring_case(text: &str, needle: &str) -> Option<Range<usize>> {
    let first = lower_case(needle).next()?;
    let begins = |character: char| match character {
        '\0'..='\u{7f}' => character.to_ascii_lowercase() == first,
        _ => character.to_lowercase().next() == Some(first),
    };
    let starts = text.char_indices().rev().filter(|(_, character)| begins(*character));
    starts.map(|(start, _)| start).find_map(|start| {
        let length = prefix_ignoring_case(&text[start..], needle)?;
        Some(start..start + length)
    })
}

/// Returns the length of the start of `text` that equals `needle` but for the case of letters.
fn prefix_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    let mut wanted = lower_case(needle).peekable();
    for (at, character) in text.char_indices() {
        if wanted.peek().is_none() {
            return Some(at);
        }
        for lower in character.to_lowercase() {
            if wanted.next() != Some(lower) {
                return None;
            }
        }
    }
    wanted.peek().is_none().then_some(text.len())
}

fn lower_case(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_lowercase)
}
