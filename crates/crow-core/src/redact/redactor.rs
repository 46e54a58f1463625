//! Finding secrets and putting a mark in their place.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    ops::Range,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use super::{RedactedStream, forms::forms};

/// Finds known secrets, in whatever form they are written, and puts [`MARK`](Self::MARK) in their place.
///
/// The default knows none. Clones share what they know, and what any of them [learns](Self::learn).
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<SecretSet>>>);

#[derive(Default)]
pub(super) struct SecretSet {
    secrets: Vec<String>,
    /// Those that were learned, the oldest first.
    learned: Vec<String>,
    /// Made when something is first looked at.
    prepared: OnceLock<SecretMatcher>,
}

pub(super) struct SecretMatcher {
    /// All forms, in order.
    forms: Vec<String>,
    /// The length of the longest one.
    longest: usize,
    /// With which bytes they begin.
    first_bytes: BTreeSet<u8>,
    /// None if there are more forms than it can hold: they are looked for one by one then.
    searcher: Option<AhoCorasick>,
}

impl Redactor {
    /// Stands in place of a secret.
    pub const MARK: &str = "[redacted by crow]";
    /// How many learned secrets are known at a time.
    pub const MOST_LEARNED: usize = 1024;

    /// Looks for these secrets. Those of fewer than eight bytes are not looked for: they would garble what is shown.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets: BTreeSet<String> = long_enough(secrets).collect();
        let known = SecretSet { secrets: secrets.into_iter().collect(), ..SecretSet::default() };
        Self(Arc::new(RwLock::new(Arc::new(known))))
    }

    /// Looks for these secrets as well from now on, in whatever any clone is given. Of those that were learned only the last
    /// [`MOST_LEARNED`](Self::MOST_LEARNED) are known: keys that are renewed do not add up.
    pub fn learn(&self, secrets: impl IntoIterator<Item = String>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut learned = known.learned.clone();
        for secret in long_enough(secrets) {
            // What is said again is the newest again.
            learned.retain(|one| *one != secret);
            learned.push(secret);
        }
        learned.drain(..learned.len().saturating_sub(Self::MOST_LEARNED));
        if learned != known.learned {
            let secrets = known.secrets.clone();
            *known = Arc::new(SecretSet { secrets, learned, prepared: OnceLock::new() });
        }
    }

    /// Returns whether there is anything to look for.
    pub fn is_active(&self) -> bool {
        self.known().is_some()
    }

    /// Returns the text with the mark in place of each secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.known() else { return Cow::Borrowed(text) };
        let prepared = known.prepared();
        let Some(first) = prepared.find(text, 0) else { return Cow::Borrowed(text) };
        let mut shown = String::with_capacity(text.len());
        let (mut at, mut next) = (0, Some(first));
        while let Some(found) = next {
            shown.push_str(text.get(at..found.start).unwrap_or_default());
            shown.push_str(Self::MARK);
            at = found.end;
            next = prepared.find(text, at);
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(shown)
    }

    /// Redacts a text in its place. Returns whether there was a secret.
    pub fn redact_string(&self, text: &mut String) -> bool {
        match self.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(shown) => {
                *text = shown;
                true
            }
        }
    }

    /// Redacts all texts in a value, the names of its fields among them. Returns whether there was a secret.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        if !self.is_active() {
            return false;
        }
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact_value(item) | found)
            }
            Value::Object(fields) => {
                let mut found = false;
                if fields.keys().any(|name| matches!(self.redact(name), Cow::Owned(_))) {
                    found = true;
                    let named = std::mem::take(fields).into_iter();
                    fields.extend(
                        named.map(|(name, value)| (self.redact(&name).into_owned(), value)),
                    );
                }
                fields.values_mut().fold(found, |found, value| self.redact_value(value) | found)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns whether a value holds the mark, which then stands for something that its writer never saw.
    pub fn holds_mark(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(Self::MARK),
            Value::Array(items) => items.iter().any(Self::holds_mark),
            Value::Object(fields) => fields.values().any(Self::holds_mark),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Begins a stream of text in which a secret may come in parts.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self.clone())
    }

    /// Returns what is known at the moment, if there is anything.
    pub(super) fn known(&self) -> Option<Arc<SecretSet>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (known.count() > 0).then(|| Arc::clone(&known))
    }
}

/// Leaves out what is too short to be looked for.
fn long_enough(secrets: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let trimmed = secrets.into_iter().map(|secret| secret.trim().to_owned());
    trimmed.filter(|secret| secret.len() >= super::forms::SHORTEST)
}

impl SecretSet {
    pub(super) fn prepared(&self) -> &SecretMatcher {
        self.prepared.get_or_init(|| SecretMatcher::new(self.secrets.iter().chain(&self.learned)))
    }

    fn count(&self) -> usize {
        self.secrets.len() + self.learned.len()
    }
}

impl SecretMatcher {
    fn new<'a>(secrets: impl Iterator<Item = &'a String>) -> Self {
        let forms: BTreeSet<String> = secrets.flat_map(|secret| forms(secret)).collect();
        let forms: Vec<String> = forms.into_iter().collect();
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The fastest to build: it is needed before the first request.
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(&forms);
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        let first_bytes = forms.iter().filter_map(|form| form.bytes().next()).collect();
        Self { forms, longest, first_bytes, searcher: searcher.ok() }
    }

    /// Returns the first secret from `at` on, in its longest form.
    pub(super) fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let rest = text.get(at..)?;
        let found = if let Some(searcher) = &self.searcher {
            searcher.find(rest)?.range()
        } else {
            let each = self.forms.iter().filter_map(|form| {
                let start = rest.find(form.as_str())?;
                Some(start..start + form.len())
            });
            each.min_by_key(|found| (found.start, std::cmp::Reverse(found.end)))?
        };
        Some(at + found.start..at + found.end)
    }

    /// Returns where the longest end of a text begins that may be the beginning of a secret.
    pub(super) fn open_end(&self, text: &str) -> usize {
        let begins = |end: &str| {
            let place = self.forms.partition_point(|form| form.as_str() <= end);
            self.forms.get(place).is_some_and(|form| form.starts_with(end))
        };
        let first = text.ceil_char_boundary(text.len().saturating_sub(self.longest));
        let ends = text.bytes().enumerate().skip(first);
        let mut starts = ends.filter(|(_, byte)| self.first_bytes.contains(byte)).map(|(at, _)| at);
        starts.find(|at| text.get(*at..).is_some_and(begins)).unwrap_or(text.len())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({})", self.known().map_or(0, |known| known.count()))
    }
}
