//! What changed since a revision, and texts within a budget of tokens.

use std::collections::BTreeMap;

use super::{
    EntryGroup, EnvironmentEntry,
    entry::{EntryList, IDLE_LABEL, SEPARATOR},
};
use crate::TokenCounter;

/// Beginning of the line of an entry that is gone.
const GONE: &str = "no longer: ";
/// Tokens of a delta, unless the options say otherwise.
const DELTA_TOKENS: u64 = 400;
/// Number of changes that are told although none of them is urgent, unless the options say otherwise.
const BATCH: usize = 8;

/// The entries that a model was told: a value by label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRevision {
    entries: BTreeMap<String, String>,
}

/// What a delta contains, and when there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaOptions {
    /// Maximum number of tokens of the text.
    pub max_tokens: u64,
    /// Number of changes from which on they are told although none of them is urgent.
    pub batch: usize,
    /// The groups that are compared. Changes of others are neither told nor recorded.
    pub groups: Vec<EntryGroup>,
}

impl Default for DeltaOptions {
    fn default() -> Self {
        Self { max_tokens: DELTA_TOKENS, batch: BATCH, groups: EntryGroup::ALL.to_vec() }
    }
}

/// What changed since a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentDelta {
    /// The text: a line `label: value` for each new or changed entry, and `no longer: label` for each that is gone.
    pub text: String,
    /// The revision of a reader of this text. Changes that did not fit are told by the next delta.
    pub revision: EnvironmentRevision,
    /// Number of changes that did not fit.
    pub omitted: usize,
}

/// A line of a text, and the number of entries that it stands for.
pub(super) struct TextLine {
    pub(super) text: String,
    pub(super) entries: usize,
}

impl EnvironmentRevision {
    /// Reads back what the texts of snapshots and deltas told, in their order.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut revision = Self::default();
        for text in texts {
            revision.apply_text(text);
        }
        revision
    }

    /// Adds what a text tells. Ignores lines that are not entries.
    pub fn apply_text(&mut self, text: &str) {
        for line in text.lines() {
            if let Some(label) = line.strip_prefix(GONE) {
                self.entries.remove(label);
            } else if let Some((label, value)) = line.split_once(SEPARATOR)
                && !line.starts_with('+')
            {
                self.entries.insert(label.to_owned(), value.to_owned());
            }
        }
    }

    /// Returns the value that was told for a label.
    pub fn value(&self, label: &str) -> Option<&str> {
        self.entries.get(label).map(String::as_str)
    }

    /// Returns true if nothing was told.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn of_entries(entries: &[EnvironmentEntry]) -> Self {
        let entries = entries.iter().map(|entry| (entry.label.clone(), entry.value.clone()));
        Self { entries: entries.collect() }
    }

    /// Returns the delta to these entries, if enough changed.
    pub(super) fn delta_to(
        &self,
        list: &EntryList,
        options: &DeltaOptions,
        counter: &dyn TokenCounter,
    ) -> Option<EnvironmentDelta> {
        let is_compared = |group: &EntryGroup| options.groups.contains(group);
        // 1) Entries that are new or have another value.
        let updated = list.shown.iter().filter(|entry| {
            is_compared(&entry.group) && self.value(&entry.label) != Some(entry.value.as_str())
        });
        let updated = updated.map(|entry| (entry.group, entry.to_line()));
        // 2) Entries that are gone. The time between two turns is true only once, so its end is no news.
        let gone = self
            .entries
            .keys()
            .filter(|label| !list.labels.contains(*label) && *label != IDLE_LABEL);
        let gone = gone.map(|label| (EntryGroup::of_label(label), format!("{GONE}{label}")));
        let mut changes: Vec<(EntryGroup, String)> =
            updated.chain(gone.filter(|(group, _)| is_compared(group))).collect();
        // 3) Enough of them?
        let is_urgent = changes.iter().any(|(group, _)| group.is_urgent());
        if !is_urgent && changes.len() < options.batch.max(1) {
            return None;
        }
        // 4) As many as fit, the urgent ones first.
        changes.sort_by_key(|(group, _)| (!group.is_urgent(), *group));
        let lines: Vec<TextLine> =
            changes.into_iter().map(|(_, text)| TextLine { text, entries: 1 }).collect();
        let (text, omitted) = fit(&lines, "changes", options.max_tokens, counter);
        if text.is_empty() {
            return None;
        }
        let mut revision = self.clone();
        revision.apply_text(&text);
        Some(EnvironmentDelta { text, revision, omitted })
    }
}

/// Returns the first lines, as many as have at most `max_tokens` together with a line that counts the rest, and the
/// number of entries in the rest. The text is empty if not even the first line fits.
pub(super) fn fit(
    lines: &[TextLine],
    noun: &str,
    max_tokens: u64,
    counter: &dyn TokenCounter,
) -> (String, usize) {
    let rest = |count: usize| lines[count..].iter().map(|line| line.entries).sum::<usize>();
    let text_of = |count: usize| {
        let mut text = String::new();
        for line in &lines[..count] {
            text.push_str(&line.text);
            text.push('\n');
        }
        match rest(count) {
            omitted if omitted > 0 && count > 0 => text + &format!("+{omitted} more {noun}\n"),
            _ => text,
        }
    };
    // Longer texts have more tokens, so the number is found by halving. Counters may break that rule; the second loop
    // keeps the bound for them, too.
    let (mut fits, mut fails) = (0, lines.len() + 1);
    while fits + 1 < fails {
        let middle = usize::midpoint(fits, fails);
        if counter.text(&text_of(middle)) <= max_tokens {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    loop {
        let text = text_of(fits);
        if fits == 0 || counter.text(&text) <= max_tokens {
            return (text, rest(fits));
        }
        fits -= 1;
    }
}
